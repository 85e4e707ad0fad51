"""One GPU read call by call: what it answers, what it never answers, and when it is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudash.snapshot import Device, DeviceState, Fault, UtilizationSource
from gpudash.sources.nvml import codes
from gpudash.sources.nvml.answers import FieldAnswer
from gpudash.sources.nvml.counters import COUNTERS
from gpudash.sources.nvml.fabric import Fabric
from gpudash.sources.nvml.fans import Fans
from gpudash.sources.nvml.fields import Fields
from gpudash.sources.nvml.gpm import Gpm
from gpudash.sources.nvml.lanes import DeviceLost, Lane
from gpudash.sources.nvml.library import Library
from gpudash.sources.nvml.links import NvLinks
from gpudash.sources.nvml.paces import FAST_SECONDS, RETRY_SECONDS, SLOW_SECONDS, STEADY_SECONDS
from gpudash.sources.nvml.readings import LANES, STATIC
from gpudash.sources.nvml.slopes import Slopes
from gpudash.sources.nvml.unified import memory_facts
from gpudash.sources.nvml.xids import XidWatch
from gpudash.text import clean

_COUNTED = frozenset(counter.field for counter in COUNTERS)
_IDENTITY = frozenset(field for reading in STATIC for field, _ in reading.fields)


class DeviceReader:
    """A GPU by its NVML index, read on lanes; keeps its identity when it stops answering."""

    def __init__(self, library: Library, index: int, wall_clock: Callable[[], float]) -> None:
        self.index = index
        self.handle: Any = None
        self.openings = 0
        """How often its handle was asked for: what an earlier one refused, a later one may not."""
        self._library = library
        self._facts: dict[str, Any] = {}
        self._gpm = Gpm(library)
        self._xids = XidWatch(library, wall_clock)
        self._mig_mode: bool | None = None
        self._is_outdated = False
        self._retry_at = 0.0
        self._state: DeviceState = "ok"
        self._fault: Fault | None = None
        self._start_anew()

    def read(self, now: float) -> Device:
        """Read what is due at `now` (monotonic seconds); never raises."""
        if self._is_outdated or (self.handle is None and now >= self._retry_at):
            self._open(now)
        if self.handle is not None:
            self._xids.fetch(self.handle, now)
            try:
                self._read_all(now)
            except DeviceLost as lost:
                self.fail(lost.code, now)
        return Device(
            index=self.index,
            state=self._state,
            fault=self._fault,
            xid_events=self._xids.events,
            **self._facts,
        )

    def identity(self) -> dict[str, Any]:
        """Return what is true of it whatever it does now, also while a call is under way."""
        known = {field: self._facts[field] for field in _IDENTITY & self._facts.keys()}
        return {**known, "xid_events": self._xids.events}

    def asleep(self, bus_id: str | None, name: str | None, uuid: str | None) -> Device:
        """Return the GPU as suspended, without a call that would wake it."""
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
        self._gpm.close()
        self._xids.close()

    def fail(self, code: int, now: float) -> None:
        """Mark the GPU as failed for `code`; it is asked again after a while."""
        self._forget_handle()
        self._retry_at = now + RETRY_SECONDS
        self._facts = {f: value for f, value in self._facts.items() if f in _IDENTITY}
        self._state = _state(code)
        self._fault = self._fault_of(code)

    def _open(self, now: float) -> None:
        handle, code = self._library.ask("nvmlDeviceGetHandleByIndex", self.index)
        if code:
            self.fail(code, now)
            return
        self.handle, self._state, self._fault = handle, "ok", None
        self.openings += 1
        self._facts = {}
        self._start_anew()

    def _start_anew(self) -> None:
        """Ask for everything again: it may be another GPU, or another driver's."""
        self._lanes = [Lane(readings, seconds) for readings, seconds in LANES]
        self._fields = Fields(self._library)
        self._fans = Fans(self._library)
        self._links = NvLinks(self._library)
        self._fabric = Fabric(self._library)
        self._slopes = Slopes()
        self.close()
        self._mig_mode = None
        self._is_outdated = False

    def _forget_handle(self) -> None:
        self.handle = None
        self._retry_at = 0.0
        self._is_outdated = False
        self.close()

    def _read_all(self, now: float) -> None:
        for lane in self._lanes:
            if lane.is_due(now):
                self._read_lane(lane, now)
        self._facts.update(self._fields.read(self.handle, now))
        for field, value in self._gpm.read(self.handle, now).items():
            if field not in _COUNTED or self._facts.get(field) is None:
                self._facts[field] = value
        self._facts["utilization_source"] = self._utilization_source()

    def _read_lane(self, lane: Lane, now: float) -> None:
        seen = lane.read(self._library, self.handle, self._facts, now)
        if lane.seconds == FAST_SECONDS:
            if seen and all(seen):
                raise DeviceLost(seen[0])
            self._facts.update(memory_facts(self._facts))
        if lane.seconds == STEADY_SECONDS:
            self._facts["fan_speeds_percent"] = self._fans.speeds(self.handle)
        if lane.seconds == SLOW_SECONDS:
            self._take(*self._links.facts(self.handle))
            self._fields.follow_links(self._links.active)
            self._take(*self._fabric.facts(self.handle))
            self._take_replays(now)
            self._compare_mig_mode()

    def _compare_mig_mode(self) -> None:
        """Open the GPU anew at the next read if the mode has changed: so has what it supports."""
        mode = self._facts["mig_mode"]
        self._is_outdated = None not in (mode, self._mig_mode) and mode != self._mig_mode
        self._mig_mode = self._mig_mode if mode is None else mode

    def _take(self, facts: dict[str, Any], code: int) -> None:
        if code in codes.DEAD:
            raise DeviceLost(code)
        self._facts.update(facts)

    def _take_replays(self, now: float) -> None:
        count = self._facts.get("pcie_replay_count")
        answer = None if count is None else FieldAnswer(count, int(now * 1e6))
        slope = self._slopes.per_second("pcie_replay_count", answer)
        self._facts["pcie_replays_per_second"] = None if slope is None else round(slope, 3)

    def _utilization_source(self) -> UtilizationSource | None:
        if self._facts.get("sm_active_percent") is not None:
            return "gpm"
        return None if self._facts.get("gpu_utilization_percent") is None else "kernel-time"

    def _fault_of(self, code: int) -> Fault:
        uuid = self._facts.get("uuid")
        message = clean(codes.device_message(self.index, code))
        return Fault(source="nvml", code=code, uuid=uuid, message=message)


def _state(code: int) -> DeviceState:
    if code == codes.GPU_IS_LOST:
        return "lost"
    return "reset-required" if code == codes.RESET_REQUIRED else "failed"
