"""`gpudash replay` in a real terminal: a recorded host, stopped, stepped, sought, never killed."""

import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import chain
from pathlib import Path

import pytest

from tests.e2e.forking import GPUDASH
from tests.e2e.run import each_of
from tests.e2e.terminal import Terminal
from tests.factories import make_device, make_host, make_process
from tests.feed.recording.lines import START, line, write
from tests.holders import Holder

_CLOCK = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d")


def recorded(number: int) -> bytes:
    """A second of a host whose GPU tells by its power which second it is."""
    device = make_device(power_usage_mw=number * 1000, enforced_power_limit_mw=9_999_000)
    return line(number, devices=(device,))


@pytest.fixture
def replay() -> Iterator[Callable[..., Terminal]]:
    terminals: list[Terminal] = []

    def replay(path: Path, *words: str) -> Terminal:
        argv = [*GPUDASH, "replay", str(path), "--no-config", *words]
        terminals.append(Terminal(argv, env=dict(os.environ)))
        return terminals[-1]

    yield replay
    for terminal in terminals:
        terminal.__exit__(None, None, None)


def after(minute: int, second: int = 0) -> Callable[[str], bool]:
    """Return whether the header shows a time after that of a sample: one second may be missed."""
    first = at(minute, second)

    def shows(text: str) -> bool:
        found = _CLOCK.search(text.splitlines()[0])
        return found is not None and found[0] > first

    return shows


def at(minute: int, second: int = 0) -> str:
    """The time of a sample as the header has it, on the clock of here."""
    moment = datetime.fromtimestamp(START.timestamp() + minute * 60 + second)
    return f"{moment:%m-%d %H:%M:%S}"


def test_it_plays_stops_steps_ends_and_begins_again(
    tmp_path: Path, replay: Callable[..., Terminal]
) -> None:
    # The parts of an hour that are shown.
    parts = (range(180), range(1790, 1860), range(2280, 2480), range(3540, 3600))
    hour = write(tmp_path / "host.jsonl.zst", map(recorded, chain(*parts)))
    terminal = replay(hour, "--at", "+30m")
    terminal.wait_for(re.compile(f"REPLAY  ?{at(30)[:9]}"))
    terminal.wait_for(after(30, 1))
    terminal.send("p", then="REPLAY PAUSED")
    terminal.wait_for("p play")
    terminal.settle()
    stopped = terminal.text.splitlines()[0]
    terminal.rest(1.2)
    assert terminal.text.splitlines()[0] == stopped
    terminal.send("@", then="Time")
    terminal.send(*at(40).split()[1], "enter")
    terminal.wait_for(lambda text: f"PAUSED  {at(40)}" in text and "2400/9999W" in text)
    terminal.send("]", then=lambda text: at(40, 1) in text and "2401/9999W" in text)
    terminal.send("[", "[", then=lambda text: at(39, 59) in text and "2399/9999W" in text)
    terminal.send("}", then=lambda text: at(40, 14) in text and "2414/9999W" in text)
    # Further back than what is kept of its past.
    for step in range(1, 9):
        terminal.send("{", then=at(40, 14 - 15 * step))
    terminal.send("+", "+", then="4x")
    terminal.send("-", then="2x")
    terminal.send("@", then="Time")
    terminal.send(*"-2s", "enter", then=at(59, 57))
    terminal.send("p", then="the recording ends here")
    terminal.wait_for(lambda text: at(59, 59) in text and "REPLAY END" in text)
    terminal.send("p", then=lambda text: after(0, 1)(text) and not after(50)(text))
    assert terminal.quit() == 0


def test_no_process_is_killed_in_a_recording_and_help_names_its_keys(
    tmp_path: Path, replay: Callable[..., Terminal], job: Holder
) -> None:
    process = make_process(pid=job.pid, create_time=None, start_ticks=1)
    here = make_host(hostname=os.uname().nodename)
    path = write(tmp_path / "host.jsonl", [line(0, processes=(process,), host=here)])
    terminal = replay(path)
    terminal.wait_for(str(job.pid))
    for key in ("K", "T", "I", "f9"):
        terminal.send(key, then="this is a recording: its processes cannot be signalled")
        terminal.send("[", then=lambda text: "this is a recording" not in text)
    terminal.send("X", then="this is a recording: there is no driver to detach from")
    terminal.send("W", then="this is a recording: it has no GPU to read")
    terminal.send("enter", then="/proc was not recorded")
    terminal.send("K", then="this is a recording: its processes")
    assert job.alive
    terminal.send("escape", then="p play [ back ] next @ time + faster")
    terminal.resize(160, 60)
    terminal.send("h", then="go to another time")
    assert "faster" in terminal.text
    assert "SIGKILL" not in terminal.text
    assert "let go of the GPUs" not in terminal.text


def test_without_a_terminal_it_names_what_works_there(fakenvml: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "host.jsonl", [recorded(0)])
    ((status, _, errors),) = each_of([(f"replay {path}", {})], fakenvml)
    problem, _, advice = errors.rstrip("\n").partition("use gpudash ")
    assert (status, problem) == (2, "gpudash: not a terminal: ")
    assert advice == f"--once --replay {path}"
    assert each_of([(advice, {})], fakenvml)[0][0] == 0
