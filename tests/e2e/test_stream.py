"""`gpudash --json` as a process: one document a line until its reader goes away or it is told."""

import os
import re
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from subprocess import PIPE

import pytest

from gpudash.feed import collector
from tests.e2e.forking import GPUDASH
from tests.e2e.stream import DEADLINE, Stream, streaming
from tests.fakenvml.build import environment
from tests.waiting import LIMIT_SECONDS, until


def test_one_document_a_line_every_interval(fakenvml: Path) -> None:
    with streaming(fakenvml, DEVICES=2) as stream:
        taken = [stream.next().taken_at for _ in range(12)]
    gaps = [(after - before).total_seconds() for before, after in pairwise(taken)]
    assert sum(gaps) >= 1.0
    # On a busy machine many are late, but by chance one is not.
    assert min(gaps) < 0.5


def test_interval_that_is_set_counts_at_once_and_goes_on_when_nobody_tells_any_more(
    fakenvml: Path,
) -> None:
    words = "--interval", "3600"
    with streaming(
        fakenvml, *words, stdin=subprocess.PIPE, variables=collector.CONTROLLED, DEVICES=1
    ) as stream:
        # The second one is never late, whatever the interval.
        stream.next()
        stream.next()
        os.write(stream.process.stdin.fileno(), collector.interval_message(0.1))
        for _ in range(3):
            stream.next()
        stream.process.stdin.close()
        stream.process.stdin = None
        for _ in range(3):
            stream.next()


def test_reader_that_goes_away_ends_it_before_the_next_sample(fakenvml: Path) -> None:
    with streaming(fakenvml, "--interval", "3600", DEVICES=1) as stream:
        stream.next()
        stream.process.stdout.close()
        assert stream.process.wait(DEADLINE) == 141
        assert stream.process.stderr.read() == b""
        stream.process.stdout = None


def test_a_far_end_whose_link_takes_nothing_ends_by_itself(fakenvml: Path) -> None:
    code = (
        "from gpudash.cli import stream; stream.STALL_SECONDS = 0.2; "
        "from gpudash.__main__ import main; main()"
    )
    words = [sys.executable, "-c", code, "--json", "--interval", "0.1"]
    env = {**environment(fakenvml, DEVICES=8), "GPUDASH_CONTROLLED": "far"}
    with subprocess.Popen(words, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=env) as process:
        try:
            # As where a reader has gone away.
            assert process.wait(LIMIT_SECONDS) == 128 + signal.SIGPIPE
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_it_quietly(fakenvml: Path, number: signal.Signals) -> None:
    with streaming(fakenvml, DEVICES=1) as stream:
        stream.next()
        stream.process.send_signal(number)
        assert stream.process.wait(DEADLINE) in (-number, 128 + number)
        assert stream.process.stderr.read() == b""


def test_ctrl_c_that_its_starter_ignores_ends_nothing() -> None:
    words = "sh", "-c", 'trap "" INT; exec "$@"', "sh", *GPUDASH, "--json", "--demo=single"
    with subprocess.Popen(words, stdout=PIPE) as process:
        try:
            stream = Stream(process)
            stream.next()
            process.send_signal(signal.SIGINT)
            seen = stream.next().taken_at
            assert stream.next().taken_at > seen
        finally:
            process.kill()


def test_ctrl_c_ends_it_within_a_call_that_hangs(fakenvml: Path, tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    hang = "nvmlDeviceGetUtilizationRates:1:60:1"
    with streaming(fakenvml, DEVICES=2, HANG=hang, COUNT=counts) as stream:
        stream.next()
        until(lambda: _calls(counts, "nvmlDeviceGetUtilizationRates") >= 4)
        stream.process.send_signal(signal.SIGINT)
        assert stream.process.wait(DEADLINE) in (-signal.SIGINT, 130)


def _calls(counts: Path, function: str) -> int:
    if not counts.exists():
        return 0
    # It may be read while it is written.
    found = re.search(rf"(?m)^{function} +(\d+)", counts.read_text())
    return int(found[1]) if found else 0


def test_a_stream_begins_with_a_whole_snapshot(fakenvml: Path) -> None:
    with streaming(fakenvml, DEVICES=2) as stream:
        first = stream.next()
    assert not first.brief
    assert first.topology is not None
    assert first.findings is not None
    assert first.devices[0].serial is not None
