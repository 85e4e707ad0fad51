import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpudash.feed.sampler import LineStream, Sampler, SilenceError, open_sampler
from gpudash.feed.supervisor import Limits
from gpudash.model.errors import GpudashError
from gpudash.model.fault import Fault
from gpudash.model.text import clean
from gpudash.model.wire import decode, encode
from tests.factories import make_snapshot
from tests.feed.clock import Clock

LINE = encode(make_snapshot(1)).decode()


def collector(script: str) -> list[str]:
    """A command that takes an interval, as a collector does."""
    return [sys.executable, "-c", f"import sys, time; line = {LINE!r}\n{script}"]


def test_the_last_samples_are_kept() -> None:
    sampler = Sampler(collector("[print(line) for _ in range(9)]"), interval=0.1, keep=3)
    sampler.fill()
    assert len(sampler.samples) == 3
    sampler.close()


def test_what_is_no_snapshot_is_passed_over() -> None:
    sampler = Sampler(collector("print('{}'); print('?'); print(line)"), interval=0.1, keep=1)
    sampler.fill()
    assert len(sampler.samples) == 1
    sampler.close()


def test_a_collector_that_ends_leaves_its_line_and_status() -> None:
    script = "sys.stderr.write('gpudash: no driver; load it\\n'); sys.exit(9)"
    sampler = Sampler(collector(script), interval=0.1, keep=1)
    with pytest.raises(GpudashError, match=r"^no driver; load it$") as caught:
        sampler.fill()
    assert caught.value.exit_status == 9
    sampler.close()


def test_why_the_driver_is_silent_is_the_message() -> None:
    fault = Fault(source="nvml", code=10, message=clean("driver not answering 5 s, in nvmlInit"))
    silent = encode(make_snapshot(0, errors=(fault,))).decode()
    script = f"print({silent!r}, flush=True); time.sleep(600)"
    for seconds in (0.5, 5, 60):
        limits = Limits(answer=seconds)
        sampler = Sampler(collector(script), interval=0.1, keep=1, limits=limits)
        with pytest.raises(SilenceError) as caught:
            sampler.fill()
        sampler.close()
        if "nvmlInit" in str(caught.value):  # else the machine is too busy for that
            break
    assert str(caught.value).startswith("driver not answering 5 s, in nvmlInit; sudo")
    assert caught.value.exit_status == 10


def test_a_hung_collector_is_not_replaced_at_each_retry(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    argv = ["sh", "-c", f"echo >> {starts}; exec sleep 600"]
    sampler = Sampler(argv, interval=0.01, keep=1, limits=Limits(answer=0.1, retry=0.01))
    troubles: list[str] = []
    while not starts.exists():
        sampler.poll(0.05)
    assert not sampler.next_sample_or_retry(
        lambda trouble: len(troubles) < 5 and not troubles.append(trouble)
    )
    assert starts.read_text() == "\n"
    assert all("the driver did not answer" in trouble for trouble in troubles)
    sampler.close()


def test_retrying_goes_on_where_the_collector_cannot_be_started(tmp_path: Path) -> None:
    script = tmp_path / "collector"
    troubles: list[str] = []

    def write(text: str) -> None:
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o700)

    def goes_on(trouble: str) -> bool:
        troubles.append(trouble)
        if len(troubles) == 1:
            script.unlink()
        else:
            write(f"echo '{LINE}'; exec sleep 600")
        return True

    write("exit 9")
    sampler = Sampler([str(script)], interval=0.1, keep=1, limits=Limits(retry=0.01))
    assert sampler.next_sample_or_retry(goes_on)
    assert troubles[0] == "the collector ended with status 9"
    assert troubles[1].startswith("the collector cannot be started: ")
    sampler.close()


def test_retrying_has_an_end() -> None:
    sampler = Sampler(collector("sys.exit(9)"), interval=0.1, keep=1)
    assert not sampler.next_sample_or_retry(lambda trouble: False)
    sampler.close()


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(GpudashError, match="the collector cannot be started"):
        Sampler(["/no/such/program"], interval=0.1, keep=1)


