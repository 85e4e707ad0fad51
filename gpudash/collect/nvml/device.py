"""One GPU from tick to tick: what it answers, and what is kept of it when it is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.calls import RETRY_SECONDS, STATIC
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.poll import DeviceLost
from gpudash.model.device import Device, DeviceState
from gpudash.model.fault import Fault, XidEvent
from gpudash.model.text import clean

if TYPE_CHECKING:
    from gpudash.collect.nvml.xids import XidWatch
from typing import TYPE_CHECKING

from gpudash.collect.nvml.calls import FIELD_VALUES, STATIC_SECONDS, FieldValue
from gpudash.collect.nvml.library import FieldAnswers
from gpudash.collect.nvml.rates import Counters

if TYPE_CHECKING:
    from gpudash.collect.nvml.links import LinkErrors
    from gpudash.collect.nvml.rates import Throttling
from collections.abc import Mapping

from gpudash.collect.nvml.calls import (
    FAST_SECONDS,
    LANES,
    SLOW_SECONDS,
    STEADY_SECONDS,
)
from gpudash.collect.nvml.gpm import Gpm
from gpudash.collect.nvml.library import FieldAnswer
from gpudash.collect.nvml.links import Fabric, NvLinks
from gpudash.collect.nvml.poll import Lane
from gpudash.collect.nvml.rates import COUNTERS, PcieThroughput, Slopes
from gpudash.collect.nvml.values import fan_percent, small_count
from gpudash.model.device import UtilizationSource, pcie_capacity

_COUNTED = frozenset(counter.field for counter in COUNTERS)


class HandleFacts:
    """A device as one handle of it answers; what it once refused is not asked again."""

    def __init__(self, library: Library, handle: Any) -> None:
        self.values: dict[str, Any] = {}
        """The fields of the device that are known, as they were when they were due."""
        self.reads = 0
        """How often it was read."""
        self.is_outdated = False
        """Whether its MIG mode has changed, and with it what it supports."""
        self._library = library
        self._handle = handle
        self._lanes = [Lane(readings, seconds) for readings, seconds in LANES]
        self._fields = Fields(library)
        self._fans = Fans(library)
        self._links = NvLinks(library)
        self._fabric = Fabric(library)
        self._gpm = Gpm(library)
        self._pcie = PcieThroughput(library) if library.pcie_throughput else None
        self._slopes = Slopes()
        self._mig_mode: bool | None = None

    def read(self, now: float) -> None:
        """Ask for what is due.

        Raises DeviceLost when the device says that it is gone, or fails in all that is fast.
        """
        if self.reads:
            self._fields.start_slow()
        self.reads += 1
        for lane in self._lanes:
            if lane.is_due(now):
                self._read_lane(lane, now)
        self.values.update(self._fields.read(self._handle, now))
        for field, value in self._gpm.read(self._handle, now).items():
            if field not in _COUNTED or self.values.get(field) is None:
                self.values[field] = value
        if self._pcie is not None:
            self.values.update(self._pcie.missing(self._handle, self.values, now))
        self.values["utilization_source"] = self._utilization_source()

    def close(self) -> None:
        """Give back what NVML lent, while it is still open."""
        self._gpm.close()

    def _read_lane(self, lane: Lane, now: float) -> None:
        seen = lane.read(self._library, self._handle, self.values, now)
        if lane.seconds == STATIC_SECONDS:
            generation = self.values.get("max_pcie_link_generation")
            width = self.values.get("max_pcie_link_width")
            self._fields.bound_pcie(pcie_capacity(generation, width))
        if lane.seconds == FAST_SECONDS:
            if seen and all(seen):
                raise DeviceLost(seen[0])
            self.values.update(memory_facts(self.values))
        if lane.seconds == STEADY_SECONDS:
            self.values["fan_speeds_percent"] = self._fans.speeds(self._handle)
        if lane.seconds == SLOW_SECONDS:
            self._take(*self._links.facts(self._handle))
            self._fields.follow_links(self._links.active)
            self._take(*self._fabric.facts(self._handle))
            self._take_replays(now)
            self._compare_mig_mode()

    def _take(self, facts: dict[str, Any], code: int) -> None:
        if code in codes.DEAD:
            raise DeviceLost(code)
        self.values.update(facts)

    def _take_replays(self, now: float) -> None:
        count = self.values.get("pcie_replay_count")
        answer = None if count is None else FieldAnswer(count, int(now * 1e6))
        slope = self._slopes.per_second("pcie_replay_count", answer, now)
        self.values["pcie_replays_per_second"] = None if slope is None else round(slope, 3)

    def _compare_mig_mode(self) -> None:
        mode = self.values["mig_mode"]
        self.is_outdated = None not in (mode, self._mig_mode) and mode != self._mig_mode
        self._mig_mode = self._mig_mode if mode is None else mode

    def _utilization_source(self) -> UtilizationSource | None:
        if self.values.get("sm_active_percent") is not None:
            return "gpm"
        return None if self.values.get("gpu_utilization_percent") is None else "kernel-time"


_IDENTITY = frozenset(field for reading in STATIC for field, _ in reading.fields)


class DeviceReader:
    """A GPU by its NVML index; keeps its identity when it stops answering."""

    def __init__(self, library: Library, index: int, wall_clock: Callable[[], float]) -> None:
        self.index = index
        self.handle: Any = None
        self.openings = 0
        """How often its handle was asked for: what an earlier one refused, a later one may not."""
        self.kept: dict[str, Device] = {}
        """What an earlier collector left of each GPU, by UUID."""
        self._library = library
        self._wall_clock = wall_clock
        self._asked: HandleFacts | None = None
        self._put_aside: list[HandleFacts] = []
        """What was asked of earlier handles, and holds what NVML lent until it may be asked."""
        self._known: dict[str, Any] = {}
        self._xids: XidWatch | None = None
        self._left: dict[str, Any] = {}
        """What earlier handles told last, once it may be worth a comparison."""
        self._out_by = codes.SUCCESS
        """By what the GPU was out of order when its handle was last asked for."""
        self._retry_at = 0.0
        self._state: DeviceState = "ok"
        self._fault: Fault | None = None

    def read(self, now: float) -> Device:
        """Read what is due at `now` (monotonic seconds); never raises."""
        is_outdated = self._asked is not None and self._asked.is_outdated
        if is_outdated or (self._asked is None and now >= self._retry_at):
            self._open(now)
        if self._asked is not None:
            self._read(self._asked, now)
        values = self._known if self._asked is None else self._asked.values
        return Device(
            index=self.index,
            state=self._state,
            fault=self._fault,
            **{**values, "xid_events": self._xid_events},
        )

    def identity(self) -> dict[str, Any]:
        """Return what is true of it whatever it does now, also while a call is under way."""
        asked = self._asked
        values = self._known if asked is None else asked.values
        return {**_identity(values), "xid_events": self._xid_events}

    def asleep(self, bus_id: str | None, name: str | None, uuid: str | None) -> Device:
        """Return the GPU as suspended, without any call: it would wake it, or hang."""
        identity: dict[str, Any] = {"pci_bus_id": bus_id, "name": name, "uuid": uuid}
        identity.update(self.identity())
        self._forget_handle()
        return Device(index=self.index, state="asleep", **identity)

    def reopen(self, index: int) -> None:
        """Ask for the handle again at the next read: the old one died with the driver."""
        self.index = index
        self._forget_handle()

    def close(self) -> None:
        """Give back what NVML lent, while it is still open."""
        for asked in (*self._put_aside, self._asked):
            if asked is not None:
                asked.close()
        self._put_aside.clear()
        if self._xids is not None:
            self._xids.close()

    def begin_anew(self) -> None:
        """Take note that the driver was loaded anew: what was reported before is over."""
        if self._xids is not None:
            self._xids.put_behind()

    def fail(self, code: int, now: float) -> None:
        """Mark the GPU as failed for `code`; it is asked again after a while."""
        self._forget_handle()
        self.close()
        self._retry_at = now + RETRY_SECONDS
        self._state = _state(code)
        self._fault = Fault(
            source="nvml",
            code=code,
            uuid=self._known.get("uuid"),
            message=clean(codes.device_message(self.index, code)),
        )

    @property
    def _xid_events(self) -> tuple[XidEvent, ...] | None:
        return None if self._xids is None else self._xids.events

    def _open(self, now: float) -> None:
        handle, code = self._library.ask("nvmlDeviceGetHandleByIndex", self.index)
        if code:
            self.fail(code, now)
            return
        self._forget_handle()
        self.close()
        self._out_by = (self._fault.code if self._fault else None) or codes.SUCCESS
        self.handle, self._state, self._fault = handle, "ok", None
        self.openings += 1
        self._asked = HandleFacts(self._library, handle)

    def _forget_handle(self) -> None:
        asked = self._asked
        if asked is not None:
            self._known = _identity(asked.values) or self._known
            self._put_aside.append(asked)
            if self._xids is not None:
                told = asked.values.items()
                self._left.update((name, value) for name, value in told if value is not None)
        self.handle, self._asked = None, None
        self._retry_at = 0.0

    def _read(self, asked: HandleFacts, now: float) -> None:
        is_new = not asked.reads
        if not is_new:
            self._watch_xids(asked, now)
        try:
            asked.read(now)
        except DeviceLost as lost:
            self.fail(lost.code, now)
            return
        kept = self.kept.pop(asked.values.get("uuid") or "", None) if is_new and self.kept else None
        if kept is not None:
            self._recall(kept)
        if is_new and self._xids is not None:
            self._settle_xids(self._xids, asked)
            self._watch_xids(asked, now)

    def _recall(self, kept: Device) -> None:
        """Go on from where an earlier collector ended."""
        from gpudash.collect.nvml.xids import XidWatch

        self._xids = self._xids or XidWatch(self._library, self._wall_clock, kept.xid_events)
        told = {name: getattr(kept, name) for name in kept.__struct_fields__}
        self._left = {name: value for name, value in told.items() if value is not None}

    def _settle_xids(self, xids: XidWatch, asked: HandleFacts) -> None:
        """Put behind what was reported before a reset, if there was one since the last handle."""

        if self._out_by in CAME_BACK or was_reset(self._left, asked.values):
            xids.put_behind()
        # Told by an earlier collector, and settled now; handles tell none.
        self._left.pop("state", None)

    def _watch_xids(self, asked: HandleFacts, now: float) -> None:
        """Fetch the XIDs from the second tick on: a first one may be the only one."""
        if self._xids is None and asked.reads:
            from gpudash.collect.nvml.xids import XidWatch

            self._xids = XidWatch(self._library, self._wall_clock)
        if self._xids is not None:
            self._xids.fetch(self.handle, now)


def _identity(values: dict[str, Any]) -> dict[str, Any]:
    return {field: values[field] for field in _IDENTITY & values.keys()}


def _state(code: int) -> DeviceState:
    if code == codes.GPU_IS_LOST:
        return "lost"
    return "reset-required" if code == codes.RESET_REQUIRED else "failed"


_NOT_ASKED = FieldAnswers({}, frozenset(), codes.SUCCESS)


class Fields:
    """The field values of one GPU, each on its pace, with all that counts in the same batch."""

    def __init__(self, library: Library) -> None:
        self._counters = Counters()
        self._throttling: Throttling | None = None
        self._link_errors: LinkErrors | None = None
        self._library = library
        self._due = dict.fromkeys(FIELD_VALUES, 0.0)
        self._has_call = True

    def follow_links(self, active: tuple[int, ...]) -> None:
        """Count what goes over these NVLinks, those that are up."""
        self._counters.links = active

    def bound_pcie(self, most_bytes_per_second: float | None) -> None:
        """Take note of what the PCIe link carries each way at its best, None if unknown."""
        self._counters.pcie_ceiling = most_bytes_per_second

    def start_slow(self) -> None:
        """Begin with what tells nothing in a first tick, which may be the only one."""
        if self._throttling is None:
            from gpudash.collect.nvml.links import LinkErrors
            from gpudash.collect.nvml.rates import Throttling

            self._throttling, self._link_errors = Throttling(), LinkErrors(self._library)

    def read(self, handle: Any, now: float) -> dict[str, Any]:
        """Return the fields that were due; those of the counters at each read.

        Raises DeviceLost when the device says that it is gone.
        """
        wanted = [field for field, due in self._due.items() if now >= due]
        batch = [(field.id, 0) for field in wanted]
        if not self._library.single_look:
            batch += self._counters.wanted()
        if self._throttling is not None and self._link_errors is not None:
            self._link_errors.links = self._counters.links
            batch += self._throttling.wanted(now) + self._link_errors.wanted(now)
        answers = _NOT_ASKED
        if batch and self._has_call:
            answers = self._library.fields(handle, batch)
        if answers.code in codes.DEAD:
            raise DeviceLost(answers.code)
        self._has_call = self._has_call and answers.code not in codes.PERMANENT
        facts = {field.field: self._take(field, answers, now) for field in wanted}
        facts.update(self._counters.rates(answers.values, answers.refused, now))
        if self._throttling is not None and self._link_errors is not None:
            facts.update(self._throttling.facts(answers, now))
            facts.update(self._link_errors.facts(answers, handle, now))
        return facts

    def _take(self, field: FieldValue, answers: FieldAnswers, now: float) -> Any:
        scope = field.id, 0
        answer = answers.values.get(scope)
        if scope in answers.refused:
            del self._due[field]
        elif field.seconds == STATIC_SECONDS and answer is None:
            self._due[field] = now + RETRY_SECONDS
        else:
            self._due[field] = now + field.seconds
        return None if answer is None else field.convert(answer.value)


_MAX_FANS = 16


class Fans:
    """How many fans a GPU has, asked until it is known, and their speeds."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._count: int | None = None

    def speeds(self, handle: Any) -> tuple[int | None, ...] | None:
        """Return the speed of each fan in percent; None if there is none or none answers.

        Raises DeviceLost when the device says that it is gone.
        """
        if self._count is None:
            count, code = self._ask("nvmlDeviceGetNumFans", handle)
            if code in codes.PERMANENT:
                self._count = 0
            elif (number := small_count(count)) is not None:
                self._count = min(number, _MAX_FANS)
        answers = [
            self._ask("nvmlDeviceGetFanSpeed_v2", handle, fan) for fan in range(self._count or 0)
        ]
        if answers and all(code in codes.PERMANENT for _, code in answers):
            self._count = 0
        speeds = tuple(fan_percent(speed) for speed, _ in answers)
        return speeds if any(speed is not None for speed in speeds) else None

    def _ask(self, call: str, *arguments: Any) -> tuple[Any, int]:
        value, code = self._library.ask(call, *arguments)
        if code in codes.DEAD:
            raise DeviceLost(code)
        return value, code


