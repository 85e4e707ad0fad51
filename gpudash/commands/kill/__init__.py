"""`gpudash kill PID...`: shows whom it hits, asks, signals, and says what came of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack

from gpudash.errors import ActionError, ExitStatus, UsageError

_USAGE = "gpudash kill PID... [--signal NAME] [--tree] [--yes]"
_YES = (b"y", b"yes")


def run(
    *,
    pids: Sequence[str],
    signal: str = "TERM",
    tree: bool = False,
    yes: bool = False,
    read_only: bool = False,
    demo: str | None = None,
    show_secrets: bool = False,
) -> int:
    """Signal processes that use GPUs; returns 0 if all ended, or got a signal that ends none.

    Raises UsageError for a PID or a signal that is none and where nobody can be asked,
    ActionError when nothing can be signalled at all.
    """
    if read_only or os.environ.get("GPUDASH_READ_ONLY", "0") not in ("", "0"):
        raise ActionError("gpudash is read-only: nothing was sent")
    # A read-only gpudash does not even load what can signal.
    from gpudash.actions import find_signal
    from gpudash.actions.pin import refuse_host
    from gpudash.commands.kill.aim import aim
    from gpudash.commands.kill.strike import strike
    from gpudash.sources.local import open_source

    numbers, chosen = _numbers(pids), find_signal(signal)
    source = open_source(demo, show_secrets=show_secrets)
    before = source.sample()
    refuse_host(before.host)
    if not yes and not os.isatty(0):
        raise UsageError("kill asks before it acts and there is no terminal: add --yes")
    with ExitStack() as held:
        aimed = (aim(pid, before, tree, held, show_secrets=show_secrets) for pid in numbers)
        hits = [hit for hit in aimed if hit]
        if not hits or not (yes or _agreed(sum(len(hit.targets) for hit in hits), chosen.name)):
            return ExitStatus.FAILURE
        done = strike(hits, chosen, before, source)
    return ExitStatus.OK if done and len(hits) == len(numbers) else ExitStatus.FAILURE


def _numbers(words: Sequence[str]) -> list[int]:
    for word in words:
        if not (word.isascii() and word.isdecimal()):
            raise UsageError(f"{word!r} is no PID: {_USAGE}")
    if not words:
        raise UsageError(f"kill whom? {_USAGE}")
    return list(dict.fromkeys(int(word) for word in words))


def _agreed(count: int, signal_name: str) -> bool:
    whom = "this process" if count == 1 else f"these {count} processes"
    os.write(2, f"Send SIG{signal_name} to {whom}? [y/N] ".encode())
    answer = os.read(0, 64)
    if not answer.endswith(b"\n"):
        os.write(2, b"\n")
    return answer.strip().lower() in _YES
