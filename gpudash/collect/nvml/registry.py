"""Which GPUs there are: each is known by its place on the bus, for numbers change with the others.

A GPU that was removed keeps its row until gpudash ends or it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.bus import kernel_address
from gpudash.collect.nvml.gpu import Gpu
from gpudash.collect.nvml.library import Library
from gpudash.model.device import Device
from gpudash.model.errors import DriverError
from gpudash.model.fault import Fault
from gpudash.model.text import clean


class Roster:
    """The GPUs in the order of their indices, and those that were removed."""

    def __init__(
        self,
        library: Library,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        kept: dict[str, Device] | None = None,
    ) -> None:
        self.gpus: list[Gpu] = []
        self._kept = {} if kept is None else kept
        self._library = library
        self._clock = clock
        self._wall_clock = wall_clock
        self._removed: dict[str, Device] = {}

    def count(self, on_bus: Sequence[str]) -> None:
        """Ask NVML, just opened, for its GPUs; `on_bus` are the addresses that the kernel shows.

        NVML numbers GPUs in PCI order. Where it does not count those that the kernel shows, as in
        a container, that says nothing, and each is asked for its address, to tell it from those
        of before.

        Raises DriverError when NVML does not count them.
        """
        count, code = self._library.ask("nvmlDeviceGetCount")
        if code:
            raise DriverError(code, codes.driver_message(code))
        indices = range(count)
        if len(on_bus) == count:
            self.arrange(on_bus)
        else:
            self.arrange([self._address(index) if self.gpus else None for index in indices])

    def arrange(self, addresses: Sequence[str | None]) -> None:
        """Number the GPUs at these addresses, and take note of those that are gone."""
        before = {gpu.address: gpu for gpu in self.gpus if gpu.address}
        # One that is lost does not tell its address: the number has to do.
        left = {gpu.reader.index: gpu for a, gpu in before.items() if a not in addresses}
        gpus: list[Gpu] = []
        for index, address in enumerate(addresses):
            gpu = before.get(address) if address else left.get(index)
            gpus.append(gpu or Gpu(self._library, index, address, self._clock, self._wall_clock))
            gpus[-1].reader.kept = self._kept
            gpus[-1].reader.reopen(index)
        self.gpus = gpus
        present = {gpu.address for gpu in self.gpus}
        gone = {a: gpu.device for a, gpu in before.items() if gpu.device.uuid}
        known = {**self._removed, **gone}
        self._removed = {a: device for a, device in known.items() if a not in present}

    @property
    def misses_any(self) -> bool:
        """Whether a GPU is gone that was there."""
        is_lost = any(gpu.device.state == "lost" for gpu in self.gpus)
        return is_lost or bool(self._removed and self.removed())

    def removed(self) -> tuple[Device, ...]:
        """Return those that were removed, under their numbers or, where taken, the next free."""
        taken = {gpu.reader.index for gpu in self.gpus} if self._removed else set()
        present = {gpu.device.uuid for gpu in self.gpus} if self._removed else set()
        rows: list[Device] = []
        for device in self._removed.values():
            if device.uuid in present:
                continue
            index = device.index
            while index in taken:
                index += 1
            taken.add(index)
            rows.append(_tombstone(device, index))
        return tuple(rows)

    def begin_anew(self) -> None:
        """Take note that the driver was loaded anew."""
        for gpu in self.gpus:
            gpu.reader.begin_anew()

    def close(self) -> None:
        """Give back what NVML lent for all, while it is still open."""
        for gpu in self.gpus:
            gpu.close()

    def _address(self, index: int) -> str | None:
        handle, code = self._library.ask("nvmlDeviceGetHandleByIndex", index)
        pci = None if code else self._library.ask("nvmlDeviceGetPciInfo", handle)[0]
        return None if pci is None else kernel_address(pci.busId)


def _tombstone(device: Device, index: int) -> Device:
    # The driver counts those that are left anew, so that its number may be another's by now.
    which = f"GPU {index}" if index == device.index else f"the former GPU {device.index}"
    message = clean(f"{which} was removed: the NVIDIA driver no longer has it")
    return Device(
        index=index,
        uuid=device.uuid,
        name=device.name,
        pci_bus_id=device.pci_bus_id,
        serial=device.serial,
        architecture=device.architecture,
        xid_events=device.xid_events,
        state="lost",
        fault=Fault(source="nvml", uuid=device.uuid, message=message),
    )
