"""Opening, closing and reopening NVML, and the present GPUs, as driver and GPUs come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.bus import SUSPENDED, Bus, PowerStates
from gpudash.collect.nvml.calls import MAX_REOPEN_SECONDS, RETRY_SECONDS
from gpudash.collect.nvml.gpu import Gpu
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.worker import DriverWorker, Task, timeout_fault
from gpudash.model.device import Device
from gpudash.model.errors import DriverError
from gpudash.model.fault import Fault
from gpudash.model.text import NAME_BYTES, SafeText, bound, clean
from gpudash.system.pci import kernel_address

if TYPE_CHECKING:
    from gpudash.collect.nvml.xids import XidWatch

_MAX_GPUS = 1024

CALL_HANGS = "a call hangs in the driver, which keeps the GPUs"


class Versions(Struct, frozen=True, kw_only=True):
    """The driver's versions, None if unknown."""

    driver_version: SafeText | None = None
    nvml_version: SafeText | None = None
    cuda_driver_version: str | None = None


def read_versions(library: Library) -> Versions:
    """Return the versions of the open driver."""
    driver, _ = library.call("nvmlSystemGetDriverVersion")
    nvml, _ = library.call("nvmlSystemGetNVMLVersion")
    cuda, _ = library.call("nvmlSystemGetCudaDriverVersion_v2")
    return Versions(
        driver_version=bound(clean(driver), NAME_BYTES) if driver else None,
        nvml_version=bound(clean(nvml), NAME_BYTES) if nvml else None,
        cuda_driver_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
    )


class Session:
    """Whether NVML is open, and for which GPUs; opening and closing are tasks that may hang."""

    def __init__(
        self, library: Library, registry: DeviceRegistry, bus: Bus, worker: DriverWorker
    ) -> None:
        self.is_open = False
        self.openings = 0
        """How often it was opened."""
        self.versions = Versions()
        self.task: Task[None] | None = None
        """The task that runs or waits for a thread; meanwhile nothing else may be called."""
        self._library = library
        self._registry = registry
        self._bus = bus
        self._worker = worker
        self._on_bus: tuple[str, ...] = ()
        self._load: int | None = None
        self._is_dead = False
        self._reopen = _ReopenBackoff()

    def ensure_open(
        self, states: PowerStates, now: float, *, resting: bool, has_pending: bool
    ) -> Task[None] | None:
        """Open or close NVML if that is due; return the task while that is not done.

        It is closed while `resting`, and stays as it is while a call is pending in the driver.
        Raises DriverError when NVML cannot be used at all.
        """
        before = self.task
        if before is not None and before.is_pending:
            return before
        if before is not None and before.is_done:
            self._finish(before)
        if self._is_settled(states, now, resting=resting, has_pending=has_pending):
            self.task = None
            return None
        self.task = task = Task(
            lambda: self._open_or_close(states, resting=resting), retry_of=before
        )
        self._worker.run([task], first=True)
        return self._finish(task)

    def close(self) -> None:
        """Release the driver; raises DriverError if that takes too long."""
        self.task = task = Task(self._close)
        self._worker.run([task], first=True)
        if self._finish(task) is not None:
            fault = timeout_fault(task, "the driver")
            raise DriverError(
                fault.code or codes.TIMEOUT, CALL_HANGS if task.is_pending else fault.message
            )

    def check_driver(self) -> None:
        """Reopen NVML in the next tick if all GPUs find it uninitialised: a driver reload."""
        faults = [gpu.device.fault for gpu in self._registry.gpus]
        if faults and all(fault and fault.code == codes.UNINITIALIZED for fault in faults):
            self._is_dead = True

    def _finish(self, task: Task[None]) -> Task[None] | None:
        """Raise the exception of a task; return the task while it runs."""
        if not task.is_done:
            return task
        self.task = None
        task.result()
        return None

    def _is_settled(
        self, states: PowerStates, now: float, *, resting: bool, has_pending: bool
    ) -> bool:
        if not self.is_open:
            return resting
        if has_pending:
            return True
        if resting or self._is_dead:
            return False
        if states:
            return tuple(states) == self._on_bus
        if self._reopen.is_due(now, is_needed=self._registry.misses_any):
            self._is_dead = True
        return not self._is_dead

    def _open_or_close(self, states: PowerStates, *, resting: bool) -> None:
        """Open NVML, once more if the GPUs on the bus changed: it counts them when opened.

        If none is visible there, as in some containers, they are assumed unchanged.
        """
        on_bus = tuple(states)
        changed = bool(on_bus) and on_bus != self._on_bus
        if resting or changed or self._is_dead:
            self._close()
        if resting or self.is_open:
            return
        self._on_bus = on_bus
        if on_bus and all(state in SUSPENDED for state in states.values()):
            if changed:
                self._registry.arrange(on_bus)
            return
        self._library.open()
        self.is_open = True
        self.openings += 1
        self.versions = read_versions(self._library)
        try:
            self._registry.update(on_bus)
        except DriverError:
            self._close()
            raise
        load = self._bus.driver_load()
        if None not in (load, self._load) and load != self._load:
            self._registry.on_driver_reload()
        self._load = load

    def _close(self) -> None:
        if self.is_open:
            self._registry.close()
            self._library.close()
        self.is_open = self._is_dead = False


