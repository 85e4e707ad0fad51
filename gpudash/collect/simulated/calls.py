"""NVML calls about a GPU or MIG instance: name -> answer, where None is NOT_SUPPORTED.

A call in no table is not supported by this GPU's driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace as Record
from typing import Any

from gpudash.collect.nvml import codes
from gpudash.collect.simulated.gpu import (
    REASON_POWER_CAP,
    REASON_THERMAL,
    Ratio,
    SimulatedGpu,
    boot_time,
)
from gpudash.collect.simulated.scene import MIB, Program
from gpudash.collect.simulated.signals import digits, key, mix

_DRAM, _SRAM = 2, 7
"""NVML_MEMORY_LOCATION_*."""
Call = Callable[..., Any]


class NVMLError(Exception):
    """A call that NVML answered with a nonzero return value."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML return value {value}")
        self.value = value


NO_INSTANCE = 0xFFFFFFFF
_SAMPLING_US = 167_000


def _milliwatts(gpu: SimulatedGpu, watts: float) -> int | None:
    """Return a limit; boards with limits governed by a laptop have none."""
    return round(watts * 1000) if gpu.board.power_limits else None


def memory(total: int, reserved: int, used: int, version: tuple[int, ...]) -> Record:
    """Return the memory structure of version 1, whose used includes reserved, or 2."""
    free = total - reserved - used
    return Record(total=total, reserved=reserved, free=free, used=used + (not version) * reserved)


def _fan(gpu: SimulatedGpu) -> int | None:
    wanted = round((gpu.moment.temperature - 35) * 1.6)
    return max(gpu.board.min_fan, min(100, wanted)) if gpu.board.fans else None


def _engine(gpu: SimulatedGpu, percent: int | None) -> list[int] | None:
    """Return the load of an engine, None on a GPU in MIG mode, where it is not measured."""
    return None if percent is None or gpu.card.slices else [percent, _SAMPLING_US]


def _idle_engine(gpu: SimulatedGpu) -> list[int] | None:
    return _engine(gpu, 0 if gpu.board.is_modern else None)


def _clock(gpu: SimulatedGpu, kind: int) -> int:
    clocks = gpu.board.max_clocks if gpu.moment.busy else gpu.board.idle_clocks
    return gpu.moment.sm_clock if kind < 2 else clocks[kind]


def _throughput(gpu: SimulatedGpu, direction: int) -> int:
    now = gpu.now
    return round(gpu.traffic("pcie", now - 1, now) / 1000 * (0.8, 1.0)[direction])


