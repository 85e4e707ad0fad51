"""The MIG instances of one GPU, and the answers of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.calls import (
    INSTANCE_DETAILS,
    INSTANCE_POLL_GROUPS,
    INSTANCE_SECONDS,
)
from gpudash.collect.nvml.gpm import Gpm
from gpudash.collect.nvml.library import DeviceLost, Library
from gpudash.collect.nvml.polling import PollGroup, Timer
from gpudash.model.device import Device

_GONE = codes.PERMANENT | codes.DEAD | {codes.INVALID_ARGUMENT, codes.NOT_FOUND}
"""Answers that mean there is no instance; any other failure leaves that open."""
_MAX_INSTANCES = 64
"""No GPU has more than a few; a driver that reports more is not believed."""


class InstanceReader:
    """A GPU's MIG instances from tick to tick; they may be created and destroyed at any time."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._slots: dict[int, _Slot] = {}
        self._timer = Timer(INSTANCE_SECONDS)
        self._gpm: dict[int, Gpm] = {}

    def read(self, handle: Any, parent: Mapping[str, Any], now: float) -> tuple[Device, ...]:
        """Return the instances by number, none for a GPU without a handle or outside of MIG mode.

        `parent` has the fields of the whole GPU.
        """
        mode = parent.get("mig_mode")
        # A momentarily unknown mode is assumed unchanged.
        if handle is None or not (mode or (mode is None and self._slots)):
            self.close()
            return ()
        is_due = self._timer.is_due(now)
        if is_due:
            self._slots = {slot.number: slot for slot in self._occupied(handle)}
        present = [slot for slot in self._slots.values() if slot.read(self._library, now)]
        if is_due:
            self._close_gpm({slot.values["gpu_instance_id"] for slot in present})
        return tuple(
            self._library.device_class(
                index=slot.number,
                parent_uuid=parent.get("uuid"),
                pci_bus_id=parent.get("pci_bus_id"),
                **slot.values,
                **self._activity(handle, slot.values["gpu_instance_id"], now),
            )
            for slot in present
        )

    def close(self) -> None:
        """Free what NVML allocated, and search for instances again at the next read."""
        self._close_gpm(set())
        self._slots, self._timer = {}, Timer(INSTANCE_SECONDS)

    def _occupied(self, handle: Any) -> Iterable[_Slot]:
        """Yield each slot with an instance; the numbers have gaps."""
        count, code = self._library.call("nvmlDeviceGetMaxMigDeviceCount", handle)
        if code and code not in _GONE:
            yield from self._slots.values()
        for number in range(min(count or 0, _MAX_INSTANCES)):
            instance, code = self._library.call(
                "nvmlDeviceGetMigDeviceHandleByIndex", handle, number
            )
            slot = self._slots.get(number)
            if not code:
                slot = slot or _Slot(number)
                slot.handle = instance
            if slot is not None and code not in _GONE:
                yield slot

    def _activity(self, handle: Any, instance: int | None, now: float) -> dict[str, Any]:
        if instance is None:
            return {}
        gpm = self._gpm.get(instance)
        if gpm is None:
            gpm = self._gpm[instance] = Gpm(self._library, gpu_instance_id=instance)
        activity = gpm.read(handle, now)
        source = None if activity["sm_active_percent"] is None else "gpm"
        return {**activity, "utilization_source": source}

    def _close_gpm(self, kept: set[int | None]) -> None:
        for number in self._gpm.keys() - kept:
            self._gpm.pop(number).close()


class _Slot:
    """A slot for an instance, and the fields of the one in it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.handle: Any = None
        self.values: dict[str, Any] = {}
        self._groups = [PollGroup(calls, seconds) for calls, seconds in INSTANCE_POLL_GROUPS]
        self._details = PollGroup(*INSTANCE_DETAILS)

    def read(self, library: Library, now: float) -> bool:
        """Read due values; return False if the instance has vanished."""
        try:
            for group in self._groups:
                if group.is_due(now):
                    answered = group.read(library, self.handle, self.values, now)
                    if codes.INVALID_ARGUMENT in answered:
                        return False
            if library.wants("sram_uncorrected_volatile_count") and self._details.is_due(now):
                self._details.read(library, self.handle, self.values, now)
        except DeviceLost:
            return False
        return True
