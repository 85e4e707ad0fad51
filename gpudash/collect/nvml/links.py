"""What goes wrong on the NVLinks of a GPU: damaged packets, packets sent again, links retrained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from msgspec import Struct

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.calls import SLOW_SECONDS, Pace
from gpudash.collect.nvml.library import FieldAnswer, FieldAnswers, Library, Scoped
from gpudash.collect.nvml.rates import Slopes


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


_STATES = {1: "not-started", 2: "in-progress", 3: "completed"}
_COMPLETED = 3
_DEGRADED = {1: True, 2: False}
_DEGRADED_MASK = 0x3
FABRIC_FIELDS = (
    "fabric_state",
    "fabric_status_code",
    "fabric_bandwidth_degraded",
    "fabric_cluster_uuid",
    "fabric_clique_id",
)
"""What is told of it."""

_CALLS = (
    ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v2_t"),
    ("nvmlDeviceGetGpuFabricInfo", "c_nvmlGpuFabricInfo_t"),
)


class Fabric:
    """The fabric as one GPU sees it, from look to look; one outside of any is not asked again."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._calls = list(_CALLS)

    def facts(self, handle: Any) -> tuple[dict[str, Any], int]:
        """Return what there is to tell, and NVML's value where the GPU says that it is gone."""
        while self._calls:
            call, structure = self._calls[0]
            info, code = self._library.filled(call, structure, handle)
            if code in codes.DEAD:
                return {}, code
            if not code and info.state not in _STATES:
                self._calls.clear()
            elif code not in codes.PERMANENT:
                return dict.fromkeys(FABRIC_FIELDS) if code else _told(info), codes.SUCCESS
            else:
                self._calls.pop(0)
        return dict.fromkeys(FABRIC_FIELDS), codes.SUCCESS


def _told(info: Any) -> dict[str, Any]:
    health = getattr(info, "healthMask", 0)
    is_member = info.state == _COMPLETED and info.status == codes.SUCCESS
    cluster = bytes(info.clusterUuid).hex()
    is_named = is_member and cluster.strip("0") != ""
    values = (
        _STATES[info.state],
        info.status if info.state == _COMPLETED else None,
        _DEGRADED.get(health & _DEGRADED_MASK),
        _dashed(cluster) if is_named else None,
        info.cliqueId if is_named else None,
    )
    return dict(zip(FABRIC_FIELDS, values, strict=True))


def _dashed(text: str) -> str:
    """Return a UUID as it is written: 8-4-4-4-12 digits."""
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


MAX_LINKS = 36
_PAST_THE_LAST = frozenset({codes.INVALID_ARGUMENT, *codes.PERMANENT})

_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
"""NVML_NVLINK_VERSION_*, which is no version itself."""

LINK_FIELDS = ("nvlink_count", "nvlink_total_count", "nvlink_inactive_links", "nvlink_version")
"""What is told of them."""


class NvLinks:
    """The links from look to look; a GPU without any is not asked again."""

    def __init__(self, library: Library) -> None:
        self.active: tuple[int, ...] = ()
        """Numbers of those that are up; there may be holes between them."""
        self._library = library
        self._has_any = True
        self._version: str | None = None

    def facts(self, handle: Any) -> tuple[dict[str, Any], int]:
        """Return what there is to tell, and NVML's value where the GPU says that it is gone."""
        states, code = _states(self._library, handle) if self._has_any else (None, codes.SUCCESS)
        if code in codes.DEAD:
            return {}, code
        if states is None:
            self._has_any = self._has_any and code not in codes.PERMANENT
            self.active = ()
            return dict.fromkeys(LINK_FIELDS), codes.SUCCESS
        self.active = _active(states)
        if self._version is None and self.active:
            number, _ = self._library.ask("nvmlDeviceGetNvLinkVersion", handle, self.active[0])
            self._version = _VERSIONS.get(number)
        inactive = tuple(link for link, is_up in enumerate(states) if is_up is False)
        values = (len(self.active), len(states), inactive, self._version)
        return dict(zip(LINK_FIELDS, values, strict=True)), codes.SUCCESS


def active_links(library: Library, handle: Any) -> tuple[int, ...]:
    """Return the numbers of the links that are up, none of a GPU without any."""
    return _active(_states(library, handle)[0] or [])


def _active(states: list[bool | None]) -> tuple[int, ...]:
    return tuple(link for link, is_up in enumerate(states) if is_up)


def _states(library: Library, handle: Any) -> tuple[list[bool | None] | None, int]:
    """Return (whether each link is up, 0), or (None, NVML's value) of a GPU without any."""
    states: list[bool | None] = []
    for link in range(MAX_LINKS):
        state, code = library.ask("nvmlDeviceGetNvLinkState", handle, link)
        if code in codes.DEAD or (code and not link):
            return None, code
        if code in _PAST_THE_LAST:
            break
        states.append(None if code else bool(state))
    return states, codes.SUCCESS