_DEVICE_CALLS: dict[str, Call] = {
    "MinorNumber": lambda g: g.index,
    "UUID": lambda g: g.uuid,
    "Name": lambda g: g.board.name,
    "Architecture": lambda g: g.board.architecture,
    "CudaComputeCapability": lambda g: g.board.compute_capability,
    "AddressingMode": lambda g: 1 if g.board.is_modern else None,
    "NumGpuCores": lambda g: g.board.core_count,
    "Serial": lambda g: (
        str(1_320_000_000_000 + mix(g.identity) % 10**9) if g.board.part_number else None
    ),
    "VbiosVersion": lambda g: g.board.vbios_version,
    "BoardPartNumber": lambda g: g.board.part_number,
    "PciInfo": lambda g: Record(
        busId=f"{g.card.domain:08X}:{g.card.bus:02X}:00.0",
        pciDeviceId=g.board.device_id,
        pciSubSystemId=0,
    ),
    "TemperatureThreshold": lambda g, which: (*g.board.thresholds, None, None, None)[which],
    "MaxClockInfo": lambda g, kind: g.board.max_clocks[kind],
    "NumFans": lambda g: g.board.fans,
    "PowerManagementLimit": lambda g: _milliwatts(g, g.power_limit),
    "EnforcedPowerLimit": lambda g: _milliwatts(g, g.power_limit),
    "PowerManagementDefaultLimit": lambda g: _milliwatts(g, g.board.power_limit),
    "PowerManagementLimitConstraints": lambda g: (
        [round(watts * 1000) for watts in g.board.power_limits] if g.board.power_limits else None
    ),
    "MaxPcieLinkGeneration": lambda g: g.board.pcie_generation,
    "MaxPcieLinkWidth": lambda g: 16,
    "CurrPcieLinkGeneration": lambda g: (
        g.board.pcie_generation if g.moment.busy or g.board.has_hbm else 1
    ),
    "CurrPcieLinkWidth": lambda g: 16,
    "PcieReplayCounter": lambda g: g.card.pcie_replays,
    "PcieThroughput": _throughput,
    "EccMode": lambda g: [1, 1] if g.board.part_number else None,
    "TotalEccErrors": lambda g, kind, counter: (
        (g.card.corrected_errors, 0)[kind] if g.board.part_number else None
    ),
    "MemoryErrorCounter": lambda g, kind, counter, location: (
        (g.card.corrected_errors if (kind, location) == (0, _DRAM) else 0)
        if g.board.part_number and location in (_DRAM, _SRAM)
        else None
    ),
    "RemappedRows": lambda g: (g.card.remapped_rows, 0, 0, 0) if g.board.part_number else None,
    "ComputeMode": lambda g: 0,
    "PersistenceMode": lambda g: 1 if g.board.part_number else 0,
    "DisplayActive": lambda g: int(g.card.display),
    "DisplayMode": lambda g: int(g.card.display),
    "MemoryInfo": lambda g, *version: memory(
        g.board.memory, g.board.reserved, g.memory_used() + g.card.orphaned, version
    ),
    "BAR1MemoryInfo": lambda g: Record(
        bar1Total=g.board.bar1, bar1Used=min(g.board.bar1, (1 + len(g.occupants)) * MIB)
    ),
    "UtilizationRates": lambda g: (
        None if g.card.slices else Record(gpu=g.moment.busy, memory=g.engine("bandwidth"))
    ),
    "EncoderUtilization": lambda g: _engine(g, g.engine("encoder")),
    "DecoderUtilization": lambda g: _engine(g, g.engine("decoder")),
    "JpgUtilization": _idle_engine,
    "OfaUtilization": _idle_engine,
    "TemperatureV": lambda g, sensor: g.moment.temperature,
    "Temperature": lambda g, sensor: g.moment.temperature,
    "MarginTemperature": lambda g: (
        g.board.thresholds[1] - g.moment.temperature if g.board.has_margin else None
    ),
    "FanSpeed": _fan,
    "FanSpeed_v2": lambda g, fan: _fan(g),
    "PowerUsage": lambda g: (
        g.moment.average_power if g.board.averages_power else g.moment.instant_power
    ),
    "ClockInfo": _clock,
    "PerformanceState": lambda g: 0 if g.moment.busy or g.board.has_hbm else 8,
    "CurrentClocksEventReasons": lambda g: g.moment.reasons,
    "CurrentClocksThrottleReasons": lambda g: g.moment.reasons,
    "MigMode": lambda g: [int(bool(g.card.slices))] * 2 if g.board.has_hbm else None,
    "MaxMigDeviceCount": lambda g: 7 if g.board.has_hbm else 0,
}
"""Calls on the handle of a whole GPU, without their `nvmlDeviceGet`."""


def _held(gpu: SimulatedGpu, reason: int) -> int:
    """Return for how many ns a reason has throttled the clocks: a present one since boot."""
    now = gpu.now
    return int((now - boot_time(now)) * 1e9) if gpu.moment.reasons & reason else 0


def _since_boot(gpu: SimulatedGpu, rate: Ratio, factor: float) -> int:
    now = gpu.now
    return int(gpu.traffic(rate, boot_time(now), now) * factor)


def _link_kib(gpu: SimulatedGpu, link: int, factor: float) -> int | None:
    """Return the KiB of one NVLink since boot, or of all for the scope of all links."""
    count = gpu.board.nvlinks
    if not (link < count or (count and link == NO_INSTANCE)):
        return None
    each = _since_boot(gpu, "nvlink", factor) // count // 1024
    return each if link < count else each * count


def _energy(gpu: SimulatedGpu) -> int | None:
    now = gpu.now
    start = boot_time(now)
    return int(gpu.watts(start, now) * (now - start) * 1000) if gpu.board.is_modern else None


def _offset(gpu: SimulatedGpu, which: int) -> int | None:
    """Return a threshold as its distance below the hardware's slowdown temperature."""
    limit = gpu.board.thresholds[which]
    return None if limit is None or not gpu.board.has_margin else gpu.board.thresholds[1] - limit


