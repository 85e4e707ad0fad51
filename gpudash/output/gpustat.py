"""A snapshot in the form of `gpustat --json`, for scripts that read that."""

from __future__ import annotations

from typing import Any

import msgspec

from gpudash.model.device import Device
from gpudash.model.fault import unlisted_uuids
from gpudash.model.process import Process, ProcessDevice
from gpudash.model.snapshot import Snapshot, whole_gpus

_MIB = 1 << 20
_UNKNOWN = "?"
_NAMES = {"lost": "((GPU is lost))"}
_FAILED = "((Unknown Error))"


def render(snapshot: Snapshot) -> str:
    """Return one indented document; unknown values are null, as in gpustat's."""
    document = {
        "hostname": snapshot.host.hostname,
        "driver_version": snapshot.host.driver_version,
        "query_time": snapshot.taken_at.astimezone().replace(tzinfo=None).isoformat(),
        "gpus": [_gpu(device, snapshot) for device in whole_gpus(snapshot)],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=4).decode() + "\n"


def _gpu(device: Device, snapshot: Snapshot) -> dict[str, Any]:
    if device.state != "ok":
        # gpustat prints nothing else of one that does not answer, not even its UUID.
        name = _NAMES.get(device.state, _FAILED)
        return {"index": device.index, "name": name, "processes": None}
    return {
        "index": device.index,
        "uuid": device.uuid,
        "name": device.name,
        "temperature.gpu": device.temperature_celsius,
        "fan.speed": device.fan_speed_percent,
        "utilization.gpu": device.gpu_utilization_percent,
        "utilization.enc": device.encoder_utilization_percent,
        "utilization.dec": device.decoder_utilization_percent,
        "power.draw": _floored(device.power_usage_mw, 1000),
        "enforced.power.limit": _floored(device.enforced_power_limit_mw, 1000),
        "memory.used": _floored(device.memory_used_bytes, _MIB),
        "memory.total": _floored(device.memory_total_bytes, _MIB),
        "processes": _processes(device, snapshot),
    }


def _processes(device: Device, snapshot: Snapshot) -> list[dict[str, Any]] | None:
    """Return those on a GPU and its instances, null if the driver does not list them."""
    if device.uuid in unlisted_uuids(snapshot.errors):
        return None
    return [
        _process(use.process, use.share)
        for use in snapshot.uses_of(device)
        if use.process.name is not None
    ]


def _process(process: Process, share: ProcessDevice) -> dict[str, Any]:
    line = process.command_line
    return {
        "username": process.username or _UNKNOWN,
        "command": line[0].rpartition("/")[2] if line else process.name,
        "full_command": list(line or (process.name or _UNKNOWN,)),
        "gpu_memory_usage": _floored(share.used_gpu_memory_bytes, _MIB),
        "cpu_percent": process.cpu_percent,
        "cpu_memory_usage": process.resident_memory_bytes,
        "pid": process.pid,
    }


def _floored(value: int | None, unit: int) -> int | None:
    return None if value is None else value // unit
