"""The history of a service, read over its socket."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from gpudash.analysis.history import History
from gpudash.cli.arguments import parse
from gpudash.doctor.environment import history_checks
from gpudash.feed.attached import ServiceError
from gpudash.feed.live import LiveFeed
from gpudash.feed.past import open_past
from gpudash.feed.recording.reader import Recording
from gpudash.feed.service import LineServer
from gpudash.model import wire
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean
from gpudash.model.wire import Received
from gpudash.system.terminal import wait
from gpudash.system.zstd import zstd
from tests.factories import make_host, make_snapshot, received
from tests.feed.recording.lines import line
from tests.feed.test_history import HOUR, START, Host
from tests.waiting import LIMIT_SECONDS


class Served:
    """A service in a thread, whose history is in a folder."""

    def __init__(self, path: Path, past: Path | None) -> None:
        self._server, self._ends = LineServer(5.0), threading.Event()
        self._server.past = None if past is None else str(past)
        self._server.listen(str(path))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self._ends.is_set():
            wait(0.01, self._server.descriptor)
            self._server.advance()
        self._server.close()

    def close(self) -> None:
        self._ends.set()
        self._thread.join()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUDASH_SOCKET", str(tmp_path / "socket"))
    return tmp_path / "socket"


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A host of which three hours are known."""
    host = Host(tmp_path_factory.mktemp("host") / "history")
    host.run(3 * HOUR, 60)
    host.history.close()
    return host


@pytest.fixture
def host(remembered: Host, tmp_path: Path) -> Host:
    host = copy.copy(remembered)
    host.folder = shutil.copytree(remembered.folder, tmp_path / "history")
    return host


@pytest.fixture
def served(path: Path, host: Host) -> Iterator[Served]:
    served = Served(path, host.folder)
    yield served
    served.close()


def lines(recording: Recording) -> list[bytes]:
    return [each.line for each in (recording.first, *recording.after(recording.first))]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--once", "--json", "--at", "-0s"), -1),
        (("--json", "--at", "-0s"), -1),
        (("--format", "json", "--at", "+1h"), 60),
    ],
)
def test_a_time_without_a_file_is_of_it(
    words: tuple[str, ...],
    expected: int,
    served: Served,
    host: Host,
    capfd: pytest.CaptureFixture[str],
) -> None:
    options = parse(words)
    assert options.run(options) == 0
    snapshot = wire.decode(capfd.readouterr().out.encode().strip())
    assert snapshot.taken_at == host.written[expected]


