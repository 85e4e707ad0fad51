"""What came of a signal, in words: pure functions over what was seen before and after."""

from __future__ import annotations

from typing import NamedTuple

from gpudash.actions.kill.naming import named
from gpudash.actions.kill.signals import Signal
from gpudash.actions.kill.target import Standing
from gpudash.model.process import Process

_VERBS = {"KILL": "killed", "TERM": "terminated", "INT": "interrupted"}


class Outcome(NamedTuple):
    """One line for people, and whether what they wanted has happened."""

    text: str
    done: bool
    offer_kill: bool = False
    """Whether SIGKILL would help."""


def outcome(
    process: Process,
    signal: Signal,
    standing: Standing,
    *,
    waited_seconds: float,
    freed: str = "",
    refused: str | None = None,
    is_reaping_due: bool = True,
) -> Outcome:
    """Return what came of a signal after so long; `refused` is why it was not delivered.

    Unless `is_reaping_due` a zombie has ended and that is all: its parent may be about to reap it.
    """
    who = named(process)
    if standing.state in ("gone", "zombie"):
        if refused is not None:
            return Outcome(f"{who} already exited", True)
        verb = _VERBS.get(signal.name)
        text = f"{verb} {who}" if verb else f"{who} ended after SIG{signal.name}"
        unreaped = standing.unreaped if is_reaping_due else ""
        parts = (f"{text}{freed and f': {freed}'}", unreaped)
        return Outcome("; ".join(part for part in parts if part), True)
    if refused is not None:
        return Outcome(refused, False)
    if not signal.ends:
        return Outcome(f"SIG{signal.name} sent to {who}", True)
    waited = f"{waited_seconds:.0f} s"
    if standing.state == "uninterruptible":
        later = "the kernel delivers the signal when its system call returns"
        where = f" in {standing.waits_in}" if standing.waits_in else ""
        return Outcome(f"{who} still in D state{where} after {waited}: {later}", False)
    if signal.name == "KILL":
        later = "the kernel is still taking it down"
        return Outcome(f"{who} has not ended after {waited}: {later}", False)
    return Outcome(f"{who} ignored SIG{signal.name} for {waited}", False, True)