_INTEGRATED = frozenset({"gb10", "orin", "thor", "xavier", "tegra", "nvgpu", "n1x"})
_SIZES = ("memory_total_bytes", "memory_reserved_bytes", "memory_used_bytes", "memory_free_bytes")


def memory_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether the memory is the host's, and no size where NVML has none to tell.

    Such a chip answers NOT_SUPPORTED, or 0 bytes in total. So may a lost GPU, or a MIG parent
    without rights: only the name, or page tables shared with the CPU, tell them apart.
    """
    if facts.get("memory_total_bytes") is not None:
        return {"unified_memory": False}
    words = (facts.get("name") or "").lower().replace("(", " ").replace(")", " ").split()
    is_integrated = not _INTEGRATED.isdisjoint(words) or facts.get("addressing_mode") == "ats"
    is_unified = is_integrated and not facts.get("mig_mode")
    return {**dict.fromkeys(_SIZES), "unified_memory": True if is_unified else None}


CAME_BACK = frozenset({codes.GPU_IS_LOST, codes.RESET_REQUIRED, codes.UNINITIALIZED})
"""What a GPU answers that can be read again only after a reset, or another load of the driver."""

_RISING = ("total_energy_mj", "pcie_replay_count")
"""Counters since the driver took the GPU over, which nobody else sets back."""
_MENDED = ("remapped_rows_pending", "retired_pages_pending")
"""What waits for a reset."""
_OUT = frozenset({"lost", "reset-required"})
"""States from which the same brings a GPU back."""
_RESETS = frozenset({"gpu-reset", "drain-and-reset", "bus-reset", "node-reboot", "system-reboot"})


def was_reset(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the values of a new handle are those of a GPU that began anew since `before`."""
    return (
        before.get("state") in _OUT
        or any(_fell(before.get(name), after.get(name)) for name in _RISING)
        or any(before.get(name) is True and after.get(name) is False for name in _MENDED)
        or (before.get("recovery_action") in _RESETS and after.get("recovery_action") == "none")
    )


def _fell(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and after < before
