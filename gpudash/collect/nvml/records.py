"""The driver's lists about one GPU, which are rarely needed; see `model.records`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ctypes import byref, c_uint
from itertools import pairwise
from typing import Any

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.library import FieldAnswer, Library, Scoped, member
from gpudash.collect.nvml.links import LINK_COUNT, link_number
from gpudash.collect.nvml.values import (
    count,
    flag,
    megahertz,
    percent,
    seconds,
    size,
    small_count,
    string,
)
from gpudash.model.records import (
    AccountedProcess,
    EccLocation,
    NvLink,
    RetiredPage,
    SampleBuffer,
    SramErrors,
    SupportedClocks,
)
from gpudash.model.text import clean

_ECC_LOCATIONS = {
    2: "device-memory",
    7: "sram",
    3: "register-file",
    0: "l1-cache",
    1: "l2-cache",
    4: "texture-memory",
    5: "texture-shared",
    6: "cbu",
}
"""NVML_MEMORY_LOCATION_*."""
_ECC_COUNTERS = {
    "corrected_volatile_count": (0, 0),
    "uncorrected_volatile_count": (1, 0),
    "corrected_aggregate_count": (0, 1),
    "uncorrected_aggregate_count": (1, 1),
}
"""Fields of EccLocation by NVML_MEMORY_ERROR_TYPE_* and NVML_*_ECC."""

_SRAM_COUNTERS = {
    "corrected_volatile_count": "volatileCor",
    "corrected_aggregate_count": "aggregateCor",
    "parity_volatile_count": "volatileUncParity",
    "secded_volatile_count": "volatileUncSecDed",
    "parity_aggregate_count": "aggregateUncParity",
    "secded_aggregate_count": "aggregateUncSecDed",
    "l2_aggregate_count": "aggregateUncBucketL2",
    "sm_aggregate_count": "aggregateUncBucketSm",
    "microcontroller_aggregate_count": "aggregateUncBucketMcu",
    "pcie_aggregate_count": "aggregateUncBucketPcie",
    "other_aggregate_count": "aggregateUncBucketOther",
}
"""Fields of SramErrors by the members of NVML's structure."""

_LINK_FIELDS = {
    165: "is_active",
    164: "speed",
    161: "replay_count",
    162: "recovery_count",
    163: "crc_error_count",
    146: "remote_link",
}
"""NVML_FI_DEV_NVLINK_GET_STATE, _GET_SPEED in MB/s, _ERROR_DL_REPLAY, _RECOVERY, _CRC, and
_REMOTE_NVLINK_ID."""
_LINK_TRAFFIC = {138: "data_tx_kib", 139: "data_rx_kib", 140: "raw_tx_kib", 141: "raw_rx_kib"}
"""NVML_FI_DEV_NVLINK_THROUGHPUT_*."""
_LINK_CAPABILITIES = (
    "p2p",
    "system-memory",
    "p2p-atomics",
    "system-memory-atomics",
    "sli",
    "link",
)
"""By NVML_NVLINK_CAP_*."""

_SAMPLED = (
    "power",
    "gpu",
    "memory",
    "encoder",
    "decoder",
    "sm-clock",
    "memory-clock",
    "module-power",
    "jpeg",
    "ofa",
)
"""By NVML_*_SAMPLES."""

_SINGLE_BIT, _DOUBLE_BIT = 0, 1
"""NVML_PAGE_RETIREMENT_CAUSE_*."""

_MAX_PAGES = 512
"""A GPU with this many retired pages must be replaced."""
_MAX_PROCESSES = 128
"""The newest ones in a stream; a query of them prints all."""
_MAX_CLOCKS = 1024


