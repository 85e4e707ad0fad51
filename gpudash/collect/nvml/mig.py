"""The MIG instances of one GPU: which there are, and each read call by call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.calls import INSTANCE_SECONDS, MIG_LANES
from gpudash.collect.nvml.gpm import Gpm
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.poll import DeviceLost, Lane
from gpudash.model.device import Device

_GONE = codes.PERMANENT | codes.DEAD | {codes.INVALID_ARGUMENT, codes.NOT_FOUND}
"""How it is said that there is no instance; any other failure says nothing."""


class InstanceReader:
    """A GPU's MIG instances from tick to tick; they are made and destroyed while it works."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._slots: dict[int, _Slot] = {}
        self._due = 0.0
        self._gpm: dict[int, Gpm] = {}

    def read(self, handle: Any, parent: Device, now: float) -> tuple[Device, ...]:
        """Return the instances by their numbers, none of a GPU that is not split or gone."""
        # A mode that is not known for once is that of before.
        if handle is None or not (parent.mig_mode or (parent.mig_mode is None and self._slots)):
            self.close()
            return ()
        is_due = now >= self._due
        if is_due:
            self._due = now + INSTANCE_SECONDS
            self._slots = {slot.number: slot for slot in self._occupied(handle)}
        read = [slot.read(self._library, parent, now) for slot in self._slots.values()]
        devices = [device for device in read if device is not None]
        if is_due:
            self._close_gpm({device.gpu_instance_id for device in devices})
        return tuple(self._with_activity(handle, device, now) for device in devices)

    def close(self) -> None:
        """Give back what NVML lent, and look for instances anew at the next read."""
        self._close_gpm(set())
        self._slots, self._due = {}, 0.0

    def _occupied(self, handle: Any) -> Iterable[_Slot]:
        """Yield each slot that holds an instance; their numbers are sparse."""
        most, code = self._library.ask("nvmlDeviceGetMaxMigDeviceCount", handle)
        if code and code not in _GONE:
            yield from self._slots.values()
        for number in range(most or 0):
            instance, code = self._library.ask(
                "nvmlDeviceGetMigDeviceHandleByIndex", handle, number
            )
            slot = self._slots.get(number)
            if not code:
                slot = slot or _Slot(number)
                slot.handle = instance
            if slot is not None and code not in _GONE:
                yield slot

    def _with_activity(self, handle: Any, device: Device, now: float) -> Device:
        number = device.gpu_instance_id
        if number is None:
            return device
        gpm = self._gpm.get(number)
        if gpm is None:
            gpm = self._gpm[number] = Gpm(self._library, gpu_instance_id=number)
        activity = gpm.read(handle, now)
        source = None if activity["sm_active_percent"] is None else "gpm"
        return replace(device, utilization_source=source, **activity)

    def _close_gpm(self, kept: set[int | None]) -> None:
        for number in self._gpm.keys() - kept:
            self._gpm.pop(number).close()


class _Slot:
    """One place for an instance, with what is known of the one in it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.handle: Any = None
        self._lanes = [Lane(readings, seconds) for readings, seconds in MIG_LANES]
        self._facts: dict[str, Any] = {}

    def read(self, library: Library, parent: Device, now: float) -> Device | None:
        """Read what is due; None if the instance has vanished."""
        for lane in self._lanes:
            if lane.is_due(now):
                try:
                    seen = lane.read(library, self.handle, self._facts, now)
                except DeviceLost:
                    return None
                if codes.INVALID_ARGUMENT in seen:
                    return None
        return Device(
            index=self.number,
            parent_uuid=parent.uuid,
            pci_bus_id=parent.pci_bus_id,
            **self._facts,
        )
