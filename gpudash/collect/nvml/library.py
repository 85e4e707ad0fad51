"""Access to NVML: pynvml, or anything with its functions, called without exceptions.

Every NVML call can fail, so `call` returns `(value, code)`; the caller decides what a code means
for a metric, a device or the whole driver. Arrays are read through the C functions themselves,
lists with a sufficient buffer at once: pynvml calls twice, and loses the race when a process starts
in between.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from time import perf_counter
from typing import Any

from msgspec import Struct

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.values import size
from gpudash.model.details import ON_REQUEST, DetailedDevice
from gpudash.model.device import Device
from gpudash.model.errors import DriverError, GpudashError
from gpudash.system.imports import importing, stand_in

Scoped = tuple[int, int]
"""A field's id and its scope: a link's number for NVLink fields, 0 for those of the GPU."""

_BUFFER_ENTRIES = 64
_MAX_GROWTHS = 6
_PCIE_RATES = ("pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second")
_MAX_ENTRIES = 1 << 17
"""More than a kernel has PIDs for on one GPU; a higher count is garbage."""
_NO_INSTANCE = 0xFFFFFFFF
_OF_NVIDIA = ("_nvmlGetFunctionPointer", "NVMLLibraryMismatchError")
"""Names that are used of the module itself, and that only nvidia-ml-py has."""
_VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
_UNKNOWN_FIELD = codes.PERMANENT | {codes.INVALID_ARGUMENT}
"""Refusals of a single field: a driver older than the field calls it invalid."""
_EVENT_REASONS = {269: 251, 270: 252, 271: 253}
"""NVML_FI_DEV_CLOCKS_EVENT_REASON_*: the ids of nvml.h, and those of releases 575 to 580.65.

To each of the two, the ids of the other are settings of power smoothing.
"""


class RunningProcess(Struct, frozen=True):
    """One entry of a process list; memory in bytes, None if the driver does not report it."""

    pid: int
    used_gpu_memory_bytes: int | None
    gpu_instance_id: int | None
    compute_instance_id: int | None


class FieldAnswer(Struct, frozen=True):
    """The value of one field, and the Unix time in microseconds when the driver read it."""

    value: int | float
    timestamp_us: int


class FieldAnswers(Struct, frozen=True):
    """A batch of field values; one in neither `values` nor `refused` failed this time."""

    values: dict[Scoped, FieldAnswer]
    refused: frozenset[Scoped]
    """Fields that the device or this driver does not support."""
    code: int = codes.SUCCESS
    """NVML's return value of the whole batch."""


class ProcessSample(Struct, frozen=True):
    """One utilization sample of one process, in percent; the time in microseconds of Unix time."""

    pid: int
    timestamp_us: int
    sm: int
    memory: int
    encoder: int
    decoder: int


def listed(
    function: Callable[..., int], handle: Any, structure: Any, *trailing: int
) -> tuple[Sequence[Any] | None, int]:
    """Call a function that fills an array, growing the array while it is too small."""
    from ctypes import byref, c_uint, c_ulonglong

    extra = [c_ulonglong(value) for value in trailing]
    capacity = _BUFFER_ENTRIES
    for _ in range(_MAX_GROWTHS):
        count, buffer = c_uint(capacity), (structure * capacity)()
        # The utilization call takes its array before its count, the process lists after it.
        array_first = (buffer, byref(count)) if trailing else (byref(count), buffer)
        code = function(handle, *array_first, *extra)
        if code != codes.INSUFFICIENT_SIZE:
            return (buffer[: count.value] if code == codes.SUCCESS else None), code
        if count.value > _MAX_ENTRIES:
            break
        capacity = max(count.value, capacity) * 2
    return None, codes.INSUFFICIENT_SIZE


def field_values(
    function: Callable[..., int], handle: Any, structure: Any, ids: Sequence[Scoped]
) -> tuple[Iterable[Any] | None, int]:
    """Call the function that fills an array whose entries name the requested values."""
    entries = (structure * len(ids))()
    for entry, (number, scope) in zip(entries, ids, strict=True):
        entry.fieldId, entry.scopeId = number, scope
    code = function(handle, len(ids), entries)
    return (entries if code == codes.SUCCESS else None), code


