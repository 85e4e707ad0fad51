"""The answers of one GPU through one handle, each value at its interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.calls import (
    BRIEF_POLL_GROUPS,
    CODEC_POLL_GROUP,
    CODECS,
    FAST_SECONDS,
    FIELD_VALUES,
    IDENTITY,
    OTHER_POLL_GROUPS,
    RARE_POLL_GROUP,
    RARE_SECONDS,
    RETRY_SECONDS,
    SETTLED_SECONDS,
    SLOW_SECONDS,
    STATIC_SECONDS,
    STEADY_SECONDS,
    FieldValue,
    NvmlCall,
)
from gpudash.collect.nvml.gpm import Gpm
from gpudash.collect.nvml.library import DeviceLost, FieldAnswer, FieldAnswers, Library, Scoped
from gpudash.collect.nvml.links import (
    FABRIC_FIELDS,
    LINK_FIELDS,
    Fabric,
    LinkErrors,
    NvLinks,
)
from gpudash.collect.nvml.polling import PollGroup, Timer
from gpudash.collect.nvml.rates import (
    COUNTERS,
    PCIE_FIELDS,
    ByteCounters,
    PcieThroughput,
    RateTracker,
    Throttling,
)
from gpudash.collect.nvml.records import Records
from gpudash.collect.nvml.values import fan_percent, small_count
from gpudash.model.device import pcie_capacity

if TYPE_CHECKING:
    from gpudash.model.device import UtilizationSource

_COUNTED = frozenset(counter.field for counter in COUNTERS)
_MAX_FANS = 16


class DeviceSampler:
    """A GPU through one handle; refused values are not read again."""

    def __init__(self, library: Library, handle: Any) -> None:
        self.values: dict[str, Any] = {}
        """The known fields of the device, as of their last read."""
        self.samples = 0
        """How often it was sampled in full."""
        self.is_outdated = False
        """Whether its MIG mode has changed, and with it what it supports."""
        self._library = library
        self._handle = handle
        self._brief_groups = [_group(library, *each) for each in BRIEF_POLL_GROUPS]
        self._other_groups = [_group(library, *each) for each in OTHER_POLL_GROUPS]
        self._codec_group = _group(library, *CODEC_POLL_GROUP)
        self._rare_group = _group(library, *RARE_POLL_GROUP)
        self._batch = FieldBatch(library, handle)
        self._fans = Fans(library, handle)
        self._fan_timer = Timer(STEADY_SECONDS)
        self._link_timer = Timer(SETTLED_SECONDS)
        self._records = Records(library, handle)
        self._links = NvLinks(library, handle)
        self._fabric = Fabric(library, handle)
        self._gpm = Gpm(library)
        self._pcie = PcieThroughput(library, handle) if library.pcie_throughput else None
        self._rates = RateTracker()
        self._counted: dict[str, Any] = {}
        """The last rates of counters, which take precedence over those of GPM."""
        self._mig_mode: bool | None = None

    @property
    def active_links(self) -> tuple[int, ...]:
        """Return the numbers of the NVLinks that were up when they were last read."""
        return self._links.active

    def sample(self, now: float) -> None:
        """Read the values due at `now`.

        Raises DeviceLost if the device reports that it is gone, or if all fast values fail.
        """
        if self.samples:
            self._batch.add_error_counters()
        self.sample_briefly(now)
        self.samples += 1
        for group in self._other_groups:
            if group.is_due(now):
                self._read(group, now)
        self._read_codecs(now)
        if self._fan_timer.is_due(now) and self._library.wants("fan_speeds_percent"):
            self.values["fan_speeds_percent"] = self._fans.speeds()
        if self._link_timer.is_due(now) and self._library.wants(*LINK_FIELDS):
            self.values.update(self._links.values())
            self._batch.follow_links(self._links.active)
        if not self._library.is_for_a_table and self._rare_group.is_due(now):
            self._read_rare(now)
        self.values.update(memory_values(self.values))
        found = self._batch.read(now)
        self.values.update(found)
        self._counted.update((field, found[field]) for field in _COUNTED & found.keys())
        activity = self._gpm.read(self._handle, now)
        self._batch.skip_pcie(all(activity[field] is not None for field in PCIE_FIELDS.values()))
        counted = {field: rate for field, rate in self._counted.items() if rate is not None}
        known = {**activity, **counted}
        self.values.update(known)
        if self._pcie is not None:
            self.values.update(self._pcie.missing(known, now))
        self.values["utilization_source"] = self._utilization_source()

    def sample_briefly(self, now: float) -> None:
        """Read the values due for a first picture; raises like `sample`."""
        for group in self._brief_groups:
            if group.is_due(now):
                answered = group.read(self._library, self._handle, self.values, now)
                if group.seconds == FAST_SECONDS and answered and all(answered):
                    raise DeviceLost(answered[0])
        self.values.update(memory_values(self.values))
        self.values["utilization_source"] = self._utilization_source()

    def close(self) -> None:
        """Free what NVML allocated, while it is still open."""
        self._gpm.close()

    def _read(self, group: PollGroup, now: float) -> None:
        group.read(self._library, self._handle, self.values, now)
        if group.seconds == STATIC_SECONDS:
            generation = self.values.get("max_pcie_link_generation")
            width = self.values.get("max_pcie_link_width")
            self._batch.limit_pcie(pcie_capacity(generation, width))
        if group.seconds == SLOW_SECONDS:
            if self._library.wants(*FABRIC_FIELDS):
                self.values.update(self._fabric.values())
            if self._library.wants("sram_errors"):
                self.values["sram_errors"] = self._records.sram_errors()
            self.values["pcie_replays_per_second"] = self._replays_per_second(now)
            self._compare_mig_mode()

    def _read_codecs(self, now: float) -> None:
        """Read the load of the codecs, rarely until one of them has been active."""
        group = self._codec_group
        if group.is_due(now):
            group.read(self._library, self._handle, self.values, now)
            if any(self.values.get(field) for call in CODECS for field, _ in call.fields):
                group.repeat_after(STEADY_SECONDS, now)

    def _read_rare(self, now: float) -> None:
        self._rare_group.read(self._library, self._handle, self.values, now)
        self.values.update(self._records.values())
        if self._library.wants("mig_layout") and self.values.get("mig_mode"):
            from gpudash.collect.nvml.mig_layout import layout

            self.values["mig_layout"] = layout(self._library, self._handle)

    def _replays_per_second(self, now: float) -> float | None:
        count = self.values.get("pcie_replay_count")
        answer = None if count is None else FieldAnswer(count, int(now * 1e6))
        rate = self._rates.per_second("pcie_replay_count", answer, now)
        return None if rate is None else round(rate, 3)

    def _compare_mig_mode(self) -> None:
        mode = self.values.get("mig_mode")
        self.is_outdated = None not in (mode, self._mig_mode) and mode != self._mig_mode
        self._mig_mode = self._mig_mode if mode is None else mode

    def _utilization_source(self) -> UtilizationSource | None:
        if self.values.get("sm_active_percent") is not None:
            return "gpm"
        return None if self.values.get("gpu_utilization_percent") is None else "kernel-time"


def _group(library: Library, calls: tuple[NvmlCall, ...], seconds: float) -> PollGroup:
    """Return the requested calls of a group; a GPU always identifies itself."""
    if calls is not IDENTITY:
        calls = tuple(call for call in calls if library.wants(*dict(call.fields)))
    return PollGroup(calls, seconds)


class _BatchPart(Protocol):
    """Some field values of the batch, and the fields that they fill."""

    def wanted(self, now: float) -> list[Scoped]:
        """Return the requests for the next batch."""

    def values(self, answers: FieldAnswers, now: float) -> Mapping[str, Any]:
        """Return the fields of the device that the batch fills."""


_NO_ANSWERS = FieldAnswers({}, frozenset())


class FieldBatch:
    """The field values of one GPU, all due ones in one call."""

    def __init__(self, library: Library, handle: Any) -> None:
        self._library = library
        self._handle = handle
        self._counters = ByteCounters()
        self._link_errors = LinkErrors(library, handle)
        self._parts: list[_BatchPart] = [_FieldValues(library)]
        if not library.single_sample:
            self._parts.append(self._counters)
        self._is_supported = True
        self._due = 0.0
        self._reads = 0

    def follow_links(self, active: tuple[int, ...]) -> None:
        """Read the counters of these NVLinks."""
        self._counters.links = self._link_errors.links = active

    def limit_pcie(self, max_bytes_per_second: float | None) -> None:
        """Drop PCIe rates above the link's capacity, None if unknown."""
        self._counters.max_pcie_bytes_per_second = max_bytes_per_second

    def skip_pcie(self, is_known: bool) -> None:
        """Omit the counters of PCIe while its rates are otherwise known."""
        self._counters.pcie_is_known = is_known

    def add_error_counters(self) -> None:
        """Begin to read values that need two ticks: the first may be the only one."""
        if self._link_errors not in self._parts:
            self._parts += [Throttling(), self._link_errors]

    def read(self, now: float) -> dict[str, Any]:
        """Return the fields that were due; raises DeviceLost if the device is gone."""
        if now < self._due and not self._counters.may_go_round(now):
            return {}
        self._reads += 1
        # A rate needs two reads, and there may be no further ticks.
        self._due = now + (STEADY_SECONDS if self._reads > 2 else 0.0)
        # Two parts may read the same counter: its value and its rate.
        batch = list(dict.fromkeys(scope for part in self._parts for scope in part.wanted(now)))
        answers = _NO_ANSWERS
        if batch and self._is_supported:
            answers = self._library.fields(self._handle, batch)
        if answers.code in codes.DEAD:
            raise DeviceLost(answers.code)
        self._is_supported = self._is_supported and answers.code not in codes.PERMANENT
        values: dict[str, Any] = {}
        for part in self._parts:
            values.update(part.values(answers, now))
        return values