class Records:
    """The lists of one GPU; unsupported ones are queried once."""

    def __init__(self, library: Library, handle: Any) -> None:
        self._library = library
        self._handle = handle
        self._refused: set[tuple[Any, ...]] = set()

    def values(self) -> dict[str, Any]:
        """Return the requested fields.

        Raises DeviceLost if the device reports that it is gone.
        """
        wants, values = self._library.wants, dict[str, Any]()
        if wants("gsp_mode", "default_gsp_mode"):
            # pynvml would write the answers for all GPUs, in parallel, into the same two numbers.
            modes = self._call("GspFirmwareMode", c_uint(), c_uint())
            values["gsp_mode"], values["default_gsp_mode"] = map(flag, modes or (None, None))
        lists: dict[str, Callable[[], Any]] = {
            "ecc_locations": self._ecc_locations,
            "retired_pages": self._retired_pages,
            "accounted_processes": self._accounted_processes,
            "supported_clocks": self._supported_clocks,
            "nvlinks": self._nvlinks,
            "sample_buffers": self._sample_buffers,
            "inforom_valid": self._inforom_valid,
        }
        return values | {name: read() for name, read in lists.items() if wants(name)}

    def sram_errors(self) -> SramErrors | None:
        """Return the uncorrected errors of the SRAM, for a finding."""
        structure = getattr(self._library.module, "c_nvmlEccSramErrorStatus_v1_t", None)
        if structure is None:
            return None
        status = structure()
        if self._call("SramEccErrorStatus", byref(status)) is None:
            return None
        exceeded = flag(status.bThresholdExceeded)
        counts = {name: count(getattr(status, member)) for name, member in _SRAM_COUNTERS.items()}
        return SramErrors(threshold_exceeded=exceeded, **counts)

    def _call(self, metric: str, *arguments: Any) -> Any:
        """Return the answer of a call, None if there is none."""
        key = metric, *(each for each in arguments if isinstance(each, int))
        if key in self._refused:
            return None
        name = f"nvmlDeviceGet{metric}"
        value, code = self._library.call_device(name, self._handle, *arguments)
        if code in codes.PERMANENT:
            self._refused.add(key)
        return None if code else value

    def _ecc_locations(self) -> tuple[EccLocation, ...] | None:
        found = []
        for location, name in _ECC_LOCATIONS.items():
            counts = {
                field: count(self._call("MemoryErrorCounter", *kinds, location))
                for field, kinds in _ECC_COUNTERS.items()
            }
            if any(each is not None for each in counts.values()):
                found.append(EccLocation(name=name, **counts))
        return tuple(found) or None

    def _retired_pages(self) -> tuple[RetiredPage, ...] | None:
        single, double = (
            self._call("RetiredPages_v2", cause) for cause in (_SINGLE_BIT, _DOUBLE_BIT)
        )
        if single is None or double is None:
            return None
        pages = [
            RetiredPage(
                address=page["address"],
                cause="double-bit" if of is double else "single-bit",
                retired_at=seconds(page["timestamp"]),
            )
            for of in (single, double)
            for page in of[:_MAX_PAGES]
            if count(page["address"]) is not None
        ]
        return tuple(sorted(pages, key=lambda page: page.retired_at or 0))

    def _accounted_processes(self) -> tuple[AccountedProcess, ...] | None:
        if not self._call("AccountingMode"):
            return None
        pids = self._call("AccountingPids")
        if pids is None:
            return None
        if self._library.wanted is None:
            pids = pids[-_MAX_PROCESSES:]
        return tuple(filter(None, map(self._accounted, pids)))

    def _accounted(self, pid: int) -> AccountedProcess | None:
        # Not by _call: one unknown process says nothing about the next.
        name = "nvmlDeviceGetAccountingStats"
        stats, code = self._library.call_device(name, self._handle, pid)
        if code:
            return None
        return AccountedProcess(
            pid=pid,
            is_running=stats.isRunning == 1,
            gpu_utilization_percent=percent(stats.gpuUtilization),
            memory_utilization_percent=percent(stats.memoryUtilization),
            max_gpu_memory_bytes=size(stats.maxMemoryUsage),
            active_seconds=_scaled(stats.time, 1e3),
            started_at=_scaled(stats.startTime, 1e6),
        )

    def _inforom_valid(self) -> bool | None:
        _, code = self._library.call_device("nvmlDeviceValidateInforom", self._handle)
        return {codes.SUCCESS: True, codes.CORRUPTED_INFOROM: False}.get(code)

    def _supported_clocks(self) -> tuple[SupportedClocks, ...] | None:
        found = []
        for memory in self._call("SupportedMemoryClocks") or ():
            graphics = self._call("SupportedGraphicsClocks", memory) or ()
            if megahertz(memory) is not None:
                kept = tuple(each for each in graphics[:_MAX_CLOCKS] if megahertz(each) is not None)
                found.append(SupportedClocks(memory_clock_mhz=memory, graphics_clocks_mhz=kept))
        return tuple(found) or None

    def _sample_buffers(self) -> tuple[SampleBuffer, ...] | None:
        found = (
            self._sample_buffer(name, self._call("Samples", kind, 0))
            for kind, name in enumerate(_SAMPLED)
        )
        return tuple(filter(None, found)) or None

    def _sample_buffer(self, name: str, answer: Any) -> SampleBuffer | None:
        kind, samples = answer or (0, ())
        taken = [
            (each.timeStamp, value)
            for each in samples
            if (value := count(member(kind, each.sampleValue))) is not None
        ]
        if not taken:
            return None
        values = [value for _, value in taken]
        lasted = taken[-1][0] - taken[0][0]
        # Each counts for the time since the one before it, as in nvidia-smi.
        area = sum((when - before) * value for (before, _), (when, value) in pairwise(taken))
        return SampleBuffer(
            name=name,
            seconds=max(0.0, lasted / 1e6),
            count=len(values),
            max=max(values),
            min=min(values),
            average=max(0.0, area / lasted) if lasted > 0 else float(values[-1]),
        )

    def _nvlinks(self) -> tuple[NvLink, ...] | None:
        links = self._library.fields(self._handle, [LINK_COUNT]).values.get(LINK_COUNT)
        number_of_links = links and link_number(links.value)
        if not number_of_links:
            return None
        fields = (*_LINK_FIELDS, *_LINK_TRAFFIC)
        scopes = [(field, link) for field in fields for link in range(number_of_links)]
        answers = self._library.fields(self._handle, scopes).values
        return tuple(self._nvlink(link, answers) for link in range(number_of_links))

    def _nvlink(self, link: int, answers: Mapping[Scoped, FieldAnswer]) -> NvLink:
        known = {
            name: small_count(answer.value)
            for field, name in _LINK_FIELDS.items()
            if (answer := answers.get((field, link))) is not None
        }
        traffic = {
            name: count(int(answer.value))
            for field, name in _LINK_TRAFFIC.items()
            if (answer := answers.get((field, link))) is not None
        }
        speed = known.pop("speed", None)
        is_active = flag(known.pop("is_active", None))
        has = [
            self._library.call_device("nvmlDeviceGetNvLinkCapability", self._handle, link, number)
            for number in range(len(_LINK_CAPABILITIES))
        ]
        names = zip(_LINK_CAPABILITIES, has, strict=True)
        call = "nvmlDeviceGetNvLinkRemotePciInfo"
        remote = self._library.call_device(call, self._handle, link)[0] if is_active else None
        address = None if remote is None else string(remote.busId)
        return NvLink(
            number=link,
            is_active=is_active,
            max_bytes_per_second=speed * 10**6 if speed and is_active else None,
            capabilities=None
            if any(code for _, code in has)
            else tuple(name for name, (value, _) in names if value == 1),
            remote_pci_bus_id=None if address is None else clean(address),
            **known,
            **traffic,
        )


def _scaled(number: int | None, parts: float) -> float | None:
    """Return a count of fractions of a second in seconds; 0 is unknown."""
    known = count(number)
    return seconds(known / parts) if known else None
