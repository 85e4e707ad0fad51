"""How old a screen is, and how soon a key is answered, at the other end of a slow link."""

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tests.benchmarks.commands import Command
from tests.e2e.slow import SlowTerminal

Figures = dict[str, float]

BYTES_PER_SECOND = 10_000
_START_SECONDS = 60.0
_KEY_SECONDS = 120.0


@dataclass(frozen=True)
class Watched:
    """A command with what its help, which `h` opens and Escape closes, alone shows."""

    command: Command
    help: str


def measure(
    watched: Watched, env: Mapping[str, str], size: tuple[int, int], seconds: float, keys: int
) -> Figures:
    """Watch a program's picture for so many seconds, then open its help so many times."""
    told = {"columns": size[0], "rows": size[1], "truecolor": True}
    argv = watched.command.argv
    with SlowTerminal(argv, env=env, bytes_per_second=BYTES_PER_SECOND, **told) as terminal:
        terminal.wait_for(lambda text: terminal.age > 0 and "GPU" in text, _START_SECONDS)
        terminal.oldest(seconds / 2)
        oldest, before = terminal.oldest(seconds), len(terminal.raw)
        answers = [_help(terminal, watched.help) for _ in range(keys)]
        return {
            "oldest_s": oldest,
            "unseen_kb": terminal.queued / 1e3,
            "help_ms": statistics.median(answers) * 1e3,
            "help_kb": (len(terminal.raw) - before) / keys / 1e3,
        }


def _help(terminal: SlowTerminal, mark: str) -> float:
    """Return the seconds until the help is seen, and close it."""
    start = time.monotonic()
    terminal.send("h")
    terminal.wait_for(mark, _KEY_SECONDS)
    answered = time.monotonic() - start
    terminal.send("escape")
    terminal.wait_for(lambda text: mark not in text and terminal.age > 0, _KEY_SECONDS)
    terminal.oldest(2)
    return answered
