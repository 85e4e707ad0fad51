"""The NVLinks of one GPU: which are up, the fabric that it joined, and the errors they count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from msgspec import Struct

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.calls import SLOW_SECONDS
from gpudash.collect.nvml.library import DeviceLost, FieldAnswer, FieldAnswers, Library, Scoped
from gpudash.collect.nvml.polling import Timer
from gpudash.collect.nvml.rates import RateTracker
from gpudash.collect.nvml.values import within
from gpudash.model.text import dashed

MAX_LINKS = 36
_PAST_THE_LAST = frozenset({codes.INVALID_ARGUMENT, *codes.PERMANENT})

_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
"""NVML_NVLINK_VERSION_*, which is an enumeration rather than a version."""

LINK_COUNT = 91, 0
"""NVML_FI_DEV_NVLINKLINK_COUNT."""
link_number = within(0, MAX_LINKS)

LINK_FIELDS = ("nvlink_count", "nvlink_total_count", "nvlink_inactive_links", "nvlink_version")


class NvLinks:
    """The state of the links; a GPU without any is not read again."""

    def __init__(self, library: Library, handle: Any) -> None:
        self.active: tuple[int, ...] = ()
        """Numbers of those that are up, possibly with gaps."""
        self._library = library
        self._handle = handle
        self._has_any = True
        self._count = _LinkCount(library, handle)
        self._version: str | None = None

    def values(self) -> dict[str, Any]:
        """Return the fields of LINK_FIELDS; raises DeviceLost when the GPU is gone."""
        states, code = None, codes.SUCCESS
        if self._has_any:
            states, code = _states(self._library, self._handle)
        if code in codes.DEAD:
            raise DeviceLost(code)
        if states is None:
            self._has_any = self._has_any and code not in codes.PERMANENT
            self.active = ()
            return dict.fromkeys(LINK_FIELDS)
        self.active = tuple(link for link, is_up in enumerate(states) if is_up)
        count = self._count.read()
        if count == 0 and not self.active:
            self._has_any = False
            return dict.fromkeys(LINK_FIELDS)
        if self._version is None and self.active:
            call = "nvmlDeviceGetNvLinkVersion"
            number, _ = self._library.call(call, self._handle, self.active[0])
            self._version = _VERSIONS.get(number)
        total: int | None = len(states)
        inactive: tuple[int, ...] | None
        inactive = tuple(link for link, is_up in enumerate(states) if is_up is False)
        # The driver also answers for links of the chip that the board lacks.
        if count is not None:
            total = max(count, len(self.active))
            inactive = inactive[: total - len(self.active)]
        elif self._count.is_open:
            total = inactive = None
        found = (len(self.active), total, inactive, self._version)
        return dict(zip(LINK_FIELDS, found, strict=True))


class _LinkCount:
    """How many NVLinks the board has, asked until the driver answers or refuses."""

    def __init__(self, library: Library, handle: Any) -> None:
        self._library = library
        self._handle = handle
        self._count: int | None = None
        self.is_open = True
        """Whether it is still unknown."""

    def read(self) -> int | None:
        """Return it, None if unknown."""
        if self.is_open:
            answers = self._library.fields(self._handle, [LINK_COUNT])
            answer = answers.values.get(LINK_COUNT)
            self._count = None if answer is None else link_number(answer.value)
            is_refused = answers.refused or answers.code in codes.PERMANENT
            self.is_open = not (answers.values or is_refused)
        return self._count


def _states(library: Library, handle: Any) -> tuple[list[bool | None] | None, int]:
    """Return (whether each link is up, 0), or (None, NVML's code) for a GPU without any."""
    states: list[bool | None] = []
    for link in range(MAX_LINKS):
        state, code = library.call("nvmlDeviceGetNvLinkState", handle, link)
        if code in codes.DEAD or (code and not link):
            return None, code
        if code in _PAST_THE_LAST:
            break
        states.append(None if code else bool(state))
    return states, codes.SUCCESS


_FABRIC_STATES = {1: "not-started", 2: "in-progress", 3: "completed"}
_COMPLETED = 3
FABRIC_FIELDS = (
    "fabric_state",
    "fabric_status_code",
    "fabric_cluster_uuid",
    "fabric_clique_id",
    "fabric_bandwidth_degraded",
    "fabric_route_recovering",
    "fabric_route_unhealthy",
    "fabric_access_timeout_recovering",
    "fabric_incorrect_configuration",
    "fabric_health",
    "fabric_partition_assigned",
)
_FABRIC_CALLS = (
    ("nvmlDeviceGetGpuFabricInfoV", "GpuFabricInfo_v3"),
    ("nvmlDeviceGetGpuFabricInfoV", "GpuFabricInfo_v2"),
    ("nvmlDeviceGetGpuFabricInfo", "GpuFabricInfo"),
)
"""The calls that report it and the fields that each fills; the last lacks its health."""
_OTHER_VERSION = frozenset({codes.ARGUMENT_VERSION_MISMATCH, codes.INVALID_ARGUMENT})
_HEALTH_SHIFTS = (0, 2, 4, 6)
"""NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_* of four of them."""
_HEALTH = {1: True, 2: False}
_HEALTH_MASK = 0x3
_CONFIGURATION_SHIFT, _PARTITION_SHIFT = 8, 12
_CONFIGURATION_MASK = 0xF
_CONFIGURATIONS = {
    1: "none",
    2: "incorrect-sysguid",
    3: "incorrect-chassis-sn",
    4: "no-partition",
    5: "insufficient-nvlinks",
    6: "incompatible-gpu-fw",
    7: "invalid-location",
    8: "gpu-state-invalid",
}
_HEALTH_SUMMARIES = {1: "healthy", 2: "unhealthy", 3: "limited-capacity"}


class Fabric:
    """The NVLink fabric as seen by one GPU; not read again for a GPU outside any."""

    def __init__(self, library: Library, handle: Any) -> None:
        self._library = library
        self._handle = handle
        self._calls = list(_FABRIC_CALLS)
        """The calls that the driver may support."""

    def values(self) -> dict[str, Any]:
        """Return the fields of FABRIC_FIELDS; raises DeviceLost when the GPU is gone."""
        while self._calls:
            name, structure = self._calls[0]
            info, code = self._library.filled(name, self._handle, structure)
            if not code and info.state not in _FABRIC_STATES:
                self._calls.clear()
            elif code in _OTHER_VERSION and len(self._calls) > 1:
                self._calls.pop(0)
            elif code in codes.PERMANENT:
                self._calls = [each for each in self._calls if each[0] != name]
            else:
                return dict.fromkeys(FABRIC_FIELDS) if code else _membership(info)
        return dict.fromkeys(FABRIC_FIELDS)


def _membership(info: Any) -> dict[str, Any]:
    health = getattr(info, "healthMask", 0)
    is_member = info.state == _COMPLETED and info.status == codes.SUCCESS
    cluster = bytes(info.clusterUuid).hex()
    is_named = is_member and cluster.strip("0") != ""
    values = (
        _FABRIC_STATES[info.state],
        info.status if info.state == _COMPLETED else None,
        dashed(cluster) if is_named else None,
        info.cliqueId if is_named else None,
        *(_HEALTH.get(health >> shift & _HEALTH_MASK) for shift in _HEALTH_SHIFTS),
        _CONFIGURATIONS.get(health >> _CONFIGURATION_SHIFT & _CONFIGURATION_MASK),
        _HEALTH_SUMMARIES.get(getattr(info, "healthSummary", 0)),
        _HEALTH.get(health >> _PARTITION_SHIFT & _HEALTH_MASK),
    )
    return dict(zip(FABRIC_FIELDS, values, strict=True))


class ErrorKind(Struct, frozen=True):
    """One kind of error: the field values and the older call that count it, and its field."""

    ids: tuple[int, ...]
    """Fields that count it per link, one of which a chip has."""
    counter: int | None
    """Its number for nvmlDeviceGetNvLinkErrorCounter, used if there is no field."""
    total: str
    rate: str


KINDS = (
    ErrorKind((163,), 2, "nvlink_crc_error_count", "nvlink_crc_errors_per_second"),
    ErrorKind((161,), 0, "nvlink_replay_count", "nvlink_replays_per_second"),
    ErrorKind((162, 215), 1, "nvlink_recovery_count", "nvlink_recoveries_per_second"),
    ErrorKind((208,), None, "nvlink_receive_error_count", "nvlink_receive_errors_per_second"),
)

_ERROR_CALL = "nvmlDeviceGetNvLinkErrorCounter"
_RATE_DIGITS = 3
_MAX_COUNT = 0xFFFFFFFF
"""All ones mean unknown, and no link lives long enough to reach it."""

Links = Mapping[int, FieldAnswer]


class LinkErrors:
    """The error counters of the NVLinks that are up, summed over them."""

    def __init__(self, library: Library, handle: Any) -> None:
        self.links: tuple[int, ...] = ()
        """The NVLinks that are up; without any, nothing is read."""
        self._library = library
        self._handle = handle
        self._timer = Timer(SLOW_SECONDS)
        self._ids = {kind: list(kind.ids) for kind in KINDS}
        self._has_call = True
        self._rates = RateTracker()
        self._is_due = False

    def wanted(self, now: float) -> list[Scoped]:
        """Return the requests for the next batch of field values."""
        self._is_due = bool(self.links) and self._timer.is_due(now)
        first = [ids[0] for ids in self._ids.values() if ids] if self._is_due else []
        return [(number, link) for number in first for link in self.links]

    def values(self, answers: FieldAnswers, now: float) -> dict[str, Any]:
        """Return counts, rates and the links with errors, empty while they are not due."""
        if not self.links:
            # The known values of links that are down become unknown.
            return dict(_UNKNOWN)
        if not self._is_due:
            return {}
        found: dict[str, Any] = {}
        erring: set[int] = set()
        rate_count = 0
        for kind in KINDS:
            counts = self._counts(kind, answers, now)
            rates = {
                link: self._rates.per_second((kind, link), answer, now)
                for link, answer in counts.items()
            }
            known = {link: rate for link, rate in rates.items() if rate is not None}
            is_whole = bool(counts) and len(counts) == len(self.links)
            total = sum(int(answer.value) for answer in counts.values())
            found[kind.total] = total if is_whole else None
            has_rate = is_whole and len(known) == len(counts)
            found[kind.rate] = round(sum(known.values()), _RATE_DIGITS) if has_rate else None
            erring.update(link for link, rate in known.items() if rate > 0)
            rate_count += len(known)
        found["nvlink_erring_links"] = tuple(sorted(erring)) if rate_count else None
        return found

    def _counts(self, kind: ErrorKind, answers: FieldAnswers, now: float) -> Links:
        """Return each link's count, from the field that the chip has or else from the call."""
        ids = self._ids[kind]
        if ids:
            scopes = [(ids[0], link) for link in self.links]
            if all(scope in answers.refused for scope in scopes):
                ids.pop(0)
            else:
                found = {link: answers.values.get((ids[0], link)) for link in self.links}
                return {link: answer for link, answer in found.items() if _is_count(answer)}
        return {} if ids or kind.counter is None else self._call(kind.counter, now)

    def _call(self, counter: int, now: float) -> Links:
        found: dict[int, FieldAnswer] = {}
        for link in self.links if self._has_call else ():
            count, code = self._library.call(_ERROR_CALL, self._handle, link, counter)
            if code in codes.PERMANENT:
                self._has_call = False
                return {}
            answer = None if code else FieldAnswer(count, int(now * 1e6))
            if _is_count(answer):
                found[link] = answer
        return found


_UNKNOWN: dict[str, Any] = {
    **{name: None for kind in KINDS for name in (kind.total, kind.rate)},
    "nvlink_erring_links": None,
}
"""The fields of a GPU without links."""


def _is_count(answer: FieldAnswer | None) -> TypeGuard[FieldAnswer]:
    return answer is not None and 0 <= answer.value < _MAX_COUNT
