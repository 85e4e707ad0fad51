"""The door to NVML: pynvml, or anything that offers its functions, asked without exceptions.

Every NVML call can fail, so `ask` answers `(value, code)`; what a code means for a metric, a
device or the whole driver is decided by who asked. Two lists are read through the C functions
themselves, with a buffer that is large enough at once: pynvml asks twice, and loses the race
when a process starts in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpudash.errors import DriverError, GpudashError
from gpudash.quick import without_ctypes_util
from gpudash.sources.nvml import codes

_NO_MEMORY = 0xFFFFFFFFFFFFFFFF
_NO_INSTANCE = 0xFFFFFFFF
_BUFFER = 64
_GROWTHS = 6
Scoped = tuple[int, int]
"""A field's id and its scope: a link's number for fields of NVLinks, 0 for those of the GPU."""

_VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class RunningProcess(NamedTuple):
    """One entry of a process list; memory in bytes, None where the driver does not say."""

    pid: int
    used_gpu_memory_bytes: int | None
    gpu_instance_id: int | None
    compute_instance_id: int | None


class FieldAnswer(NamedTuple):
    """The value of one field, and when the driver read it in microseconds of Unix time."""

    value: int | float
    timestamp_us: int


class ProcessSample(NamedTuple):
    """One utilization sample of one process, in percent; the time in microseconds of Unix time."""

    pid: int
    timestamp_us: int
    sm: int
    memory: int
    encoder: int
    decoder: int


def load() -> Any:
    """Return the pynvml module of nvidia-ml-py.

    Raises GpudashError when another package of that name hides it.
    """
    with without_ctypes_util():
        import pynvml

    if not hasattr(pynvml, "_nvmlGetFunctionPointer") or not hasattr(pynvml, "nvmlMemory_v2"):
        raise GpudashError(
            "the PyPI package 'pynvml' hides nvidia-ml-py, which gpudash reads GPUs with: "
            "pip uninstall pynvml && pip install --force-reinstall nvidia-ml-py"
        )
    return pynvml


class Library:
    """NVML's functions by name, with their errors as codes."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self._errors = (module.NVMLError, module.NVMLLibraryMismatchError)
        self._functions: dict[str, Callable[..., Any]] = {}
        self._raw = hasattr(module, "_nvmlGetFunctionPointer")
        self._wide_processes = False

    def open(self) -> None:
        """Initialise NVML, also where there is no GPU.

        Raises DriverError with NVML's return value and what to do about it.
        """
        flags = self.module.NVML_INIT_FLAG_NO_GPUS
        _, code = self.ask("nvmlInitWithFlags", flags)
        if code == codes.FUNCTION_NOT_FOUND:
            _, code = self.ask("nvmlInit")
        if code:
            raise DriverError(code, codes.driver_message(code))
        version, _ = self.ask("nvmlSystemGetDriverVersion")
        self._wide_processes = _lists_wide_processes(version)

    def close(self) -> None:
        """Let go of the driver; handles of before are dead."""
        self.ask("nvmlShutdown")

    def ask(self, name: str, *arguments: Any) -> tuple[Any, int]:
        """Call an NVML function; return (value, 0) or (None, NVML's return value)."""
        function = self._functions.get(name)
        if function is None:
            function = getattr(self.module, name, None)
            if function is None:
                return None, codes.FUNCTION_NOT_FOUND
            self._functions[name] = function
        try:
            return function(*arguments), codes.SUCCESS
        except self._errors as error:
            return None, getattr(error, "value", codes.FUNCTION_NOT_FOUND)
        except (UnicodeDecodeError, TypeError):
            # pynvml decodes strings strictly, and stores None into a C field of some answers.
            return None, codes.UNKNOWN

    def fields(self, handle: Any, ids: Sequence[Scoped]) -> tuple[dict[Scoped, FieldAnswer], int]:
        """Read field values in one batch; what a device does not have is left out."""
        values, code = self.ask("nvmlDeviceGetFieldValues", handle, list(ids))
        return {
            (value.fieldId, value.scopeId): FieldAnswer(
                getattr(value.value, _VALUE_MEMBERS[value.valueType]), value.timestamp
            )
            for value in values or ()
            if value.nvmlReturn == codes.SUCCESS and value.valueType < len(_VALUE_MEMBERS)
        }, code

    def running_processes(self, handle: Any, kind: str) -> tuple[list[RunningProcess], int]:
        """List the Compute, Graphics or MPSCompute processes of a device in one call."""
        name = f"nvmlDeviceGet{kind}RunningProcesses_v3"
        if self._raw:
            entries, code = self._list_processes(name, handle)
            if code == codes.FUNCTION_NOT_FOUND:
                entries, code = self._list_processes(name.replace("_v3", "_v2"), handle)
        else:
            entries, code = self.ask(name, handle)
        return [
            RunningProcess(
                entry.pid,
                _unless(entry.usedGpuMemory, _NO_MEMORY),
                _unless(entry.gpuInstanceId, _NO_INSTANCE),
                _unless(entry.computeInstanceId, _NO_INSTANCE),
            )
            for entry in entries or ()
        ], code

    def process_samples(self, handle: Any, since_us: int) -> tuple[list[ProcessSample], int]:
        """List the utilization samples of processes that are newer than `since_us`."""
        name = "nvmlDeviceGetProcessUtilization"
        if self._raw:
            structure = self.module.c_nvmlProcessUtilizationSample_t
            entries, code = self._list(name, handle, structure, since_us)
        else:
            entries, code = self.ask(name, handle, since_us)
        return [
            ProcessSample(
                entry.pid,
                entry.timeStamp,
                entry.smUtil,
                entry.memUtil,
                entry.encUtil,
                entry.decUtil,
            )
            for entry in entries or ()
        ], code

    def _list_processes(self, name: str, handle: Any) -> tuple[Any, int]:
        structure = self.module.c_nvmlProcessInfo_v2_t
        return self._list(name, handle, _wider(structure) if self._wide_processes else structure)

    def _list(
        self, name: str, handle: Any, structure: Any, *trailing: int
    ) -> tuple[Sequence[Any] | None, int]:
        """Call a C function that fills an array, growing the array while it is too small."""
        from ctypes import byref, c_uint, c_ulonglong

        function, code = self.ask("_nvmlGetFunctionPointer", name)
        if code:
            return None, code
        extra = [c_ulonglong(value) for value in trailing]
        capacity = _BUFFER
        for _ in range(_GROWTHS):
            count, buffer = c_uint(capacity), (structure * capacity)()
            # The utilization call takes its array before its count, the process lists after it.
            array_first = (buffer, byref(count)) if trailing else (byref(count), buffer)
            code = function(handle, *array_first, *extra)
            if code != codes.INSUFFICIENT_SIZE:
                return (buffer[: count.value] if code == codes.SUCCESS else None), code
            capacity = max(count.value, capacity) * 2
        return None, codes.INSUFFICIENT_SIZE


def _unless(value: int | None, sentinel: int) -> int | None:
    return None if value == sentinel else value


def _lists_wide_processes(driver_version: str | None) -> bool:
    """Whether this driver's process entries have a fifth field: 535.43 to 535.85 (gpustat#161)."""
    try:
        major, minor = (int(part) for part in (driver_version or "").split(".")[:2])
    except ValueError:
        return False
    return major == 535 and 43 <= minor < 86


def _wider(structure: Any) -> Any:
    from ctypes import c_ulonglong

    return type("WideProcess", (structure,), {"_fields_": [("usedGpuCcMemory", c_ulonglong)]})
