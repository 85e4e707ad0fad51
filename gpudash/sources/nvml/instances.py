"""The MIG instances of one GPU: which there are, and each read call by call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from gpudash.snapshot import Device
from gpudash.sources.nvml import codes
from gpudash.sources.nvml.gpm import Gpm
from gpudash.sources.nvml.library import Library
from gpudash.sources.nvml.readings import MIG

_PACE_SECONDS = 4.9


class InstanceReader:
    """A GPU's MIG instances from tick to tick; they are made and destroyed while it works."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._handles: tuple[tuple[int, Any], ...] = ()
        self._due = 0.0
        self._gpm: dict[int, Gpm] = {}

    def read(self, handle: Any, parent: Device, now: float) -> tuple[Device, ...]:
        """Return the instances by their numbers, none of a GPU that is not split or gone."""
        if handle is None or not parent.mig_mode:
            self.close()
            return ()
        if now >= self._due:
            self._due = now + _PACE_SECONDS
            self._handles = tuple(self._slots(handle))
        read = (self._read(instance, parent, number) for number, instance in self._handles)
        return tuple(self._with_activity(handle, device, now) for device in read if device)

    def close(self) -> None:
        """Give back what NVML lent, and look for instances anew at the next read."""
        for gpm in self._gpm.values():
            gpm.close()
        self._gpm.clear()
        self._handles, self._due = (), 0.0

    def _slots(self, handle: Any) -> Iterable[tuple[int, Any]]:
        """Yield (number, handle) of each instance; numbers are sparse."""
        most, _ = self._library.ask("nvmlDeviceGetMaxMigDeviceCount", handle)
        for number in range(most or 0):
            instance, code = self._library.ask(
                "nvmlDeviceGetMigDeviceHandleByIndex", handle, number
            )
            if not code:
                yield number, instance

    def _read(self, handle: Any, parent: Device, number: int) -> Device | None:
        """Read the instance in one slot; None if it vanished meanwhile."""
        facts: dict[str, Any] = {}
        for reading in MIG:
            value, code = self._library.ask(reading.call, handle, *reading.arguments)
            if code == codes.INVALID_ARGUMENT or code in codes.DEAD:
                return None
            for field, convert in reading.fields:
                facts[field] = None if code else convert(value)
        return Device(index=number, parent_uuid=parent.uuid, pci_bus_id=parent.pci_bus_id, **facts)

    def _with_activity(self, handle: Any, device: Device, now: float) -> Device:
        number = device.gpu_instance_id
        if number is None:
            return device
        gpm = self._gpm.get(number)
        if gpm is None:
            gpm = self._gpm[number] = Gpm(self._library, gpu_instance_id=number)
        return replace(device, **gpm.read(handle, now))
