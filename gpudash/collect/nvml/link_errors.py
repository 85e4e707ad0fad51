"""What goes wrong on the NVLinks of a GPU: damaged packets, packets sent again, links retrained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from msgspec import Struct

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.answers import FieldAnswer, FieldAnswers, Scoped
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.paces import SLOW_SECONDS, Pace
from gpudash.collect.nvml.slopes import Slopes


class Kind(Struct, frozen=True):
    """One kind of error: the field values that count it, the older call, what it fills."""

    ids: tuple[int, ...]
    """Fields that count it per link, of which a chip has one."""
    counter: int | None
    """Its number for nvmlDeviceGetNvLinkErrorCounter, where no field tells it."""
    total: str
    rate: str


KINDS = (
    Kind((163,), 2, "nvlink_crc_error_count", "nvlink_crc_errors_per_second"),
    Kind((161,), 0, "nvlink_replay_count", "nvlink_replays_per_second"),
    Kind((162, 215), 1, "nvlink_recovery_count", "nvlink_recoveries_per_second"),
    Kind((208,), None, "nvlink_receive_error_count", "nvlink_receive_errors_per_second"),
)

_CALL = "nvmlDeviceGetNvLinkErrorCounter"
_DIGITS = 3
_MOST = 0xFFFFFFFF
"""All ones are no count, and no link lives to err so often."""

Links = Mapping[int, FieldAnswer]


class LinkErrors:
    """The error counters of the NVLinks that are up, summed over them."""

    def __init__(self, library: Library) -> None:
        self.links: tuple[int, ...] = ()
        """The NVLinks that are up; without any nothing is asked."""
        self._library = library
        self._pace = Pace(SLOW_SECONDS)
        self._ids = {kind: list(kind.ids) for kind in KINDS}
        self._has_call = True
        self._slopes = Slopes()
        self._asked: list[Scoped] = []
        self._is_due = False

    def wanted(self, now: float) -> list[Scoped]:
        """Return what the next batch of field values has to bring."""
        self._is_due = bool(self.links) and self._pace.is_due(now)
        first = [ids[0] for ids in self._ids.values() if ids] if self._is_due else []
        self._asked = [(number, link) for number in first for link in self.links]
        return self._asked

    def facts(self, answers: FieldAnswers, handle: Any, now: float) -> dict[str, Any]:
        """Return counts, rates and the links that err, nothing while they were not due."""
        if not self.links:
            # What was known of links that are down is not known any more.
            return dict(_NOTHING)
        if not self._is_due:
            return {}
        facts: dict[str, Any] = {}
        erring: set[int] = set()
        rates = 0
        for kind in KINDS:
            read = self._of_kind(kind, answers, handle, now)
            slopes = {
                link: self._slopes.per_second((kind, link), answer, now)
                for link, answer in read.items()
            }
            known = {link: slope for link, slope in slopes.items() if slope is not None}
            whole = bool(read) and len(read) == len(self.links)
            facts[kind.total] = sum(int(a.value) for a in read.values()) if whole else None
            complete = whole and len(known) == len(read)
            facts[kind.rate] = round(sum(known.values()), _DIGITS) if complete else None
            erring.update(link for link, slope in known.items() if slope > 0)
            rates += len(known)
        facts["nvlink_erring_links"] = tuple(sorted(erring)) if rates else None
        return facts

    def _of_kind(self, kind: Kind, answers: FieldAnswers, handle: Any, now: float) -> Links:
        """Return what each link has counted, by the field that the chip has or else by the call."""
        ids = self._ids[kind]
        if ids:
            scopes = [(ids[0], link) for link in self.links]
            if all(scope in answers.refused for scope in scopes):
                ids.pop(0)
            else:
                found = {link: answers.values.get((ids[0], link)) for link in self.links}
                return {link: answer for link, answer in found.items() if _is_count(answer)}
        return {} if ids or kind.counter is None else self._called(kind.counter, handle, now)

    def _called(self, counter: int, handle: Any, now: float) -> Links:
        found: dict[int, FieldAnswer] = {}
        for link in self.links if self._has_call else ():
            count, code = self._library.ask(_CALL, handle, link, counter)
            if code in codes.PERMANENT:
                self._has_call = False
                return {}
            answer = None if code else FieldAnswer(count, int(now * 1e6))
            if _is_count(answer):
                found[link] = answer
        return found


_NOTHING: dict[str, Any] = {
    **{name: None for kind in KINDS for name in (kind.total, kind.rate)},
    "nvlink_erring_links": None,
}
"""What is told of a GPU without links."""


def _is_count(answer: FieldAnswer | None) -> TypeGuard[FieldAnswer]:
    return answer is not None and 0 <= answer.value < _MOST