_FIELDS: dict[int, Call] = {
    74: lambda g, _: _held(g, REASON_POWER_CAP),  # PERF_POLICY_POWER
    75: lambda g, _: _held(g, REASON_THERMAL),  # PERF_POLICY_THERMAL
    76: lambda g, _: 0,  # PERF_POLICY_SYNC_BOOST
    77: lambda g, _: 0,  # PERF_POLICY_BOARD_LIMIT
    82: lambda g, _: (  # MEMORY_TEMP
        g.moment.temperature + 3 + g.engine("bandwidth") // 16 if g.board.has_hbm else None
    ),
    83: lambda g, _: _energy(g),  # TOTAL_ENERGY_CONSUMPTION
    91: lambda g, _: g.board.nvlinks or None,  # NVLINK_LINK_COUNT
    138: lambda g, link: _link_kib(g, link, 0.94),  # NVLINK_THROUGHPUT_DATA_TX
    139: lambda g, link: _link_kib(g, link, 1.0),  # NVLINK_THROUGHPUT_DATA_RX
    147: lambda g, _: g.board.nvlinks or None,  # NVSWITCH_CONNECTED_LINK_COUNT
    161: lambda g, _: 0 if g.board.nvlinks else None,  # NVLINK_ERROR_DL_REPLAY
    162: lambda g, _: 0 if g.board.nvlinks else None,  # NVLINK_ERROR_DL_RECOVERY
    163: lambda g, _: 0 if g.board.nvlinks else None,  # NVLINK_ERROR_DL_CRC
    164: lambda g, link: _nvlink(g, link, 26562),  # NVLINK_GET_SPEED
    165: lambda g, link: _nvlink(g, link, 1),  # NVLINK_GET_STATE
    185: lambda g, _: g.moment.average_power if g.board.averages_power else None,  # POWER_AVERAGE
    186: lambda g, _: g.moment.instant_power,  # POWER_INSTANT
    193: lambda g, _: _offset(g, 0),  # TEMPERATURE_SHUTDOWN_TLIMIT
    194: lambda g, _: _offset(g, 1),  # TEMPERATURE_SLOWDOWN_TLIMIT
    195: lambda g, _: _offset(g, 2),  # TEMPERATURE_MEM_MAX_TLIMIT
    196: lambda g, _: _offset(g, 3),  # TEMPERATURE_GPU_MAX_TLIMIT
    197: lambda g, _: _since_boot(g, "pcie", 0.8),  # PCIE_COUNT_TX_BYTES
    198: lambda g, _: _since_boot(g, "pcie", 1.0),  # PCIE_COUNT_RX_BYTES
    230: lambda g, _: 0,  # GET_GPU_RECOVERY_ACTION
    269: lambda g, _: _held(g, REASON_THERMAL),  # CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN
    270: lambda g, _: 0,  # CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN
    271: lambda g, _: 0,  # CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN
}
"""Field values by id, with the rest of its name after `NVML_FI_DEV_`: (gpu, scope) -> answer."""

_SIGNED_LONG_LONG = 4


def field_values(gpu: SimulatedGpu, ids: Sequence[tuple[int, int]]) -> list[Record]:
    """Return one value per (id, scope); `nvmlReturn` is the status of each."""
    return [_field_value(gpu, number, scope) for number, scope in ids]


def _field_value(gpu: SimulatedGpu, number: int, scope: int) -> Record:
    read = _FIELDS.get(number)
    value = read and read(gpu, scope)
    return Record(
        fieldId=number,
        scopeId=scope,
        timestamp=int(gpu.now * 1e6),
        valueType=_SIGNED_LONG_LONG,
        nvmlReturn=codes.NOT_SUPPORTED if value is None else codes.SUCCESS,
        value=Record(sllVal=value),
    )


def utilization_samples(gpu: SimulatedGpu, last_seen: int) -> list[Record] | None:
    """Return the newest sample of each busy program, if it is newer than `last_seen` (µs).

    Raises NVMLError NOT_FOUND when nothing is.
    """
    if gpu.card.slices:
        return None
    timestamp = int(gpu.now * 10) * 100_000
    samples = [
        Record(
            pid=program.pid,
            timeStamp=timestamp,
            smUtil=load,
            memUtil=round(load * program.bandwidth),
            encUtil=round(load * program.encoder),
            decUtil=round(load * program.decoder),
        )
        for (program, _), load in zip(gpu.occupants, gpu.moment.loads, strict=True)
        if load and timestamp > last_seen
    ]
    if not samples:
        raise NVMLError(codes.NOT_FOUND)
    return samples