# Cached because ctypes never frees its types.
@lru_cache(maxsize=8)
def plain(structure: Any) -> Any:
    """Return a structure of the same layout that is nothing but a structure."""
    from ctypes import Structure

    return type(structure.__name__, (Structure,), {"_fields_": structure._fields_})


@lru_cache(maxsize=1)
def wider(structure: Any) -> Any:
    """Return the structure of a process with the fifth field that some drivers fill."""
    from ctypes import c_ulonglong

    return type("WideProcess", (structure,), {"_fields_": [("usedGpuCcMemory", c_ulonglong)]})


_STRUCTURES = {
    "PciInfoExt_v1": "domain bus device pciDeviceId pciSubSystemId baseClass subClass busId:c32",
    "ModuleId": "number",
    "RemappedRows": "corrActiveRemaps corrInactiveRemaps uncActiveRemaps uncInactiveRemaps "
    "bPending bfailureOccurred",
    "Pdi_v1": "value:q",
    "DeviceCapabilities_v1": "capMask",
    "RepairStatus_v1": "channel tpc",
    "UnrepairableMemory_v1": "flag",
    "PlatformInfo_v2": "ibGuid:b16 chassisSerialNumber:c16 slotNumber:b trayIndex:b hostId:b "
    "peerType:b moduleId:b",
    "GpuFabricInfo": "clusterUuid:b16 status cliqueId state:b",
    "GpuFabricInfo_v2": "clusterUuid:b16 status cliqueId state:b healthMask",
    "GpuFabricInfo_v3": "clusterUuid:b16 status cliqueId state:b healthMask healthSummary:b",
}
"""The members of structures after the version as in nvml.h: words, :q double ones, :b bytes
and :c characters.

pynvml has had that of the fabric under three names, and with a UUID of 80 bytes.
"""


@lru_cache(maxsize=16)
def structure(name: str) -> Any:
    """Return the ctypes structure of a name in `_STRUCTURES`."""
    from ctypes import Structure, c_char, c_ubyte, c_uint, c_ulonglong

    fields: list[tuple[str, Any]] = [("version", c_uint)] if "_v" in name else []
    for each in _STRUCTURES[name].split():
        member, _, kind = each.partition(":")
        item: Any = {"": c_uint, "q": c_ulonglong, "b": c_ubyte, "c": c_char}[kind[:1]]
        fields.append((member, item * int(kind[1:]) if kind[1:] else item))
    return type(name, (Structure,), {"_fields_": fields})


class DeviceLost(Exception):  # noqa: N818
    """The GPU answered that it is gone; `code` is NVML's return value."""

    def __init__(self, code: int) -> None:
        super().__init__(codes.text(code))
        self.code = code


def load() -> Any:
    """Return the pynvml module of nvidia-ml-py.

    Raises GpudashError when another package of that name hides it, or it is too old.
    """
    with (
        importing("ctypes.util", stand_in("ctypes.util", find_library=None)),
        importing("string", stand_in("string", capwords=_capitalized)),
    ):
        import pynvml

    if not all(hasattr(pynvml, name) for name in _OF_NVIDIA):
        raise GpudashError(
            "nvidia-ml-py, which gpudash reads GPUs with, is outdated, or the PyPI package "
            "'pynvml' hides it: pip uninstall pynvml && pip install -U --force-reinstall "
            "nvidia-ml-py"
        )
    return pynvml


def _capitalized(text: str, separator: str) -> str:
    return separator.join(word.capitalize() for word in text.split(separator))


