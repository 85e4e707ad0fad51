"""The signals that can be sent, by name and by number."""

from __future__ import annotations

import signal
from functools import lru_cache
from typing import NamedTuple

from gpudash.model.errors import UsageError
from gpudash.model.text import did_you_mean

_HELP = {
    "KILL": "destroy",
    "TERM": "terminate",
    "INT": "interrupt",
    "HUP": "hang-up",
    "QUIT": "quit",
    "ABRT": "abort",
    "STOP": "pause",
    "CONT": "resume",
    "TSTP": "suspend",
    "TTIN": "background-read",
    "TTOU": "background-write",
    "USR1": "custom",
    "USR2": "custom",
    "ALRM": "alarm",
    "VTALRM": "CPU-alarm",
    "PROF": "profile",
    "CHLD": "child",
    "WINCH": "resize",
    "PIPE": "broken-pipe",
    "IO": "readable",
    "URG": "urgent",
    "PWR": "power",
    "SYS": "bad-call",
    "TRAP": "trap",
    "ILL": "bad-instruction",
    "BUS": "bad-memory",
    "SEGV": "bad-address",
    "FPE": "bad-arithmetic",
    "XCPU": "CPU-limit",
    "XFSZ": "file-limit",
    "STKFLT": "stack-fault",
}
_ENDING = frozenset({"KILL", "TERM", "INT", "HUP", "QUIT", "ABRT"})


class Signal(NamedTuple):
    """A signal and one word about what it does."""

    name: str
    """Without SIG: `TERM`, `RTMIN+3`."""
    number: int
    help: str

    @property
    def ends(self) -> bool:
        """Whether it is meant to end a process: one that lives on has ignored it."""
        return self.name in _ENDING


@lru_cache(maxsize=1)
def signals() -> tuple[Signal, ...]:
    """Return all signals of this system, the most common ones first."""
    # Iteration omits the aliases: SIGCLD, SIGPOLL, SIGIOT.
    named = {each.name.removeprefix("SIG"): int(each) for each in signal.Signals}
    first = [name for name in _HELP if name in named]
    rest = sorted(named.keys() - _HELP.keys() - {"RTMIN", "RTMAX"}, key=named.__getitem__)
    plain = [Signal(name, named[name], _HELP.get(name, "signal")) for name in (*first, *rest)]
    low, high = int(signal.SIGRTMIN), int(signal.SIGRTMAX)
    above = (Signal(f"RTMIN+{n - low}", n, "real-time") for n in range(low + 1, high + 1))
    return (*plain, Signal("RTMIN", low, "real-time"), *above)


def find_signal(word: str) -> Signal:
    """Return the signal that a user names: `KILL`, `sigterm`, `9`, `RTMIN+1`.

    Raises UsageError, which suggests the nearest one.
    """
    wanted = word.strip().upper().removeprefix("SIG")
    alias = getattr(signal, f"SIG{wanted}", None)
    number = str(int(alias)) if isinstance(alias, signal.Signals) else wanted
    for each in signals():
        if wanted == each.name or number == str(each.number):
            return each
    raise UsageError(f"no signal {word!r}: {_suggestion(wanted)}")


def _suggestion(wanted: str) -> str:
    names = [each.name for each in signals()]
    return (
        did_you_mean(wanted, names, cutoff=0.5) or "choose KILL, TERM, INT, ... or a number 1 to 64"
    )
