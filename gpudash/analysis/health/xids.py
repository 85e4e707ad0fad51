"""What the numbers of XID reports mean to a person, after NVIDIA's catalogue."""

from __future__ import annotations

from msgspec import Struct

from gpudash.analysis.health.rule import RESET
from gpudash.model.snapshot import FindingLevel

_PROGRAM = "A fault of the program that ran there, seldom of the GPU: see its log."
_RESET = f"It needs a reset. End the jobs on it; {RESET}"
_BOARD = f"It needs a reset, and if it comes again, a check. End the jobs on it; {RESET}"
_DRIVER = f"It needs a reset, and if it comes again, another driver. End the jobs on it; {RESET}"
_LINKS = "See nvidia-smi nvlink --status; a reset or a reseat of the board may help."


class Meaning(Struct, frozen=True):
    """What an XID says, how bad it is, and what to do."""

    text: str
    level: FindingLevel
    advice: str

    @property
    def is_programs(self) -> bool:
        """Whether it tells of a program, not of the board."""
        return self.advice is _PROGRAM


_MEANINGS: dict[int, Meaning] = {
    13: Meaning("a program did something illegal on it", "warn", _PROGRAM),
    31: Meaning("a program accessed memory that it may not", "warn", _PROGRAM),
    32: Meaning("it was sent commands that were damaged", "warn", _BOARD),
    38: Meaning("its firmware met an error", "critical", _DRIVER),
    43: Meaning("a program was stopped after a fault of its own", "warn", _PROGRAM),
    45: Meaning("a program was ended and cleaned up", "info", _PROGRAM),
    48: Meaning("memory failed in a way that could not be corrected", "critical", _BOARD),
    61: Meaning("a controller inside it met an error", "critical", _BOARD),
    62: Meaning("a controller inside it halted", "critical", _BOARD),
    63: Meaning("a bad piece of memory was taken out of use", "warn", _RESET),
    64: Meaning("a bad piece of memory could not be taken out of use", "critical", _BOARD),
    68: Meaning("its video decoder met an error", "warn", _PROGRAM),
    69: Meaning("a program gave it an illegal command", "warn", _PROGRAM),
    74: Meaning("an NVLink failed", "critical", _LINKS),
    79: Meaning(
        "it fell off the bus",
        "critical",
        "Reboot the host, or cycle its power; check power cables, slot and temperature.",
    ),
    92: Meaning("many memory errors had to be corrected", "warn", _BOARD),
    94: Meaning("memory failed under one program, which was ended", "warn", _RESET),
    95: Meaning("memory failed, and other programs may be hit too", "critical", _BOARD),
    109: Meaning("a program did not let go of it in time", "warn", _DRIVER),
    110: Meaning("a safety check inside it failed", "critical", _BOARD),
    119: Meaning("its firmware (GSP) did not answer in time", "critical", _DRIVER),
    120: Meaning("its firmware (GSP) met an error", "critical", _DRIVER),
    121: Meaning("its link to the CPU corrected an error", "info", _BOARD),
    140: Meaning("memory failed in a way that could not be corrected", "critical", _BOARD),
    143: Meaning("it could not be started", "critical", _DRIVER),
    154: Meaning(
        "what the driver asks for to mend it has changed",
        "info",
        "Another finding tells what that is, if anything is left to be done.",
    ),
    **{code: Meaning("an NVLink met an error", "warn", _LINKS) for code in (144, 145, 146, 147)},
    **{code: Meaning("an NVLink failed", "critical", _LINKS) for code in (148, 149, 150)},
}
_UNKNOWN = Meaning(
    "NVIDIA's catalogue of XIDs says what it means",
    "warn",
    "sudo dmesg | grep -i xid shows the kernel's line on it.",
)


_WITHOUT_NUMBER = Meaning("only the kernel log has it", "warn", _UNKNOWN.advice)


def meaning(code: int | None) -> Meaning:
    """Return what a number means; one that is not known is a warning."""
    return _WITHOUT_NUMBER if code is None else _MEANINGS.get(code, _UNKNOWN)
