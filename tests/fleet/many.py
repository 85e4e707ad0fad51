"""Handmade snapshots of many hosts."""

from datetime import datetime, timedelta, timezone
from typing import Any

from gpudash.model.fleet import (
    FleetDevice,
    FleetHost,
    FleetJob,
    FleetSnapshot,
    FleetSource,
    FleetUser,
)
from gpudash.model.snapshot import Finding
from gpudash.model.text import SafeText

INSTANT = datetime(2026, 11, 23, 2, 14, tzinfo=timezone.utc)
GIB = 1 << 30


def device(index: int, status: str = "busy", **fields: Any) -> FleetDevice:
    """A GPU that does what its status says."""
    busy = status == "busy"
    values: dict[str, Any] = {
        "uuid": f"GPU-{index}",
        "name": "NVIDIA H100 80GB HBM3",
        "gpu_utilization_percent": 90.0 if busy else 0.0,
        "memory_used_bytes": (60 if busy or status == "held-idle" else 0) * GIB,
        "memory_total_bytes": 80 * GIB,
        "temperature_celsius": 66 if busy else 35,
        "power_usage_mw": 600_000 if busy else 90_000,
        "enforced_power_limit_mw": 700_000,
        "users": ("alice",) if busy else ("bob",) if status == "held-idle" else (),
        "job": "4242" if busy else None,
        "idle_seconds": 7200.0 if status == "held-idle" else None,
    }
    return FleetDevice(index=index, status=status, **{**values, **fields})


def host(number: int, *statuses: str, **fields: Any) -> FleetHost:
    """A host of eight busy GPUs, or of GPUs with these statuses."""
    words = statuses or ("busy",) * 8
    values: dict[str, Any] = {
        "name": f"gpu{number:04}",
        "group": f"r{number // 20 + 1:02}",
        "age_seconds": 8.0,
        "expected_devices": 8,
        "driver_version": "550.90.07",
        "devices": tuple(device(index, word) for index, word in enumerate(words)),
    }
    return FleetHost(**{**values, **fields})


def some_hosts(count: int) -> tuple[FleetHost, ...]:
    """Hosts most of which compute, and some of each other kind."""
    hosts = []
    for number in range(count):
        words = ["busy"] * 8
        if number % 7 == 3:
            words[4:] = ["held-idle"] * 4
        elif number % 11 == 5:
            words = ["free"] * 8
        elif number % 37 == 8:
            words[2] = "LOST"
        if number % 53 == 9:
            hosts.append(host(number, *words, state="down", message="No route to host"))
        else:
            hosts.append(host(number, *words))
    return tuple(hosts)


def fleet(hosts: tuple[FleetHost, ...], *, seconds: float = 0.0, **fields: Any) -> FleetSnapshot:
    """A snapshot of hosts with two users, a job and a finding."""
    down = sum(each.state != "ok" for each in hosts)
    values: dict[str, Any] = {
        "taken_at": INSTANT + timedelta(seconds=seconds),
        "sources": (
            FleetSource(
                kind="prometheus",
                name=SafeText("http://prom:9090"),
                age_seconds=4.0,
                answering_hosts=len(hosts) - down,
                expected_hosts=len(hosts),
            ),
        ),
        "hosts": hosts,
        "users": (
            FleetUser(
                name=SafeText("bob"),
                hosts=9,
                devices=36,
                held_idle=36,
                idle_gpu_hours=72.0,
                memory_used_bytes=36 * 60 * GIB,
            ),
            FleetUser(name=SafeText("alice"), hosts=40, devices=300, busy=300, jobs=1),
        ),
        "jobs": (
            FleetJob(
                id=SafeText("4242"),
                name=SafeText("pretrain"),
                user=SafeText("alice"),
                state=SafeText("RUNNING"),
                hosts=tuple(each.name for each in hosts[:40]),
                devices=300,
                busy=300,
                gpu_utilization_percent=90.0,
                min_gpu_utilization_percent=31.0,
                elapsed_seconds=7200.0,
                limit_seconds=86400.0,
            ),
        ),
        "findings": (
            Finding(
                rule="gpus-lost",
                level="critical",
                sentence=SafeText("2 GPUs fell off the bus on 2 hosts"),
                advice=SafeText("Drain them and reset the GPUs"),
                hosts=tuple(each.name for each in hosts[8:9]),
            ),
        ),
    }
    return FleetSnapshot(**{**values, **fields})
