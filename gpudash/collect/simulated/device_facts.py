"""The NVML calls about one GPU whose answer never changes: name -> answer, None if unsupported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudash.collect.simulated.gpu import Gpu
from gpudash.collect.simulated.noise import digits, mix
from gpudash.collect.simulated.results import Record, pick

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
    """Return a limit in mW; boards whose limit a laptop governs tell none."""
    return round(watts * 1000) if gpu.board.power_limits else None


FACTS: dict[str, Call] = {
    "Index": lambda g, _: g.index,
    "MinorNumber": lambda g, _: g.index,
    "UUID": lambda g, _: g.uuid,
    "Name": lambda g, _: g.board.name,
    "Brand": lambda g, _: g.board.brand,
    "Architecture": lambda g, _: g.board.architecture,
    "CudaComputeCapability": lambda g, _: g.board.compute_capability,
    "AddressingMode": lambda g, _: 1 if g.board.media else None,
    "NumGpuCores": lambda g, _: g.board.core_count,
    "Serial": lambda g, _: (
        str(1_320_000_000_000 + mix(g.identity) % 10**9) if g.board.has_serial else None
    ),
    "VbiosVersion": lambda g, _: g.board.vbios_version,
    "BoardPartNumber": lambda g, _: g.board.part_number,
    "BoardId": lambda g, _: g.card.domain << 16 | g.card.bus << 8,
    "PciInfo": lambda g, _: pci(g),
    "PciInfo_v3": lambda g, _: pci(g),
    "TemperatureThreshold": lambda g, _, which: _threshold(g, which),
    "MaxClockInfo": lambda g, _, kind: _max_clock(g, kind),
    "NumFans": lambda g, _: g.board.fans,
    "PowerManagementMode": lambda g, _: 1,
    "PowerManagementLimit": lambda g, _: _limit(g, g.power_limit),
    "EnforcedPowerLimit": lambda g, _: _limit(g, g.power_limit),
    "PowerManagementDefaultLimit": lambda g, _: _limit(g, g.board.power_limit),
    "PowerManagementLimitConstraints": lambda g, _: (
        [round(watts * 1000) for watts in g.board.power_limits] if g.board.power_limits else None
    ),
    "MaxPcieLinkGeneration": lambda g, _: g.board.pcie_generation,
    "GpuMaxPcieLinkGeneration": lambda g, _: g.board.pcie_generation,
    "MaxPcieLinkWidth": lambda g, _: 16,
    "CurrPcieLinkWidth": lambda g, _: 16,
    "PcieReplayCounter": lambda g, _: g.card.pcie_replays,
    "EccMode": lambda g, _: [1, 1] if g.board.ecc else None,
    "CurrentEccMode": lambda g, _: 1 if g.board.ecc else None,
    "PendingEccMode": lambda g, _: 1 if g.board.ecc else None,
    "TotalEccErrors": lambda g, _, kind, counter: _ecc_errors(g, kind),
    "RemappedRows": lambda g, _: (g.card.remapped_rows, 0, 0, 0) if g.board.ecc else None,
    "ComputeMode": lambda g, _: 0,
    "PersistenceMode": lambda g, _: int(g.board.has_serial),
    "DisplayActive": lambda g, _: int(g.card.display),
    "DisplayMode": lambda g, _: int(g.card.display),
    "VirtualizationMode": lambda g, _: 0,
    "MultiGpuBoard": lambda g, _: 0,
    "GspFirmwareVersion": lambda g, _: (
        g.scene.driver_version.encode() if g.board.architecture > 6 else None
    ),
    "InforomImageVersion": lambda g, _: (
        f"{digits(4, g.board.device_id).upper()}.0200.00.05" if g.board.has_serial else None
    ),
}
"""Calls whose answer never changes, without their `nvmlDeviceGet`."""
