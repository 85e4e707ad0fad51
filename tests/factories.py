"""Plausible samples to start a test from: each takes overrides for what the test is about."""

from datetime import datetime, timezone
from typing import Any

from gpudash.model import wire
from gpudash.model.device import Device
from gpudash.model.process import Process, ProcessDevice
from gpudash.model.snapshot import Host, Snapshot, Topology

GIB = 1 << 30


def gpu_uuid(index: int) -> str:
    """The UUID that the other factories give the GPU of an index."""
    return f"GPU-{index:08x}-0000-4000-8000-000000000000"


def make_device(**overrides: Any) -> Device:
    """A busy 80 GiB board in good health."""
    index = overrides.get("index", 0)
    fields: dict[str, Any] = {
        "index": 0,
        "uuid": gpu_uuid(index),
        "name": "NVIDIA H100 80GB HBM3",
        "pci_bus_id": f"00000000:{0x10 + index:02X}:00.0",
        "architecture": "Hopper",
        "memory_total_bytes": 80 * GIB,
        "memory_reserved_bytes": GIB // 2,
        "memory_used_bytes": 40 * GIB,
        "memory_free_bytes": 40 * GIB - GIB // 2,
        "gpu_utilization_percent": 87,
        "memory_utilization_percent": 41,
        "temperature_celsius": 62,
        "memory_temperature_celsius": 70,
        "power_usage_mw": 412_300,
        "enforced_power_limit_mw": 700_000,
        "sm_clock_mhz": 1755,
        "max_sm_clock_mhz": 1980,
        "memory_clock_mhz": 2619,
        "max_memory_clock_mhz": 2619,
        "performance_state": 0,
        "clocks_event_reasons": (),
        "pcie_link_generation": 5,
        "max_pcie_link_generation": 5,
        "pcie_link_width": 16,
        "max_pcie_link_width": 16,
        "ecc_mode": True,
        "ecc_uncorrected_volatile_count": 0,
        "mig_mode": False,
    }
    return Device(**{**fields, **overrides})


def make_process(**overrides: Any) -> Process:
    """A training process of alice that holds 40 GiB on GPU 0; one that uses no GPU rests."""
    devices = overrides.get("devices", (make_process_device(),))
    works = not devices or any(share.sm_utilization_percent != 0 for share in devices)
    fields: dict[str, Any] = {
        "pid": 4242,
        "devices": devices,
        "username": "alice",
        "name": "python",
        "command_line": ("python", "train.py", "--batch", "32"),
        "cpu_percent": 99.5 if works else 0.5,
        "resident_memory_bytes": 6 * GIB,
        "create_time": 1_760_000_000.25,
        "status": "running" if works else "sleeping",
        "parent_pid": 4200,
    }
    return Process(**{**fields, **overrides})


def make_process_device(**overrides: Any) -> ProcessDevice:
    """The share of a GPU that a compute process has."""
    fields: dict[str, Any] = {
        "index": 0,
        "uuid": gpu_uuid(overrides.get("index", 0)),
        "type": "C",
        "used_gpu_memory_bytes": 40 * GIB,
        "sm_utilization_percent": 85,
        "memory_utilization_percent": 40,
    }
    return ProcessDevice(**{**fields, **overrides})


def make_host(**overrides: Any) -> Host:
    """A server of two sockets."""
    fields: dict[str, Any] = {
        "hostname": "node7",
        "driver_version": "570.86.15",
        "nvml_version": "12.570.86.15",
        "cuda_driver_version": "12.8",
        "cpu_count": 64,
        "cpu_percent": 12.5,
        "memory_total_bytes": 512 * GIB,
        "memory_used_bytes": 96 * GIB,
        "memory_available_bytes": 410 * GIB,
        "swap_total_bytes": 0,
        "swap_used_bytes": 0,
        "load_average": (4.5, 4.25, 4.0),
        "uptime_seconds": 1_000_000.0,
    }
    return Host(**{**fields, **overrides})


def make_topology(count: int = 4, **overrides: Any) -> Topology:
    """GPUs in PCIe islands of two: PIX and P2P inside, SYS and none across."""

    def pairs(self: str, near: str, far: str) -> tuple[tuple[str, ...], ...]:
        return tuple(
            tuple(self if a == b else near if a // 2 == b // 2 else far for b in range(count))
            for a in range(count)
        )

    fields: dict[str, Any] = {
        "uuids": tuple(gpu_uuid(index) for index in range(count)),
        "indices": tuple(range(count)),
        "links": pairs("X", "PIX", "SYS"),
        "p2p_read": pairs("X", "OK", "CNS"),
        "p2p_write": pairs("X", "OK", "CNS"),
        "p2p_atomics": pairs("X", "NS", "NS"),
        "cpu_affinity": tuple("0-31" if index < count / 2 else "32-63" for index in range(count)),
        "numa_affinity": tuple("0" if index < count / 2 else "1" for index in range(count)),
    }
    return Topology(**{**fields, **overrides})


def make_snapshot(device_count: int = 4, **overrides: Any) -> Snapshot:
    """A host of `device_count` GPUs with one process on the first."""
    fields: dict[str, Any] = {
        "taken_at": datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=timezone.utc),
        "host": make_host(),
        "devices": tuple(make_device(index=index) for index in range(device_count)),
        "processes": (make_process(),) if device_count else (),
        "topology": make_topology(device_count),
    }
    return Snapshot(**{**fields, **overrides})


def received(snapshot: Snapshot) -> tuple[Snapshot, bytes]:
    """Return a snapshot with its line, as it arrives from a collector."""
    return snapshot, wire.encode(snapshot)