def _listing(letter: str) -> Callable[[SimulatedGpu], list[Record]]:
    """Return the call that lists the programs of one type."""
    return lambda gpu: [
        _entry(gpu, program) for program, _ in gpu.occupants if letter in program.type.split("+")
    ]


def _entry(gpu: SimulatedGpu, program: Program) -> Record:
    mig = next((each for each in gpu.card.slices if each.slot == program.slot), None)
    return Record(
        pid=program.pid,
        usedGpuMemory=program.memory,
        gpuInstanceId=mig.gpu_instance if mig else NO_INSTANCE,
        computeInstanceId=0 if mig else NO_INSTANCE,
    )


def common_ancestor(one: SimulatedGpu, other: SimulatedGpu) -> int:
    """Return how far up the PCIe tree two GPUs meet, as NVML's nvmlGpuTopologyLevel_t."""
    here, there = one.card.location, other.card.location
    if one is other:
        return 0
    if here == there:
        return 10
    if here[:2] == there[:2]:
        return 20
    return 40 if here[0] == there[0] else 50


def peer_status(one: SimulatedGpu, other: SimulatedGpu, capability: int) -> int:
    """Return whether one GPU may read, write, link to, or do atomics on another.

    NVLink allows all; PCIe allows reading and writing below one root complex, on boards whose
    driver does not refuse it.
    """
    ok, chipset, board, unsupported = 0, 1, 2, 5
    if one.board.nvlinks and other.board.nvlinks:
        return (ok, ok, ok, ok, unsupported)[capability]
    reach = ok if one.card.location[:2] == other.card.location[:2] else chipset
    if one.board.refuses_peers:
        reach = board
    return (reach, reach, unsupported, unsupported, reach)[capability]


def _nvlink(gpu: SimulatedGpu, link: int, value: int) -> int | None:
    """Return a value of one link, None if the board has none.

    Raises NVMLError INVALID_ARGUMENT past the last link.
    """
    if link >= gpu.board.nvlinks > 0:
        raise NVMLError(codes.INVALID_ARGUMENT)
    return value if gpu.board.nvlinks else None


def _words(mask: int, count: int) -> list[int]:
    """Return a set of CPUs or of memory nodes as `count` words of 64 bits."""
    return [mask >> (64 * word) & (1 << 64) - 1 for word in range(count)]


def _cpus(gpu: SimulatedGpu, count: int) -> list[int]:
    each = gpu.scene.cpu_count // gpu.scene.sockets
    return _words((1 << each) - 1 << gpu.card.location[0] * each, count)


_XID = 0x8
_XID_SECONDS = 900.0


def _register(gpu: SimulatedGpu, types: int, events: Any) -> int:
    """Deliver the XIDs of a card from now on."""
    events.gpu, events.fetched_until = gpu, gpu.now
    return 0


