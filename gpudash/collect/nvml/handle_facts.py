"""What is asked of one device handle from tick to tick, each thing on its pace."""

from __future__ import annotations

from typing import Any

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.answers import FieldAnswer
from gpudash.collect.nvml.calls import LANES
from gpudash.collect.nvml.fabric import Fabric
from gpudash.collect.nvml.fans import Fans
from gpudash.collect.nvml.fields import Fields
from gpudash.collect.nvml.gpm import Gpm
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.links import NvLinks
from gpudash.collect.nvml.paces import FAST_SECONDS, SLOW_SECONDS, STATIC_SECONDS, STEADY_SECONDS
from gpudash.collect.nvml.pcie import PcieThroughput
from gpudash.collect.nvml.poll import DeviceLost, Lane
from gpudash.collect.nvml.rates import COUNTERS
from gpudash.collect.nvml.slopes import Slopes
from gpudash.collect.nvml.unified import memory_facts
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
