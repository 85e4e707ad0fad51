"""A simulated host's NVML: an object that offers pynvml's functions and constants by attribute.

A call in no table is answered with NOT_SUPPORTED, as by a driver that does not know it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from gpudash.collect.nvml import codes
from gpudash.collect.simulated.calls import (
    GPU_CALLS,
    INSTANCE_CALLS,
    NVMLError,
    compute,
    metrics_request,
    wait,
)
from gpudash.collect.simulated.gpu import Instance, SimulatedGpu
from gpudash.collect.simulated.scene import Scene


class SimulatedLibrary:
    """NVML of one scene. `woken` collects the PCI addresses of sleeping GPUs that were touched.

    A handle is the GPU or instance itself, of which each initialization makes new ones.
    """

    NVML_INIT_FLAG_NO_GPUS = 1
    NVML_GPM_METRICS_GET_VERSION = 1
    NVMLError = NVMLError
    NVMLLibraryMismatchError = NVMLError
    c_nvmlGpmMetricsGet_t = staticmethod(metrics_request)  # noqa: N815

    def __init__(self, scene: Scene, clock: Callable[[], float]) -> None:
        self.woken: set[str] = set()
        self._scene = scene
        self._clock = clock
        self.gpus = self._new_gpus()
        self._users = 0
        nvml = f"{scene.cuda_version // 1000}.{scene.driver_version}"
        self._host_calls: dict[str, Callable[..., Any]] = {
            "nvmlShutdown": self._shutdown,
            "nvmlDeviceGetCount": lambda: len(self.gpus),
            "nvmlDeviceGetHandleByIndex": self._by_index,
            "nvmlDeviceGetMigDeviceHandleByIndex": self._instance,
            "nvmlSystemGetDriverVersion": lambda: scene.driver_version,
            "nvmlSystemGetNVMLVersion": lambda: nvml,
            "nvmlSystemGetCudaDriverVersion_v2": lambda: scene.cuda_version,
            "nvmlEventSetCreate": SimpleNamespace,
            "nvmlEventSetFree": lambda events: 0,
            "nvmlEventSetWait_v2": wait,
            "nvmlGpmSampleAlloc": SimpleNamespace,
            "nvmlGpmSampleFree": lambda sample: 0,
            "nvmlGpmMetricsGet": compute,
        }

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        call = partial(self._answer, name)
        vars(self)[name] = call
        return call

    def nvmlInitWithFlags(self, flags: int = 0) -> None:  # noqa: N802
        """Initialise; the handles of before are dead."""
        if not self._users:
            self.gpus = self._new_gpus()
        self._users += 1

    nvmlInit = nvmlInitWithFlags  # noqa: N815

    def _shutdown(self) -> int:
        self._users -= 1
        return 0

    def _new_gpus(self) -> tuple[SimulatedGpu, ...]:
        scene = self._scene
        return tuple(SimulatedGpu(scene, index, self._clock) for index in range(len(scene.cards)))

    def _answer(self, name: str, *arguments: Any) -> Any:
        """Answer one call; a table's None is NOT_SUPPORTED."""
        if not self._users:
            raise NVMLError(codes.UNINITIALIZED)
        for each in arguments:
            if isinstance(each, (SimulatedGpu, Instance)):
                self._touch(each.gpu)
        calls = self._host_calls
        if name not in calls:
            calls = INSTANCE_CALLS if isinstance(arguments[0], Instance) else GPU_CALLS
        call = calls.get(name)
        value = call and call(*arguments)
        if value is None:
            raise NVMLError(codes.NOT_SUPPORTED)
        return value

    def _touch(self, gpu: SimulatedGpu) -> None:
        """Note that a sleeping GPU was woken.

        Raises NVMLError for one that fell off the bus, or of an earlier initialization.
        """
        if gpu is not self.gpus[gpu.index]:
            raise NVMLError(codes.INVALID_ARGUMENT)
        if gpu.card.state == "lost":
            raise NVMLError(codes.GPU_IS_LOST)
        if gpu.card.state == "suspended":
            self.woken.add(gpu.card.pci_address)

    def _by_index(self, index: int) -> SimulatedGpu:
        if not 0 <= index < len(self.gpus):
            raise NVMLError(codes.INVALID_ARGUMENT)
        self._touch(self.gpus[index])
        return self.gpus[index]

    def _instance(self, gpu: SimulatedGpu, slot: int) -> Instance | None:
        """Return the MIG instance in a slot, None on a GPU that cannot be split."""
        if not gpu.board.has_hbm:
            return None
        for instance in gpu.instances:
            if instance.slice.slot == slot:
                return instance
        raise NVMLError(codes.NOT_FOUND)