def wait(events: Any, milliseconds: int) -> Record:
    """Return the next XID that has arrived.

    Raises NVMLError TIMEOUT if there is none: simulated time does not pass during a wait.
    """
    at = (events.fetched_until // _XID_SECONDS + 1) * _XID_SECONDS
    xid = events.gpu.card.xid
    if xid is None or at > events.gpu.now:
        raise NVMLError(codes.TIMEOUT)
    events.fetched_until = at
    return Record(device=events.gpu, eventType=_XID, eventData=xid, gpuInstanceId=NO_INSTANCE)


def _fill_fabric(gpu: SimulatedGpu, info: Any) -> int | None:
    if not gpu.board.nvlinks:
        return None
    info.clusterUuid = type(info.clusterUuid)(*bytes.fromhex(digits(32, key(gpu.scene.name))))
    # Completed, whose bandwidth is not degraded, and healthy.
    info.state, info.healthMask, info.healthSummary = 3, 2, 1
    return 0


_METRICS = 333
_SHARES = {1: 1, 2: 0.86, 3: 0.41, 5: 1, 7: 0.5, 10: 1, 12: 0.12, 20: 0.8, 21: 1, 60: 1, 61: 0.94}
_RATIOS: dict[int, Ratio] = {5: "tensor", 10: "bandwidth"}
_RATES: dict[int, Ratio] = {20: "pcie", 21: "pcie", 60: "nvlink", 61: "nvlink"}


def metrics_request() -> Record:
    """Return pynvml's `c_nvmlGpmMetricsGet_t`: metrics to name, and their answers."""
    return Record(metrics=[Record() for _ in range(_METRICS)])


def _sample(gpu: SimulatedGpu, sample: Record) -> Record | None:
    """Note when a sample was taken, or return None without performance monitoring."""
    if not gpu.board.has_gpm:
        return None
    sample.gpu, sample.taken_at = gpu, gpu.now
    return sample


def compute(request: Any) -> Any:
    """Answer every metric of a request in place.

    Raises NVMLError INVALID_ARGUMENT when its samples do not span any time.
    """
    gpu, start, end = request.sample1.gpu, request.sample1.taken_at, request.sample2.taken_at
    if end <= start:
        raise NVMLError(codes.INVALID_ARGUMENT)
    for metric in request.metrics[: request.numMetrics]:
        value = average(gpu, start, end, metric.metricId)
        metric.nvmlReturn = codes.NOT_SUPPORTED if value is None else codes.SUCCESS
        metric.value = value or 0.0
    return request


def average(gpu: SimulatedGpu, start: float, end: float, metric: int) -> float | None:
    """Return a metric of performance monitoring between two instants, by NVML's number."""
    if metric in _RATES:
        return _SHARES[metric] * gpu.traffic(_RATES[metric], start, end) / (end - start) / MIB
    share = _SHARES.get(metric)
    return share and share * gpu.load(start, end, _RATIOS.get(metric))


GPU_CALLS: dict[str, Call] = {
    **{f"nvmlDeviceGet{name}": call for name, call in _DEVICE_CALLS.items()},
    "nvmlDeviceGetFieldValues": field_values,
    "nvmlDeviceGetComputeRunningProcesses_v3": _listing("C"),
    "nvmlDeviceGetGraphicsRunningProcesses_v3": _listing("G"),
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": _listing("M"),
    "nvmlDeviceGetProcessUtilization": utilization_samples,
    "nvmlDeviceGetTopologyCommonAncestor": common_ancestor,
    "nvmlDeviceGetP2PStatus": peer_status,
    "nvmlDeviceGetCpuAffinity": _cpus,
    "nvmlDeviceGetMemoryAffinity": lambda g, count, _: _words(1 << g.card.location[0], count),
    "nvmlDeviceGetNvLinkState": lambda g, link: _nvlink(g, link, 1),
    "nvmlDeviceGetNvLinkVersion": lambda g, link: _nvlink(g, link, 6),
    "nvmlDeviceGetNvLinkRemoteDeviceType": lambda g, link: _nvlink(g, link, 2),
    "nvmlDeviceGetNvLinkErrorCounter": lambda g, link, counter: _nvlink(g, link, 0),
    "nvmlDeviceGetSupportedEventTypes": lambda gpu: _XID,
    "nvmlDeviceRegisterEvents": _register,
    "nvmlDeviceGetGpuFabricInfoV": _fill_fabric,
    "nvmlGpmQueryDeviceSupport": lambda g: Record(isSupportedDevice=int(g.board.has_gpm)),
    "nvmlGpmQueryIfStreamingEnabled": lambda g: 1 if g.board.has_gpm else None,
    "nvmlGpmSampleGet": _sample,
}
"""Calls on the handle of a whole GPU: (gpu, *arguments) -> answer."""

INSTANCE_CALLS: dict[str, Call] = {
    "nvmlDeviceGetUUID": lambda i: i.uuid,
    "nvmlDeviceGetName": lambda i: f"{i.gpu.board.name} MIG {i.slice.profile}",
    "nvmlDeviceGetMemoryInfo": lambda i, *version: memory(
        i.slice.memory, 13 * MIB, i.gpu.memory_used(i.slice.slot), version
    ),
    "nvmlDeviceGetGpuInstanceId": lambda i: i.slice.gpu_instance,
    "nvmlDeviceGetComputeInstanceId": lambda i: 0,
    "nvmlDeviceGetAttributes": lambda i: Record(
        multiprocessorCount=i.slice.multiprocessor_count,
        sharedCopyEngineCount=i.slice.slices,
        sharedEncoderCount=0,
        sharedDecoderCount=i.slice.slices // 2,
        sharedOfaCount=0,
        sharedJpegCount=0,
        gpuInstanceSliceCount=i.slice.slices,
        memorySizeMB=i.slice.memory // MIB,
    ),
}
"""Calls on the handle of a MIG instance: (instance, *arguments) -> answer."""