class Library:
    """NVML's functions by name, with their errors as codes."""

    def __init__(
        self,
        module: Any,
        *,
        pcie_throughput: bool = False,
        single_sample: bool = False,
        wanted: Set[str] | None = None,
        stopwatch: Callable[[], float] = perf_counter,
    ) -> None:
        self.module = module
        self.single_sample = single_sample
        """Whether there is no second tick, so that values that need two samples are not read."""
        self.wanted = wanted
        """The requested fields of devices, and `processes`; None for those that all show."""
        is_detailed = wanted is not None and not ON_REQUEST.isdisjoint(wanted)
        self.device_class = DetailedDevice if is_detailed else Device
        """The class of a GPU, by what is read of it."""
        self.pcie_throughput = pcie_throughput or (is_detailed and self.wants(*_PCIE_RATES))
        """Whether PCIe rates are wanted even if only a slow call has them, as for one sample."""
        self.stopwatch = stopwatch
        """The clock that measures how long calls take, in seconds."""
        self._errors = (module.NVMLError, module.NVMLLibraryMismatchError)
        self._functions: dict[str, Callable[..., Any]] = {}
        self.is_of_this_machine = hasattr(module, "_nvmlGetFunctionPointer")
        """Whether it is a driver's rather than a simulated host's."""
        self._wide_processes = False
        self._renumbered: Mapping[int, int | None] = {}
        """The field ids of this release that differ from nvml.h; None for an unknown id."""

    @property
    def is_for_a_table(self) -> bool:
        """Whether one sample of no particular fields is taken, which omits rare values."""
        return self.single_sample and self.wanted is None

    def wants(self, *fields: str) -> bool:
        """Whether one of these fields is to be read."""
        if self.wanted is None:
            return not ON_REQUEST.issuperset(fields)
        return not self.wanted.isdisjoint(fields)

    def open(self) -> None:
        """Initialise NVML, even if there is no GPU.

        Raises DriverError with NVML's return value and what to do about it.
        """
        flags = self.module.NVML_INIT_FLAG_NO_GPUS
        _, code = self.call("nvmlInitWithFlags", flags)
        if code == codes.FUNCTION_NOT_FOUND:
            _, code = self.call("nvmlInit")
        if code:
            raise DriverError(code, codes.init_error(code))
        release = self._release()
        # gpustat#161
        self._wide_processes = (535, 43) <= release < (535, 86)
        self._renumbered = _renumbered(release)

    def close(self) -> None:
        """Release the driver; all handles become invalid."""
        self.call("nvmlShutdown")

    def call(self, name: str, *arguments: Any) -> tuple[Any, int]:
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
        except (UnicodeDecodeError, TypeError, MemoryError, OverflowError):
            # pynvml decodes strings strictly, stores None into a C field of some answers, and
            # allocates for whatever count it gets.
            return None, codes.UNKNOWN

    def call_device(self, name: str, *arguments: Any) -> tuple[Any, int]:
        """Call a function of a device; raises DeviceLost when it reports that it is gone."""
        value, code = self.call(name, *arguments)
        if code in codes.DEAD:
            raise DeviceLost(code)
        return value, code

    def fields(self, handle: Any, ids: Sequence[Scoped]) -> FieldAnswers:
        """Read field values in one batch, by their ids in nvml.h."""
        values: dict[Scoped, FieldAnswer] = {}
        refused: list[Scoped] = []
        wanted: dict[Scoped, Scoped] = {}
        for number, scope in ids:
            known = self._renumbered.get(number, number)
            if known is None:
                refused.append((number, scope))
            else:
                wanted[known, scope] = number, scope
        entries, code = self._field_values(handle, list(wanted))
        for entry in entries or ():
            scoped = entry.fieldId, entry.scopeId
            scoped = wanted.get(scoped, scoped)
            if entry.nvmlReturn == codes.SUCCESS:
                value = member(entry.valueType, entry.value)
                if value is not None:
                    values[scoped] = FieldAnswer(value, entry.timestamp)
            elif entry.nvmlReturn in _UNKNOWN_FIELD:
                refused.append(scoped)
        return FieldAnswers(values, frozenset(refused), code)

    def filled(self, name: str, handle: Any, kind: str) -> tuple[Any, int]:
        """Return (what a call fills, 0) or (None, code); `kind` is a name in `_STRUCTURES`.

        Raises DeviceLost when the device is gone.
        """
        from ctypes import sizeof

        info = structure(kind)()
        _, _, version = kind.partition("_v")
        if version:
            info.version = sizeof(info) | int(version) << 24
        if self.is_of_this_machine:
            code = self._fill(name, handle, info)
        else:
            _, code = self.call(name, handle, info)
        if code in codes.DEAD:
            raise DeviceLost(code)
        return (None if code else info), code

    def is_same(self, one: Any, other: Any) -> bool:
        """Whether two handles are of the same device."""
        if not self.is_of_this_machine:
            return bool(one == other)
        from ctypes import c_void_p, cast

        return cast(one, c_void_p).value == cast(other, c_void_p).value

    def running_processes(self, handle: Any, kind: str) -> tuple[list[RunningProcess], int]:
        """List the Compute, Graphics or MPSCompute processes of a device in one call."""
        name = f"nvmlDeviceGet{kind}RunningProcesses_v3"
        if self.is_of_this_machine:
            entries, code = self._list_processes(name, handle)
            if code == codes.FUNCTION_NOT_FOUND:
                entries, code = self._list_processes(name.replace("_v3", "_v2"), handle)
        else:
            entries, code = self.call(name, handle)
        return [
            RunningProcess(
                entry.pid,
                size(entry.usedGpuMemory),
                _unless(entry.gpuInstanceId, _NO_INSTANCE),
                _unless(entry.computeInstanceId, _NO_INSTANCE),
            )
            for entry in entries or ()
        ], code

    def process_samples(self, handle: Any, since_us: int) -> tuple[list[ProcessSample], int]:
        """List the utilization samples of processes that are newer than `since_us`."""
        name = "nvmlDeviceGetProcessUtilization"
        if self.is_of_this_machine:
            structure = plain(self.module.c_nvmlProcessUtilizationSample_t)
            entries, code = self._list(name, handle, structure, since_us)
        else:
            entries, code = self.call(name, handle, since_us)
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

    def _release(self) -> tuple[int, int]:
        """Return the release of the library, (0, 0) if unknown.

        Under WSL, the driver's version is that of Windows. NVML's begins with that of CUDA.
        """
        nvml, _ = self.call("nvmlSystemGetNVMLVersion")
        driver, _ = self.call("nvmlSystemGetDriverVersion")
        _, _, version = (nvml or "").partition(".")
        return _first_two(version) or _first_two(driver or "") or (0, 0)

    def _fill(self, name: str, handle: Any, structure: Any) -> int:
        from ctypes import byref

        function, code = self.call("_nvmlGetFunctionPointer", name)
        return code or int(function(handle, byref(structure)))

    def _list_processes(self, name: str, handle: Any) -> tuple[Any, int]:
        structure = plain(self.module.c_nvmlProcessInfo_v2_t)
        return self._list(name, handle, wider(structure) if self._wide_processes else structure)

    def _list(
        self, name: str, handle: Any, structure: Any, *trailing: int
    ) -> tuple[Sequence[Any] | None, int]:
        function, code = self.call("_nvmlGetFunctionPointer", name)
        return (None, code) if code else listed(function, handle, structure, *trailing)

    def _field_values(self, handle: Any, ids: Sequence[Scoped]) -> tuple[Any, int]:
        name = "nvmlDeviceGetFieldValues"
        if not self.is_of_this_machine:
            return self.call(name, handle, list(ids))
        function, code = self.call("_nvmlGetFunctionPointer", name)
        if code:
            return None, code
        return field_values(function, handle, plain(self.module.c_nvmlFieldValue_t), ids)


