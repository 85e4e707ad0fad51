"""The words for one of many hosts: by its state, and by its worst finding."""

from __future__ import annotations

from msgspec import Struct

from gpudash.model.fleet import HostState
from gpudash.model.state import HELD, HOT, SLOW, STATES, Level


class HostWords(Struct, frozen=True):
    """The words for a host in one state."""

    word: str
    """On the screen; in capitals if a person is needed."""
    sentence: str
    """After its name: `does not answer`."""
    level: Level
    letter: str = ""
    """A unique letter on the map; empty for a host drawn by its value."""


# fmt: off
HOST_STATES: dict[HostState, HostWords] = {
    "ok": HostWords("ok", "answers", "ok"),
    "stale": HostWords("STALE", "has sent nothing new for some time", "warn", "S"),
    "lost-contact": HostWords("LOST CONTACT", "no longer answers", "critical", "L"),
    "connecting": HostWords("connecting", "has not answered yet", "unknown", "C"),
    "down": HostWords("DOWN", "cannot be reached", "critical", "D"),
    "auth": HostWords("AUTH", "refuses the login", "critical", "A"),
    "host-key": HostWords("HOST KEY", "has an unknown or changed host key", "critical", "K"),
    "no-access": HostWords("NO ACCESS", "lets in only users with a job there", "warn", "P"),
    "no-gpudash": HostWords("NO GPUDASH", "has neither gpudash nor nvidia-smi", "warn", "G"),
    "no-gpus": HostWords("NO GPUS", "answers and sees no GPU", "warn", "E"),
    "no-metrics": HostWords("NO METRICS", "is shown by no exporter", "warn", "m"),
    "powered-down": HostWords("powered down", "is powered down by Slurm", "unknown", "z"),
    "garbled": HostWords("GARBLED", "answers with something else", "critical", "B"),
}
# fmt: on
"""Every state of a host, with the words for it."""


class FindingWords(Struct, frozen=True):
    """The words for a host by its worst finding."""

    word: str
    """On the screen, after the number of its GPUs concerned."""
    letter: str = ""
    """A unique letter on the map; empty for a host that is still drawn by its value."""


FINDING_WORDS: dict[str, FindingWords] = {
    **{
        f"gpus-{each.id}": FindingWords(each.word, each.letter)
        for each in STATES
        if each.is_problem
    },
    "gpus-missing": FindingWords("GONE", "M"),
    "xid-critical": FindingWords("XID", "x"),
    "xid-burst": FindingWords("XID", "x"),
    "xid-warning": FindingWords("XID", "x"),
    "gpus-flapping": FindingWords("flapping", "f"),
    "host-flapping": FindingWords("flapping", "f"),
    "straggler": FindingWords(SLOW.word, SLOW.letter),
    "hot-outlier": FindingWords(HOT.word, HOT.letter),
    "held-idle": FindingWords(HELD.word),
    "allocated-unused": FindingWords(HELD.word),
    "values-old": FindingWords("old", "o"),
}
"""For each rule about answering hosts with findings above level info."""


def finding_words(rule: str) -> FindingWords:
    """Return the words for a host by the rule of its worst finding; for a newer rule, its name."""
    return FINDING_WORDS.get(rule) or FindingWords(rule, "!")