class _ReopenBackoff:
    """When to reopen NVML for a GPU that is gone, if no bus shows its return.

    Reopening interrupts the rates of the other GPUs, so it is done ever more rarely.
    """

    def __init__(self) -> None:
        self._pause = RETRY_SECONDS
        self._due = inf

    def is_due(self, now: float, *, is_needed: bool) -> bool:
        """Return whether it is due; if so, restart the count."""
        if not is_needed:
            self._pause, self._due = RETRY_SECONDS, inf
        elif self._due == inf:
            self._due = now + self._pause
        elif now >= self._due:
            self._pause = min(2 * self._pause, MAX_REOPEN_SECONDS)
            self._due = now + self._pause
            return True
        return False


class DeviceRegistry:
    """The GPUs in the order of their indices, and those that were removed.

    Each is identified by its address on the bus, since indices change with the others. A removed
    GPU keeps its row until gpudash ends or the GPU returns.
    """

    def __init__(
        self,
        library: Library,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        handed_over: dict[str, Device] | None = None,
    ) -> None:
        self.gpus: list[Gpu] = []
        self._handed_over = {} if handed_over is None else handed_over
        self._xid_watches: list[XidWatch] = []
        self._library = library
        self._clock = clock
        self._wall_clock = wall_clock
        self._removed: dict[str, Device] = {}

    def update(self, on_bus: Sequence[str]) -> None:
        """Find the GPUs of NVML, just opened; `on_bus` are their addresses in the kernel.

        NVML numbers GPUs in PCI order. If its count differs from the kernel's, as in a container,
        the order is unknown, and each GPU is identified by its address.

        Raises DriverError if NVML cannot count them.
        """
        count, code = self._library.call("nvmlDeviceGetCount")
        if code:
            raise DriverError(code, codes.driver_message(code))
        if count > _MAX_GPUS:
            raise DriverError(codes.UNKNOWN, f"the driver reports {count} GPUs, which cannot be")
        indices = range(count)
        if len(on_bus) == count:
            self.arrange(on_bus)
        else:
            self.arrange([self._address(index) if self.gpus else None for index in indices])

    def arrange(self, addresses: Sequence[str | None]) -> None:
        """Number the GPUs at these addresses, and note those that are gone."""
        before = {gpu.address: gpu for gpu in self.gpus if gpu.address}
        # A lost GPU does not report its address, so its index must suffice.
        left = {gpu.reader.index: gpu for a, gpu in before.items() if a not in addresses}
        gpus: list[Gpu] = []
        for index, address in enumerate(addresses):
            gpu = before.get(address) if address else left.get(index)
            gpus.append(gpu or Gpu(self._library, index, address, self._clock, self._wall_clock))
            gpus[-1].reader.handed_over = self._handed_over
            gpus[-1].reader.xid_watches = self._xid_watches
            gpus[-1].reader.reopen(index)
        self.gpus = gpus
        present = {gpu.address for gpu in self.gpus}
        gone = {a: gpu.device for a, gpu in before.items() if gpu.device.uuid}
        known = {**self._removed, **gone}
        self._removed = {a: device for a, device in known.items() if a not in present}

    @property
    def misses_any(self) -> bool:
        """Whether a GPU is gone that was there before."""
        is_lost = any(gpu.device.state == "lost" for gpu in self.gpus)
        return is_lost or bool(self._removed and self.removed())

    def removed(self) -> tuple[Device, ...]:
        """Return those removed, by their numbers or, if reused, the next free ones."""
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
            rows.append(_removed_device(device, index))
        return tuple(rows)

    def on_driver_reload(self) -> None:
        """Note that the driver was reloaded."""
        for gpu in self.gpus:
            gpu.reader.on_driver_reload()
            gpu.last = None

    def close(self) -> None:
        """Free what NVML allocated for all, while it is still open."""
        for gpu in self.gpus:
            gpu.reader.close()
        for watch in self._xid_watches:
            watch.forget_handle()

    def _address(self, index: int) -> str | None:
        handle, code = self._library.call("nvmlDeviceGetHandleByIndex", index)
        pci = None if code else self._library.call("nvmlDeviceGetPciInfo", handle)[0]
        return None if pci is None else kernel_address(pci.busId)


def _removed_device(device: Device, index: int) -> Device:
    # The driver renumbers the remaining GPUs, so another may have its index.
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