def call_under_way(thread_id: int) -> str | None:
    """Return the NVML function that a thread is in, None if it is in none.

    Found on the thread's own stack, so that noting each call costs nothing.
    """
    frame = sys._current_frames().get(thread_id)
    while frame is not None:
        if frame.f_code in _CALLERS:
            return str(frame.f_locals["name"])
        frame = frame.f_back
    return None


_CALLERS = frozenset(
    each.__code__ for each in (Library.call, Library._fill, Library._list, Library._field_values)
)


def member(kind: int, value: Any) -> int | float | None:
    """Return the union member selected by a value's type, None for an unknown type."""
    return getattr(value, _VALUE_MEMBERS[kind]) if kind < len(_VALUE_MEMBERS) else None


def _unless(value: int | None, sentinel: int) -> int | None:
    return None if value == sentinel else value


def _first_two(version: str) -> tuple[int, int] | None:
    try:
        major, minor = (int(part) for part in version.split(".")[:2])
    except ValueError:
        return None
    return major, minor


def _renumbered(release: tuple[int, int]) -> Mapping[int, int | None]:
    """Return the field ids of a release that differ from nvml.h.

    No public header says when, between 580.65 and 580.82, the ids became the present ones.
    """
    if (575, 0) <= release < (580, 66):
        return _EVENT_REASONS
    if (580, 66) <= release < (580, 82):
        return dict.fromkeys(_EVENT_REASONS)
    return {}