@pytest.mark.parametrize(("window", "kept"), [(0, 1), (0.2, 1), (2, 9), (60, 9)])
def test_how_many_samples_a_window_needs(window: float, kept: int) -> None:
    sampler = open_sampler(collector("print(line)"), window)
    assert sampler.samples.maxlen == kept
    sampler.close()


Start = Callable[..., LineStream]


@pytest.fixture
def start(clock: Clock) -> Iterator[Start]:
    """Starts a shell script in the place of a collector."""
    started: list[LineStream] = []

    def start(script: str) -> LineStream:
        started.append(LineStream(["sh", "-c", script], 1.0, decode, clock=clock))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def silent() -> Iterator[int]:
    """A descriptor that never can be read."""
    reading, writing = os.pipe()
    yield reading
    os.close(reading)
    os.close(writing)


def host(name: str) -> str:
    """A line that says where it was taken."""
    return LINE.replace('"hostname":"node7"', f'"hostname":"{name}"')


def received(stream: LineStream, silent: int, condition: Callable[[list[str]], bool]) -> list[str]:
    """Take lines until something holds of all that came."""
    found: list[str] = []
    deadline = time.monotonic() + 60
    while not condition(found):
        assert time.monotonic() < deadline, f"only {found}"
        stream.wait(0.05, silent)
        found += [sample.line.decode() for sample in stream.take()]
    return found


def test_whole_lines_come_as_they_were_written(start: Start, silent: int) -> None:
    one, two = host("one"), host("two")
    stream = start(f"printf '%s\\n' '{one}' '{two}'; printf half; exec sleep 60")
    received(stream, silent, lambda found: found == [one, two])
    assert stream.problem == ""


def test_a_stream_without_any_line_is_an_error(start: Start, silent: int) -> None:
    stream = start("echo gpudash: no driver >&2; exit 9")
    with pytest.raises(GpudashError, match=r"^no driver$") as raised:
        received(stream, silent, bool)
    assert raised.value.exit_status == 9


def test_a_collector_that_dies_is_replaced(start: Start, silent: int, clock: Clock) -> None:
    stream = start(f"echo '{LINE}'; echo gpudash: out of memory >&2; exit 1")
    received(stream, silent, lambda _: bool(stream.problem))
    assert stream.problem == "out of memory"
    assert stream.take() == []
    clock.now += 1.5
    received(stream, silent, lambda found: len(found) == 1)


def test_a_silent_collector_is_trouble_and_then_replaced(
    start: Start, silent: int, clock: Clock
) -> None:
    begin, end = LINE.split('"node7"')
    stream = start(f"echo '{begin}\"'$$'\"{end}'; exec sleep 60")
    first = received(stream, silent, bool)
    clock.now += 6
    assert stream.problem == "no sample for 6s: the driver does not answer"
    assert stream.take() == []
    clock.now += 30
    second = received(stream, silent, bool)
    assert second != first
    assert stream.problem == ""


def test_a_collector_that_cannot_be_started_again_is_tried_later(
    tmp_path: Path, silent: int, clock: Clock
) -> None:
    script = tmp_path / "collector"
    text = f"#!/bin/sh\necho '{LINE}'\n"
    script.write_text(text)
    script.chmod(0o700)
    stream = LineStream([str(script)], 1.0, decode, clock=clock)
    received(stream, silent, lambda _: bool(stream.problem))
    script.unlink()
    clock.now += 1.5
    assert stream.take() == []
    assert stream.problem.startswith("the collector cannot be started: ")
    script.write_text(text)
    script.chmod(0o700)
    clock.now += 3
    received(stream, silent, lambda found: found == [LINE])
    stream.close()


def test_a_stream_that_never_could_be_started_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GpudashError, match="the collector cannot be started"):
        LineStream([str(tmp_path / "none")], 1.0, decode)