class _FieldValues:
    """The plain field values of the table, each at its interval until it is refused."""

    def __init__(self, library: Library) -> None:
        self._due = {
            each: 0.0
            for each in FIELD_VALUES
            if library.wants(each.field)
            and not (each.seconds == RARE_SECONDS and library.is_for_a_table)
        }
        self._wanted: list[FieldValue] = []

    def wanted(self, now: float) -> list[Scoped]:
        self._wanted = [field for field, due in self._due.items() if now >= due]
        return [(field.id, field.scope) for field in self._wanted]

    def values(self, answers: FieldAnswers, now: float) -> dict[str, Any]:
        return {field.field: self._value(field, answers, now) for field in self._wanted}

    def _value(self, field: FieldValue, answers: FieldAnswers, now: float) -> Any:
        scope = field.id, field.scope
        answer = answers.values.get(scope)
        if scope in answers.refused:
            del self._due[field]
        elif field.seconds == STATIC_SECONDS and answer is None:
            self._due[field] = now + RETRY_SECONDS
        else:
            self._due[field] = now + field.seconds
        return None if answer is None else field.convert(answer.value)


class Fans:
    """The fans of a GPU, counted until their number is known."""

    def __init__(self, library: Library, handle: Any) -> None:
        self._library = library
        self._handle = handle
        self._count: int | None = None

    def speeds(self) -> tuple[int | None, ...] | None:
        """Return the speed of each fan in percent; None if there is none or none answers.

        Raises DeviceLost if the device reports that it is gone.
        """
        call = self._library.call_device
        if self._count is None:
            count, code = call("nvmlDeviceGetNumFans", self._handle)
            if code in codes.PERMANENT:
                self._count = 0
            elif (number := small_count(count)) is not None:
                self._count = min(number, _MAX_FANS)
        answers = [
            call("nvmlDeviceGetFanSpeed_v2", self._handle, fan) for fan in range(self._count or 0)
        ]
        if answers and all(code in codes.PERMANENT for _, code in answers):
            self._count = 0
        speeds = tuple(fan_percent(speed) for speed, _ in answers)
        return speeds if any(speed is not None for speed in speeds) else None


_INTEGRATED = frozenset({"gb10", "orin", "thor", "xavier", "tegra", "nvgpu", "n1x"})
_SIZES = ("memory_total_bytes", "memory_reserved_bytes", "memory_used_bytes", "memory_free_bytes")


def memory_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether the memory is the host's, and no sizes if NVML has none.

    Such a chip answers NOT_SUPPORTED, or 0 bytes in total. So may a lost GPU, or a MIG parent
    without rights: only the name, or page tables shared with the CPU, distinguish them.
    """
    if values.get("memory_total_bytes") is not None:
        return {"unified_memory": False}
    words = (values.get("name") or "").lower().replace("(", " ").replace(")", " ").split()
    is_integrated = not _INTEGRATED.isdisjoint(words) or values.get("addressing_mode") == "ats"
    is_unified = is_integrated and not values.get("mig_mode")
    return {**dict.fromkeys(_SIZES), "unified_memory": True if is_unified else None}
