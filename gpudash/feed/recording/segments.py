"""The names in a folder of segments: files that follow each other, and are one recording.

`00000012-20261126T160000Z.10s.jsonl.zst`: its number in the order of writing, whatever the clock
did; when it begins; the seconds between its samples. Those that differ in these alone are the
same time in more detail or less.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import datetime, timezone
from typing import NamedTuple

_NAME = re.compile(r"(\d{8})-(\d{8}T\d{6})Z\.(\d{1,4})s\.jsonl\.zst", re.ASCII)
_TIME = "%Y%m%dT%H%M%S"


class Segment(NamedTuple):
    """A file of the folder; in their order the first of a number has the most detail."""

    number: int
    start: datetime
    seconds: int

    @property
    def name(self) -> str:
        """The name of the file."""
        start = self.start.astimezone(timezone.utc)
        return f"{self.number:08d}-{start:{_TIME}}Z.{self.seconds}s.jsonl.zst"


def listed(folder: str) -> list[Segment]:
    """Return the segments of a folder, which may have other files, in order; raises OSError."""
    found = []
    for match in filter(None, map(_NAME.fullmatch, os.listdir(folder))):
        with suppress(ValueError):
            start = datetime.strptime(match[2], _TIME).replace(tzinfo=timezone.utc)
            found.append(Segment(int(match[1]), start, int(match[3])))
    return sorted(found)
