"""Somebody sets the wall clock, by an hour and back, while gpudash looks."""

import re
import time
from functools import partial
from pathlib import Path

import pytest

from gpudash.model.snapshot import Snapshot
from tests.e2e.run import complete
from tests.e2e.screen import STALE, watching
from tests.e2e.stream import streaming
from tests.fakenvml.build import CLOCK, build
from tests.holders import Holders

HOUR = 3600


class Clock:
    """A wall clock for the processes to be started, which can be set."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._file = folder / "ahead"
        self.set(0)
        monkeypatch.setenv("LD_PRELOAD", str(build(folder, CLOCK, "wallclock.so")))
        monkeypatch.setenv("WALLCLOCK", str(self._file))

    def set(self, seconds_ahead: int) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(str(seconds_ahead))
        fresh.replace(self._file)


@pytest.fixture
def clock(fakenvml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Needs what compiles the stand-in, which is compiled by then."""
    return Clock(tmp_path, monkeypatch)


def hour(ahead: int) -> str:
    """Return the hour that the header shows by such a clock."""
    return time.strftime(" %H:", time.localtime(time.time() + ahead))


def is_ahead(seconds: int, snapshot: Snapshot) -> bool:
    """Whether a sample was taken at such a time, by the clock of everybody else."""
    return abs(snapshot.taken_at.timestamp() - time.time() - seconds) < 600


def test_stream_keeps_its_pace_and_its_values(
    fakenvml: Path, clock: Clock, holders: Holders
) -> None:
    (busy,) = holders(1, ("sh", "-c", "while :; do :; done"))
    with streaming(fakenvml, DEVICES=2, PROCS_PER_DEVICE=1, PIDS=busy.pid) as stream:
        stream.until(lambda snapshot: snapshot.host.cpu_percent)
        before = stream.next()
        for ahead in (HOUR, 0, -HOUR, 0):
            clock.set(ahead)
            stream.until(partial(is_ahead, ahead))
            after = [stream.next() for _ in range(3)]
            for snapshot in after:
                assert all(complete(device) for device in snapshot.devices)
                assert [gpu.uuid for gpu in snapshot.devices] == [
                    gpu.uuid for gpu in before.devices
                ]
                (process,) = snapshot.processes
                assert process.key == before.processes[0].key
                assert process.hidden_reason is None
                assert 0 <= (process.cpu_percent or 0) <= 100 * (snapshot.host.cpu_count or 1)
            uptimes = [snapshot.host.uptime_seconds or 0 for snapshot in (before, *after)]
            assert uptimes == sorted(uptimes)
            assert uptimes[-1] - uptimes[0] < 600


def test_screen_goes_on(fakenvml: Path, clock: Clock) -> None:
    row = re.compile(r"(?m)^ *0 .*A100.*$")
    with watching(fakenvml, DEVICES=2) as terminal:
        shown = row.findall(terminal.wait_for(row))
        for ahead in (HOUR, 0, -HOUR, 0):
            clock.set(ahead)
            terminal.wait_for(lambda text, ahead=ahead: hour(ahead) in text)
            for _ in range(3):
                terminal.wait_for(lambda text, shown=shown: row.findall(text) not in ([], shown))
                shown = row.findall(terminal.text)
                assert not STALE.search(terminal.text)
                assert "NO COLLECTOR" not in terminal.text
        assert terminal.quit() == 0
