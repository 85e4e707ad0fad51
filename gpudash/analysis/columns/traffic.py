"""The columns beside the link matrix: traffic of each GPU, and the CPUs close to it."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from gpudash.analysis.labels import index_ranges, pcie_link
from gpudash.analysis.links import texts
from gpudash.analysis.table import Column, word
from gpudash.model.device import Device, nvlink_capacity, pcie_capacity
from gpudash.model.snapshot import Snapshot, whole_gpus
from gpudash.model.units import ABSENT, grouped, short_size


class GpuAffinity(NamedTuple):
    """A GPU of the topology and the CPUs next to it; `device` is None if it is gone."""

    gpu: int
    device: Device | None
    numa: str
    cpus: str


def gpu_affinities(snapshot: Snapshot) -> list[GpuAffinity]:
    """Return the GPUs in the order of the topology."""
    topology = snapshot.topology
    if topology is None:
        return []
    gpus = {gpu.index: gpu for gpu in whole_gpus(snapshot)}
    numa, cpus = (texts(each) for each in (topology.numa_affinity, topology.cpu_affinity))
    return [
        GpuAffinity(index, gpus.get(index), *near)
        for index, near in zip(topology.indices, zip(numa, cpus, strict=True), strict=True)
    ]


def affinity_sentence(rows: list[GpuAffinity]) -> str:
    """Return `NUMA 0, CPUs 0-31: GPU 0-3;  NUMA 1, CPUs 32-63: GPU 4-7`, empty if none is known."""
    groups = grouped(
        ((row.numa, row.cpus), row.gpu) for row in rows if (row.numa, row.cpus) != (ABSENT, ABSENT)
    )
    return ";  ".join(
        f"NUMA {numa}, CPUs {cpus}: GPU {index_ranges(indices)}"
        for (numa, cpus), indices in groups.items()
    )


UNREAD = "unread"
"""Stands for a link's rate that the driver does not report."""
_RATES = frozenset(
    f"{link}_{way}_bytes_per_second" for link in ("pcie", "nvlink") for way in ("tx", "rx")
)


def _number(row: GpuAffinity, field: str) -> int | None:
    value: int | None = getattr(row.device, field, None)
    return value


def _capacity(device: Device | None, field: str) -> float | None:
    """Return the maximum bytes per second of PCIe in each direction, or of the NVLinks in use."""
    if device is None:
        return None
    if field.startswith("nvlink"):
        return nvlink_capacity(device.nvlink_version, device.nvlink_count)
    return pcie_capacity(device.max_pcie_link_generation, device.max_pcie_link_width)


def _share(row: GpuAffinity, field: str) -> float | None:
    value, capacity = _number(row, field), _capacity(row.device, field)
    return None if value is None or not capacity else min(max(value / capacity, 0.0), 1.0)


def is_unread(device: Device | None, field: str) -> bool:
    """Whether a field is the unknown rate of an existing link."""
    if device is None or device.state != "ok" or device.is_mig or field not in _RATES:
        return False
    has_link = device.nvlink_count if field.startswith("nvlink") else device.pcie_link_width
    return bool(has_link) and getattr(device, field) is None


def _rate(key: str, header: str, field: str, *, priority: int) -> Column[GpuAffinity]:
    return Column(
        key=key,
        header=header,
        text=lambda row: (
            UNREAD if is_unread(row.device, field) else short_size(_number(row, field))
        ),
        sort_key=lambda row: float(_number(row, field) or 0),
        width=6,
        align=">",
        priority=priority,
        share=lambda row: _share(row, field),
    )


TRAFFIC_COLUMNS: tuple[Column[GpuAffinity], ...] = (
    _rate("pcie_tx", "PCIE TX", "pcie_tx_bytes_per_second", priority=1),
    _rate("pcie_rx", "PCIE RX", "pcie_rx_bytes_per_second", priority=1),
    _rate("nvlink_tx", "NVL TX", "nvlink_tx_bytes_per_second", priority=2),
    _rate("nvlink_rx", "NVL RX", "nvlink_rx_bytes_per_second", priority=2),
    word("numa", "NUMA", lambda row: row.numa, 7, priority=3),
    word("cpus", "CPUS", lambda row: row.cpus, 15, priority=4),
    word(
        "pcie",
        "PCIE",
        lambda row: None if row.device is None else pcie_link(row.device),
        8,
        priority=5,
    ),
)
"""Rates are bytes per second in binary units; bars are shares of the links' capacity."""


def has_unread_rate(row: GpuAffinity, keys: Collection[str]) -> bool:
    """Whether one of these columns shows the word for an unknown rate."""
    shown = [column for column in TRAFFIC_COLUMNS if column.key in keys]
    return any(column.text(row) == UNREAD for column in shown)
