"""The NVML calls about a GPU or MIG instance: name -> answer, where None is NOT_SUPPORTED.

A call that is not in a table is one that this GPU's driver does not support.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudash.collect.simulated.constants import CONSTANTS, NVMLError, Record, pick
from gpudash.collect.simulated.gpu import Gpu, Instance, Occupant, load_of
from gpudash.collect.simulated.scene import MIB, NvLink
from gpudash.collect.simulated.signals import mix

Call = Callable[..., Any]


def pci(gpu: Gpu) -> Record:
    """Return a GPU's PCI structure, with both of NVML's ways to write the address."""
    card = gpu.card
    return Record(
        domain=card.domain,
        bus=card.bus,
        device=0,
        pciDeviceId=gpu.board.device_id,
        pciSubSystemId=0,
        busId=f"{card.domain:08X}:{card.bus:02X}:00.0",
        busIdLegacy=card.pci_address.upper(),
    )


def _threshold(gpu: Gpu, which: int) -> int | None:
    limits = gpu.board.thresholds
    order = (limits.shutdown, limits.slowdown, limits.memory, limits.operating)
    return order[which] if 0 <= which < len(order) else None


def _max_clock(gpu: Gpu, kind: int) -> int:
    clocks = gpu.board.clocks
    return pick((clocks.highest, clocks.highest, clocks.memory, clocks.video), kind)


def _ecc_errors(gpu: Gpu, kind: int) -> int | None:
    if not gpu.board.ecc:
        return None
    return pick((gpu.card.corrected_errors, 0), kind)


def _limit(gpu: Gpu, watts: float) -> int | None:
    """Return a limit in mW; boards whose limit a laptop governs have none."""
    return round(watts * 1000) if gpu.board.power_limits else None


FACTS: dict[str, Call] = {
    "MinorNumber": lambda g, _: g.index,
    "UUID": lambda g, _: g.uuid,
    "Name": lambda g, _: g.board.name,
    "Architecture": lambda g, _: g.board.architecture,
    "CudaComputeCapability": lambda g, _: g.board.compute_capability,
    "AddressingMode": lambda g, _: 1 if g.board.media else None,
    "NumGpuCores": lambda g, _: g.board.core_count,
    "Serial": lambda g, _: (
        str(1_320_000_000_000 + mix(g.identity) % 10**9) if g.board.has_serial else None
    ),
    "VbiosVersion": lambda g, _: g.board.vbios_version,
    "BoardPartNumber": lambda g, _: g.board.part_number,
    "PciInfo": lambda g, _: pci(g),
    "TemperatureThreshold": lambda g, _, which: _threshold(g, which),
    "MaxClockInfo": lambda g, _, kind: _max_clock(g, kind),
    "NumFans": lambda g, _: g.board.fans,
    "PowerManagementLimit": lambda g, _: _limit(g, g.power_limit),
    "EnforcedPowerLimit": lambda g, _: _limit(g, g.power_limit),
    "PowerManagementDefaultLimit": lambda g, _: _limit(g, g.board.power_limit),
    "PowerManagementLimitConstraints": lambda g, _: (
        [round(watts * 1000) for watts in g.board.power_limits] if g.board.power_limits else None
    ),
    "MaxPcieLinkGeneration": lambda g, _: g.board.pcie_generation,
    "MaxPcieLinkWidth": lambda g, _: 16,
    "CurrPcieLinkWidth": lambda g, _: 16,
    "PcieReplayCounter": lambda g, _: g.card.pcie_replays,
    "EccMode": lambda g, _: [1, 1] if g.board.ecc else None,
    "TotalEccErrors": lambda g, _, kind, counter: _ecc_errors(g, kind),
    "RemappedRows": lambda g, _: (g.card.remapped_rows, 0, 0, 0) if g.board.ecc else None,
    "ComputeMode": lambda g, _: 0,
    "PersistenceMode": lambda g, _: int(g.board.has_serial),
    "DisplayActive": lambda g, _: int(g.card.display),
    "DisplayMode": lambda g, _: int(g.card.display),
}
"""Calls whose answer never changes, without their `nvmlDeviceGet`."""


_MICROSECONDS = 167_000


def memory(total: int, reserved: int, used: int, version: int | None) -> Record:
    """Return the memory structure of version 1, whose used includes reserved, or 2."""
    free = total - reserved - used
    if version is None:
        return Record(total=total, free=free, used=used + reserved)
    return Record(version=version, total=total, reserved=reserved, free=free, used=used)


def _bar1(gpu: Gpu) -> Record:
    total = gpu.board.bar1
    used = min(total, (1 + len(gpu.occupants)) << 20)
    return Record(bar1Total=total, bar1Used=used, bar1Free=total - used)


def _fan(gpu: Gpu, now: float) -> int | None:
    if not gpu.board.fans:
        return None
    wanted = round((gpu.at(now).temperature - 35) * 1.6)
    return max(gpu.board.lowest_fan, min(100, wanted))


def _margin(gpu: Gpu, now: float) -> int | None:
    if not gpu.board.margin:
        return None
    return gpu.board.thresholds.slowdown - gpu.at(now).temperature


def _clock(gpu: Gpu, now: float, kind: int) -> int:
    moment = gpu.at(now)
    clocks = (moment.sm_clock, moment.sm_clock, moment.memory_clock, moment.video_clock)
    return pick(clocks, kind)


def _not_in_mig(gpu: Gpu, value: Any) -> Any:
    """Return the value, or None on a GPU in MIG mode, which has no engine of its own to measure."""
    return None if gpu.card.mig else value


def _throughput(gpu: Gpu, now: float, direction: int) -> int:
    rate = sum(
        occupant.share.pcie * load / 100
        for occupant, load in zip(gpu.occupants, gpu.at(now).loads, strict=True)
    )
    return round(rate * 1e6 * pick((0.8, 1.0), direction))


MOVING: dict[str, Call] = {
    "MemoryInfo": lambda g, now, version=None: memory(
        g.board.memory, g.board.reserved, g.memory_used, version
    ),
    "BAR1MemoryInfo": lambda g, now: _bar1(g),
    "UtilizationRates": lambda g, now: _not_in_mig(
        g, Record(gpu=g.at(now).gpu_utilization, memory=g.at(now).memory_utilization)
    ),
    "EncoderUtilization": lambda g, now: _not_in_mig(
        g, [g.at(now).encoder_utilization, _MICROSECONDS]
    ),
    "DecoderUtilization": lambda g, now: _not_in_mig(
        g, [g.at(now).decoder_utilization, _MICROSECONDS]
    ),
    "JpgUtilization": lambda g, now: _not_in_mig(g, [0, _MICROSECONDS] if g.board.media else None),
    "OfaUtilization": lambda g, now: _not_in_mig(g, [0, _MICROSECONDS] if g.board.media else None),
    "TemperatureV": lambda g, now, sensor: pick((g.at(now).temperature,), sensor),
    "Temperature": lambda g, now, sensor: pick((g.at(now).temperature,), sensor),
    "MarginTemperature": _margin,
    "FanSpeed": _fan,
    "FanSpeed_v2": lambda g, now, fan: pick((_fan(g, now),) * g.board.fans, fan),
    "PowerUsage": lambda g, now: (
        g.at(now).average_power if g.board.average_power else g.at(now).instant_power
    ),
    "ClockInfo": _clock,
    "PerformanceState": lambda g, now: g.at(now).performance_state,
    "CurrentClocksEventReasons": lambda g, now: g.at(now).reasons,
    "CurrentClocksThrottleReasons": lambda g, now: g.at(now).reasons,
    "CurrPcieLinkGeneration": lambda g, now: (
        g.board.pcie_generation if g.at(now).gpu_utilization else g.board.idle_pcie_generation
    ),
    "PcieThroughput": _throughput,
    "MigMode": lambda g, now: [int(g.card.mig)] * 2 if g.board.mig_slots else None,
    "MaxMigDeviceCount": lambda g, now: g.board.mig_slots,
}
"""Calls whose answer changes over time, without their `nvmlDeviceGet`."""

_DEVICE_CALLS: dict[str, Call] = {
    **{f"nvmlDeviceGet{name}": call for name, call in {**FACTS, **MOVING}.items()},
}
"""Calls on the handle of a whole GPU: (gpu, now, *arguments) -> answer."""


_NO_INSTANCE = 0xFFFFFFFF
_NOT_FOUND = CONSTANTS["NVML_ERROR_NOT_FOUND"]
_LISTS = {"Compute": "C", "Graphics": "G", "MPSCompute": "M"}


def utilization_samples(gpu: Gpu, now: float, last_seen: int) -> list[Record] | None:
    """Return the newest sample of each busy program, if it is newer than `last_seen` (µs).

    Raises NVMLError NOT_FOUND when nothing is.
    """
    if gpu.card.mig:
        return None
    moment = gpu.at(now)
    samples = [
        Record(
            pid=occupant.program.pid,
            timeStamp=moment.timestamp,
            smUtil=load,
            memUtil=load_of(load, occupant.share.bandwidth),
            encUtil=load_of(load, occupant.share.encoder),
            decUtil=load_of(load, occupant.share.decoder),
        )
        for occupant, load in zip(gpu.occupants, moment.loads, strict=True)
        if load and moment.timestamp > last_seen
    ]
    if not samples:
        raise NVMLError(_NOT_FOUND)
    return samples


def _listing(letter: str) -> Callable[[Gpu, float], list[Record]]:
    """Return the call that lists the programs of one type."""
    return lambda gpu, now: [
        _entry(gpu, occupant)
        for occupant in gpu.occupants
        if letter in occupant.share.type.split("+")
    ]


def _entry(gpu: Gpu, occupant: Occupant) -> Record:
    slices = (each for each in gpu.card.slices if each.slot == occupant.share.slot)
    mig = next(slices, None)
    return Record(
        pid=occupant.program.pid,
        usedGpuMemory=occupant.share.memory,
        gpuInstanceId=mig.gpu_instance if mig else _NO_INSTANCE,
        computeInstanceId=mig.compute_instance if mig else _NO_INSTANCE,
    )


_PROCESS_CALLS: dict[str, Callable[..., Any]] = {
    **{
        f"nvmlDeviceGet{kind}RunningProcesses_v3": _listing(letter)
        for kind, letter in _LISTS.items()
    },
    "nvmlDeviceGetProcessUtilization": utilization_samples,
}
"""Calls about programs on the handle of a whole GPU."""


_C = CONSTANTS
_OK = _C["NVML_P2P_STATUS_OK"]
_CHIPSET = _C["NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED"]
_BOARD = _C["NVML_P2P_STATUS_GPU_NOT_SUPPORTED"]
_NOT = _C["NVML_P2P_STATUS_NOT_SUPPORTED"]
_WORD = 64


def common_ancestor(one: Gpu, now: float, other: Gpu) -> int:
    """Return how far up the PCIe tree two GPUs meet."""
    here, there = one.card.location, other.card.location
    if one is other:
        return _C["NVML_TOPOLOGY_INTERNAL"]
    if here == there:
        return _C["NVML_TOPOLOGY_SINGLE"]
    if here[:2] == there[:2]:
        return _C["NVML_TOPOLOGY_MULTIPLE"]
    return _C["NVML_TOPOLOGY_NODE" if here[0] == there[0] else "NVML_TOPOLOGY_SYSTEM"]


def peer_status(one: Gpu, now: float, other: Gpu, capability: int) -> int:
    """Return whether one GPU may read, write, link to, or do atomics on another.

    NVLink allows all; PCIe allows reading and writing below one root complex, on boards whose
    driver does not refuse it.
    """
    if one.board.nvlink and other.board.nvlink:
        return pick((_OK, _OK, _OK, _OK, _NOT), capability)
    reach = _OK if one.card.location[:2] == other.card.location[:2] else _CHIPSET
    if not one.board.peer_access:
        reach = _BOARD
    return pick((reach, reach, _NOT, _NOT, reach), capability)


def _link(gpu: Gpu, number: int) -> NvLink | None:
    """Return the board's links if that one exists, None if the board has none.

    Raises NVMLError INVALID_ARGUMENT past the last link.
    """
    link = gpu.board.nvlink
    if link is not None and not 0 <= number < link.count:
        raise NVMLError(_C["NVML_ERROR_INVALID_ARGUMENT"])
    return link


def _remote_pci(gpu: Gpu, now: float, number: int) -> Record | None:
    """Return the address that stands for an NVSwitch: all ones."""
    if _link(gpu, number) is None:
        return None
    address = "FFFFFFFF:FF:FF.0"
    return Record(domain=0xFFFFFFFF, bus=0xFF, device=0xFF, busId=address, busIdLegacy=address[4:])


def _when_linked(value: Callable[[NvLink], int]) -> Callable[..., int | None]:
    """Return a call that answers one fact about a link."""

    def answer(gpu: Gpu, now: float, number: int, *_: int) -> int | None:
        link = _link(gpu, number)
        return None if link is None else value(link)

    return answer


def _words(members: range, count: int) -> list[int]:
    """Return a set of small numbers as `count` words of 64 bits."""
    mask = sum(1 << member for member in members)
    return [mask >> (_WORD * word) & (1 << _WORD) - 1 for word in range(count)]


def _cpus(gpu: Gpu, now: float, count: int, *_: int) -> list[int]:
    per_socket = gpu.scene.cpus_per_socket
    first = gpu.card.location[0] * per_socket
    return _words(range(first, first + per_socket), count)


def _nodes(gpu: Gpu, now: float, count: int, *_: int) -> list[int]:
    socket = gpu.card.location[0]
    return _words(range(socket, socket + 1), count)


_LINK_CALLS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetTopologyCommonAncestor": common_ancestor,
    "nvmlDeviceGetP2PStatus": peer_status,
    "nvmlDeviceGetCpuAffinity": _cpus,
    "nvmlDeviceGetMemoryAffinity": _nodes,
    "nvmlDeviceGetNvLinkState": _when_linked(lambda link: 1),
    "nvmlDeviceGetNvLinkVersion": _when_linked(lambda link: link.version),
    "nvmlDeviceGetNvLinkRemoteDeviceType": _when_linked(
        lambda link: _C["NVML_NVLINK_DEVICE_TYPE_SWITCH"]
    ),
    "nvmlDeviceGetNvLinkErrorCounter": _when_linked(lambda link: 0),
    "nvmlDeviceGetNvLinkRemotePciInfo": _remote_pci,
}
"""Calls about links, on the handle of a whole GPU; a second handle arrives as its GPU."""


_RESERVED = 13 * MIB


def _memory(instance: Instance, now: float, version: int | None = None) -> Record:
    inside = (o for o in instance.gpu.occupants if o.share.slot == instance.slice.slot)
    used = sum(o.share.memory + (3 + o.program.pid % 5) * MIB for o in inside)
    return memory(instance.slice.memory, _RESERVED, used, version)


def _attributes(instance: Instance, now: float) -> Record:
    mig = instance.slice
    return Record(
        multiprocessorCount=mig.multiprocessor_count,
        sharedCopyEngineCount=mig.slices,
        sharedDecoderCount=mig.slices // 2,
        sharedEncoderCount=0,
        sharedJpegCount=0,
        sharedOfaCount=0,
        gpuInstanceSliceCount=mig.slices,
        computeInstanceSliceCount=mig.slices,
        memorySizeMB=mig.memory // MIB,
    )


INSTANCE_CALLS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetUUID": lambda i, now: i.uuid,
    "nvmlDeviceGetName": lambda i, now: f"{i.gpu.board.name} MIG {i.slice.profile}",
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetGpuInstanceId": lambda i, now: i.slice.gpu_instance,
    "nvmlDeviceGetComputeInstanceId": lambda i, now: i.slice.compute_instance,
    "nvmlDeviceGetAttributes": _attributes,
}
"""Calls on the handle of a MIG instance: (instance, now, *arguments) -> answer."""

GPU_CALLS: dict[str, Call] = {**_DEVICE_CALLS, **_PROCESS_CALLS, **_LINK_CALLS}
"""Calls on the handle of a whole GPU: (gpu, now, *arguments) -> answer."""
