"""What a full-screen program costs while it runs in a terminal of its own."""

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tests.benchmarks.commands import Command
from tests.benchmarks.process_tree import ProcessTree
from tests.e2e.emulation import Emulator
from tests.e2e.terminal import Terminal

Figures = dict[str, float]

_COMPLETE = 0.9
"""Share of the settled screen's printed cells that makes a frame complete."""
_SILENCE = 0.04


@dataclass(frozen=True)
class Plan:
    """How long and in what size each program is watched."""

    columns: int = 120
    rows: int = 40
    warm_seconds: float = 4.0
    window_seconds: float = 15.0
    keys: int = 10


def measure(command: Command, env: Mapping[str, str], plan: Plan) -> Figures:
    """Run one program from start to quit and return its figures.

    Raises RuntimeError when it ends before it is told to.
    """
    told = {**env, "COLORTERM": "truecolor"}
    with Terminal(command.argv, env=told, columns=plan.columns, rows=plan.rows) as terminal:
        watch = _Watch(terminal)
        watch.until(plan.warm_seconds)
        if terminal.exit_status is not None:
            raise RuntimeError(f"{command.name}: {terminal.exit_status}\n{terminal.text}")
        settled = _cells(terminal.text)
        figures = watch.window(plan.window_seconds)
        figures["key_ms"] = statistics.median(watch.key(key) for key in ("down", "up") * plan.keys)
        figures |= _first_frames(watch.log, plan, settled)
        start = time.monotonic()
        terminal.send("q")
        terminal.wait_exit()
        figures["quit_ms"] = (time.monotonic() - start) * 1e3
    return figures


class _Watch:
    """Reads a terminal by the clock and keeps what came when."""

    def __init__(self, terminal: Terminal) -> None:
        self.log: list[tuple[float, bytes]] = []
        self._terminal = terminal
        self._tree = ProcessTree(terminal.pid)

    def until(self, moment: float) -> None:
        """Read until a number of seconds after the start."""
        while (left := moment - self._now()) > 0:
            self._read(left)

    def window(self, seconds: float) -> Figures:
        """Watch the steady state: CPU, bytes and memory of screen and collector together."""
        begin, read, cpu = self._now(), len(self._terminal.raw), self._tree.cpu_seconds()
        self.until(begin + seconds)
        passed, resident = self._now() - begin, self._tree.resident_mib()
        return {
            "cpu_s_per_min": (self._tree.cpu_seconds() - cpu) / passed * 60,
            "bytes_per_s": (len(self._terminal.raw) - read) / passed,
            "resident_mib": resident[0],
            "children_mib": sum(resident[1:]),
        }

    def key(self, key: str) -> float:
        """Return the milliseconds from a key, pressed in a quiet moment, to the first answer."""
        self._read(1.5)
        while self._read(_SILENCE):
            pass
        start = time.monotonic()
        self._terminal.send(key)
        # The emulator here takes its time to read an answer; when it came is what counts.
        self._terminal.wait_readable(0.8)
        answered = time.monotonic()
        self._read(0)
        return (answered - start) * 1e3

    def _read(self, timeout: float) -> bool:
        """Read once; whether anything came."""
        before = len(self._terminal.raw)
        self._terminal.pump(timeout)
        chunk = bytes(self._terminal.raw[before:])
        if chunk:
            # The emulator here takes its time to show it; when it came is what counts.
            self.log.append((self._terminal.read_at - self._terminal.started, chunk))
        return bool(chunk)

    def _now(self) -> float:
        return time.monotonic() - self._terminal.started


def _first_frames(log: list[tuple[float, bytes]], plan: Plan, settled: int) -> Figures:
    """Replay the start: the first pixels, and the first complete frame that stays."""
    emulator = Emulator(plan.columns, plan.rows)
    first, complete = None, None
    for moment, chunk in log:
        if moment > plan.warm_seconds:
            break
        emulator.feed(chunk)
        cells = _cells(emulator.text)
        first = moment if first is None and cells else first
        if cells < _COMPLETE * settled:
            complete = None
        elif complete is None:
            complete = moment
    return {
        "first_pixels_ms": (first or plan.warm_seconds) * 1e3,
        "first_frame_ms": (complete or plan.warm_seconds) * 1e3,
    }


def _cells(text: str) -> int:
    return sum(not character.isspace() for character in text)