def test_doctor_says_what_is_in_it(
    served: Served, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", host.wall.timestamp)
    (check,) = history_checks()
    assert check.verdict == "PASS"
    assert f"{len(list(host.folder.iterdir()))} segments" in check.finding
    monkeypatch.setattr("time.time", lambda: host.wall.timestamp() + HOUR)
    (check,) = history_checks()
    assert "not written for 1h0" in check.finding
    min(host.folder.iterdir()).write_bytes(bytes(999))
    monkeypatch.setattr("time.time", host.wall.timestamp)
    (check,) = history_checks()
    assert (check.verdict, "1 segment cannot be read" in check.finding) == ("WARN", True)


class Asking:
    """A client by hand."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(LIMIT_SECONDS)
        self._socket.connect(str(path))
        self.answer()

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, **request: object) -> None:
        self._socket.sendall(json.dumps(request).encode() + b"\n")

    def answer(self) -> tuple[dict[str, object], list[int]]:
        data, descriptors, _, _ = socket.recv_fds(self._socket, 1 << 20, 9)
        return json.loads(data), descriptors


def test_it_is_what_the_folder_has(served: Served, host: Host) -> None:
    assert lines(open_past()) == lines(Recording(str(host.folder)))


def test_it_is_read_on_from_a_service_that_was_started_again(
    served: Served, path: Path, host: Host
) -> None:
    recording = open_past()
    served.close()
    with pytest.raises(ServiceError, match="no gpudash serve that may be asked"):
        lines(recording)
    again = Served(path, host.folder)
    try:
        assert len(lines(recording)) == 180
    finally:
        again.close()


def test_without_a_history_it_is_said_so(path: Path) -> None:
    served = Served(path, None)
    try:
        with pytest.raises(ServiceError, match="keeps no history"):
            open_past()
    finally:
        served.close()


def test_nothing_else_is_handed_out_and_nothing_to_write(
    served: Served, path: Path, host: Host, tmp_path: Path
) -> None:
    link = host.folder / "00000099-20261102T090000Z.10s.jsonl.zst"
    link.symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("mine")
    name = min(each.name for each in host.folder.iterdir())
    (host.folder / "notes").touch()
    with Asking(path) as client:
        for other in (
            *("notes", ".", "..", "", "../secret", link.name, f"{name}\0", f"./{name}"),
            f"../history/{name}",
            "9" * 200,
        ):
            client.ask(past=other)
            assert client.answer() == ({"past": None}, [])
        client.ask(past=name)
        answer, (descriptor,) = client.answer()
        assert answer == {"past": name}
        assert os.read(descriptor, 1 << 20) == (host.folder / name).read_bytes()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(descriptor, b"x")
        os.close(descriptor)


@pytest.mark.parametrize("request_", [{"past": 5}, {"past": None}, {"interval": 5}])
def test_what_does_not_go_with_the_past_ends_the_connection(
    served: Served, path: Path, request_: dict[str, object]
) -> None:
    with Asking(path) as client:
        client.ask(past="names")
        client.answer()
        client.ask(**request_)
        answer, _ = client.answer()
        assert "error" in answer


def test_answers_that_are_not_read_are_one_each(served: Served, path: Path, host: Host) -> None:
    name = min(each.name for each in host.folder.iterdir())
    with Asking(path) as client:
        for _ in range(9):
            client.ask(past=name)
        open_past()
        found = client.answer()[1]
        assert len(found) == 1
        os.close(found[0])


@pytest.mark.parametrize(
    "requests",
    [
        [b'{"past":"names"}\n{"past":"names"}\n'],
        [b'{"interval":' + b"9" * 200, b"9" * 200 + b"}\n"],
    ],
)
def test_who_asks_and_leaves_harms_no_others(path: Path, host: Host, requests: list[bytes]) -> None:
    server = LineServer(5.0)
    server.past = str(host.folder)
    server.listen(str(path))
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            server.advance()
            assert client.recv(1 << 16)
            for part in requests[:-1]:
                client.sendall(part)
                server.advance()
            client.sendall(requests[-1])
        server.advance()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            server.advance()
            assert client.recv(1 << 16)
    finally:
        server.close()


def test_a_segment_that_goes_leaves_nothing_to_who_has_it_open(tmp_path: Path) -> None:
    host = Host(tmp_path / "short", keep=HOUR)
    host.run(600, 60)
    oldest = min(host.folder.iterdir())
    with oldest.open("rb") as kept:
        host.run(4 * HOUR, 600)
        assert not oldest.exists()
        assert os.fstat(kept.fileno()).st_size == 0


def test_one_that_goes_while_it_is_read_is_not_called_damaged(tmp_path: Path) -> None:
    segment = tmp_path / "00000001-20261102T090000Z.10s.jsonl.zst"
    frames = [zstd.compress(line(second) + b"\n") for second in range(20)]
    segment.write_bytes(b"".join(frames))
    recording = Recording(str(tmp_path))
    assert len(lines(recording)) == 20
    segment.write_bytes(b"")
    assert len(list(recording.after(recording.first))) < 5
    assert recording.note == ""


async def test_steps_of_a_screen_go_on_in_it(served: Served, host: Host) -> None:
    feed = LiveFeed(["true"], 1.0, wire.decode)
    feed.adapt_past = lambda each: each
    kept, shown = History(), list[Snapshot]()
    timeline = feed.timeline(kept, shown.append)
    live = host.wall + timedelta(minutes=10)
    uptime = 2 * 10.0**6

    def give(second: int) -> None:
        snapshot = make_snapshot(
            1,
            taken_at=live + timedelta(seconds=second),
            host=make_host(uptime_seconds=uptime + second),
            collected_by=clean("root"),
        )
        timeline.receive([Received(*received(snapshot))], after_jump=False)

    async def shows(moment: datetime) -> None:
        while shown[-1].taken_at != moment or "ASKING" in timeline.mark:
            assert not timeline.message
            await asyncio.sleep(0.001)

    for second in range(3):
        give(second)
    timeline.step(-3)
    give(3)
    await asyncio.wait_for(shows(host.written[-1]), LIMIT_SECONDS)
    timeline.step(-2)
    timeline.step(-2)
    await asyncio.wait_for(shows(host.written[-5]), LIMIT_SECONDS)
    timeline.step(1)
    await asyncio.wait_for(shows(host.written[-4]), LIMIT_SECONDS)
    timeline.go_to(START + timedelta(minutes=62, seconds=30))
    assert timeline.mark == "ASKING FOR 2h07m AGO"
    await asyncio.wait_for(shows(host.written[62]), LIMIT_SECONDS)
    key = shown[-1].devices[0].key
    chart: list[float | None] = []
    while sum(each is not None for each in chart) < 9:
        await asyncio.sleep(0.001)
        chart = kept.series(key, "power_usage_mw", 600, 10, timeline.moment)
    give(4)
    timeline.step(600)
    await asyncio.wait_for(shows(live), LIMIT_SECONDS)
    timeline.go_live()
    assert shown[-1].taken_at == live + timedelta(seconds=4)
    assert kept.series(key, "power_usage_mw", 600, 2)[0] is None


async def test_a_screen_of_a_service_without_one_says_so(path: Path) -> None:
    feed = LiveFeed(["true"], 1.0, wire.decode)
    feed.adapt_past = lambda each: each
    shown = list[Snapshot]()
    timeline = feed.timeline(History(), shown.append)
    snapshot = make_snapshot(1, collected_by=clean("root"))
    timeline.receive([Received(*received(snapshot))], after_jump=False)
    timeline.step(-1)
    while not timeline.message:
        await asyncio.sleep(0.001)
    assert "no gpudash serve" in timeline.message
    assert shown[-1] == snapshot
