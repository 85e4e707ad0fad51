"""A simulated host's NVML: an object that offers pynvml's functions and constants by attribute.

A call in no table is answered with NOT_SUPPORTED, as by a driver that does not know it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudash.collect.nvml.bus import Identity
from gpudash.collect.simulated.calls import GPU_CALLS, INSTANCE_CALLS
from gpudash.collect.simulated.constants import CONSTANTS, NVMLError, NVMLLibraryMismatchError
from gpudash.collect.simulated.counters import (
    COUNTER_CALLS,
    EventSet,
    MetricsGet,
    Sample,
    compute,
)
from gpudash.collect.simulated.gpu import Gpu, Instance
from gpudash.collect.simulated.scene import Scene

_GPU_CALLS = {**GPU_CALLS, **COUNTER_CALLS}
_PREFIXES = ("nvmlDevice", "nvmlSystem", "nvmlGpm", "nvmlEvent")
_C = CONSTANTS


class Handle:
    """An opaque device handle, valid from one initialization to its shutdown."""

    __slots__ = ("device", "session")

    def __init__(self, device: Gpu | Instance, session: int) -> None:
        self.device = device
        self.session = session

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and other.device is self.device

    def __hash__(self) -> int:
        return hash(self.device)


class Library:
    """NVML of one scene. `woken` collects the PCI addresses of sleeping GPUs that were touched."""

    def __init__(self, scene: Scene, clock: Callable[[], float], seed: int) -> None:
        self.woken: set[str] = set()
        self._scene = scene
        self._clock = clock
        self._gpus = tuple(Gpu(scene, index, seed) for index in range(len(scene.cards)))
        self._users = 0
        self._session = 0
        vars(self).update(CONSTANTS)
        vars(self).update(
            NVMLError=NVMLError,
            NVMLLibraryMismatchError=NVMLLibraryMismatchError,
            c_nvmlGpmMetricsGet_t=MetricsGet,
            nvmlInit=self._init,
            nvmlInitWithFlags=self._init,
            nvmlShutdown=self._shutdown,
        )

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(_PREFIXES):
            raise AttributeError(name)

        def call(*arguments: Any, **named: Any) -> Any:
            return self._answer(name, arguments, named)

        call.__name__ = name
        vars(self)[name] = call
        return call

    def identity(self, address: str) -> Identity:
        """Return what the kernel module knows of a GPU; no NVML call, so it wakes nothing."""
        for gpu in self._gpus:
            if gpu.card.pci_address == address:
                return Identity(gpu.board.name, gpu.uuid)
        return Identity(None, None)

    def _init(self, flags: int = 0) -> None:
        if not self._users:
            self._session += 1
        self._users += 1

    def _shutdown(self) -> None:
        self._require_init()
        self._users -= 1

    def _require_init(self) -> None:
        if not self._users:
            raise NVMLError(_C["NVML_ERROR_UNINITIALIZED"])

    def _answer(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Answer one call; a table's None is NOT_SUPPORTED."""
        self._require_init()
        if name in _HOST_CALLS:
            value = _HOST_CALLS[name](self, *arguments, **named)
        else:
            value = self._ask_device(name, [self._device(one) for one in arguments], named)
        if value is None:
            raise NVMLError(_C["NVML_ERROR_NOT_SUPPORTED"])
        return value

    def _ask_device(self, name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
        device = arguments[0] if arguments else None
        if isinstance(device, Gpu):
            if name == "nvmlDeviceGetMigDeviceHandleByIndex":
                return self._instance(*arguments)
            call = _GPU_CALLS.get(name)
            return call and call(device, self._clock(), *arguments[1:], **named)
        if isinstance(device, Instance):
            call = INSTANCE_CALLS.get(name)
            return call and call(device, self._clock(), *arguments[1:], **named)
        return None

    def _device(self, argument: Any) -> Any:
        """Return the device behind a handle, any other argument as it is."""
        if not isinstance(argument, Handle):
            return argument
        if argument.session != self._session:
            raise NVMLError(_C["NVML_ERROR_INVALID_ARGUMENT"])
        device = argument.device
        self._touch(device if isinstance(device, Gpu) else device.gpu)
        return device

    def _handle(self, device: Gpu | Instance) -> Handle:
        self._touch(device if isinstance(device, Gpu) else device.gpu)
        return Handle(device, self._session)

    def _touch(self, gpu: Gpu) -> None:
        """Note that a sleeping GPU was woken.

        Raises NVMLError GPU_IS_LOST for one that fell off the bus.
        """
        if gpu.card.state == "lost":
            raise NVMLError(_C["NVML_ERROR_GPU_IS_LOST"])
        if gpu.card.state == "suspended":
            self.woken.add(gpu.card.pci_address)

    def _by_index(self, index: int) -> Handle:
        if not 0 <= index < len(self._gpus):
            raise NVMLError(_C["NVML_ERROR_INVALID_ARGUMENT"])
        return self._handle(self._gpus[index])

    def _instance(self, gpu: Gpu, slot: int) -> Handle | None:
        """Return the MIG instance in a slot, None on a GPU that cannot be split."""
        if not gpu.board.mig_slots:
            return None
        if not 0 <= slot < gpu.board.mig_slots:
            raise NVMLError(_C["NVML_ERROR_INVALID_ARGUMENT"])
        for instance in gpu.instances:
            if instance.slice.slot == slot:
                return self._handle(instance)
        raise NVMLError(_C["NVML_ERROR_NOT_FOUND"])


_HOST_CALLS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetCount": lambda library: len(library._gpus),
    "nvmlDeviceGetHandleByIndex": Library._by_index,
    "nvmlSystemGetDriverVersion": lambda library: library._scene.driver_version,
    "nvmlSystemGetNVMLVersion": lambda library: (
        f"{library._scene.cuda_version // 1000}.{library._scene.driver_version}"
    ),
    "nvmlSystemGetCudaDriverVersion_v2": lambda library: library._scene.cuda_version,
    "nvmlEventSetCreate": lambda library: EventSet(),
    "nvmlEventSetFree": lambda library, events: 0,
    "nvmlEventSetWait_v2": lambda library, events, milliseconds: events.wait(
        library._clock(), lambda gpu: Handle(gpu, library._session)
    ),
    "nvmlGpmSampleAlloc": lambda library: Sample(),
    "nvmlGpmSampleFree": lambda library, sample: 0,
    "nvmlGpmMetricsGet": lambda library, request: compute(request),
}
