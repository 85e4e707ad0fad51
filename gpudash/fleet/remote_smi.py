"""A host without gpudash: the output of nvidia-smi and ps there, in one line, as a Snapshot.

A value that is not printed, or printed as `[N/A]`, is None.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from functools import cache
from typing import Any

from msgspec import ValidationError, convert

from gpudash.model.device import Device, DeviceState, device_fields, labelled
from gpudash.model.errors import WireError
from gpudash.model.fault import Fault
from gpudash.model.fields import Field
from gpudash.model.process import Process, ProcessDevice
from gpudash.model.secrets import mask_arguments
from gpudash.model.snapshot import Host, Snapshot
from gpudash.model.text import NAME_BYTES, SafeText, bound, bound_all, clean
from gpudash.model.units import Unit

START = b"gpudash-smi\x1d"
"""The beginning of each line."""

_SECTION, _LINE = "\x1d", "\x1e"
_SECTIONS = 6
_MAX_DEVICES, _MAX_PROCESSES = 256, 4096
_COMMAND_BYTES = 200
_MAX_NUMBER = 1 << 53

# Supported by every driver since 450; older ones reject a query for MIG modes.
_OLD_FIELDS = (
    "index,uuid,name,pci.bus_id,driver_version,vbios_version,serial,pstate,utilization.gpu,"
    "utilization.memory,memory.total,memory.used,memory.free,temperature.gpu,power.draw,"
    "enforced.power.limit,power.limit,clocks.gr,clocks.sm,clocks.mem,fan.speed"
)
_FIELDS = f"{_OLD_FIELDS},mig.mode.current"
_SAMPLE = (
    "h=$(uname -n; cat /proc/uptime /proc/loadavg 2>/dev/null; "
    'grep -E "^(MemTotal|MemAvailable|SwapTotal|SwapFree):" /proc/meminfo 2>/dev/null; '
    "getconf _NPROCESSORS_ONLN 2>/dev/null); "
    f"q=$(nvidia-smi --query-gpu={_FIELDS} --format=csv,nounits 2>/dev/null) || "
    f"q=$(nvidia-smi --query-gpu={_OLD_FIELDS} --format=csv,nounits 2>&1); "
    'm=; case "$q" in (*Enabled*) m=$(nvidia-smi -L 2>/dev/null);; esac; '
    "a=$(nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory "
    "--format=csv,noheader,nounits 2>/dev/null); "
    r'p=$(printf "%s" "$a" | cut -d, -f2 | tr -cd "0-9\n" | sort -u | tr "\n" ","); s=; '
    '[ -z "${p%,}" ] || s=$(ps -ww -o pid= -o user:32= -o rss= -o args= -p "${p%,}" '
    "2>/dev/null | cut -c1-400); "
    r'printf "%s\035" gpudash-smi "$h" "$q" "$m" "$a" "$s" | tr "\n" "\036"; echo || exit'
)
SCRIPT = f"command -v nvidia-smi >/dev/null 2>&1 || exit 127; while :; do {_SAMPLE}; sleep 2; done"
"""Shell commands, without single quotes, that print a line every few seconds."""

_SCALES = {Unit.BYTE: 1 << 20, Unit.MILLIWATT: 1000}
"""From the units of nvidia-smi, MiB and watts."""
_DEAD: Mapping[str, DeviceState] = {
    "[gpu is lost]": "lost",
    "[gpu requires reset]": "reset-required",
    "[unknown error]": "failed",
}
_STATE_WORDS = {"enabled": True, "disabled": False}
_MIG = re.compile(r"\s+MIG (?P<profile>\S+)\s+Device\s+(?P<number>\d+): \(UUID: (?P<uuid>[^)]+)\)")
_GPU = re.compile(r"GPU (?P<index>\d+): .*\(UUID: (?P<uuid>[^)]+)\)")
_MEMINFO = re.compile(r"(\w+):\s+(\d+) kB")


def decode(line: bytes) -> Snapshot:
    """Return the snapshot in a line of `SCRIPT`; raises WireError for anything else."""
    text = line.decode("utf-8", "surrogateescape")
    sections = text.split(_SECTION, _SECTIONS - 1)
    if len(sections) != _SECTIONS:
        raise WireError("not an answer of nvidia-smi: it is cut")
    try:
        return _decode(sections)
    except (ValidationError, csv.Error) as error:
        raise WireError(f"not an answer of nvidia-smi: {error}") from None


def _decode(sections: Sequence[str]) -> Snapshot:
    _, about, query, listed, apps, running = (
        [row for row in section.strip(_SECTION + _LINE).split(_LINE) if row.strip()]
        for section in sections
    )
    rows = list(_rows(query))
    devices = [device for row in rows if (device := _device(row)) is not None][:_MAX_DEVICES]
    devices = list(labelled(list(_with_instances(devices, listed))))
    errors = []
    if not rows:
        message = query[-1] if query else "nvidia-smi printed nothing"
        errors.append(Fault(source="nvml", message=clean(message, 500)))
    driver = next((row["driver_version"] for row in rows if "driver_version" in row), None)
    return Snapshot(
        taken_at=datetime.now(timezone.utc),
        host=_host(about, driver),
        devices=tuple(devices),
        processes=tuple(_processes(apps, running, devices)),
        errors=tuple(errors),
    )


def _rows(lines: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the known values of each GPU by nvidia-smi's names."""
    heading: list[str] | None = None
    for cells in csv.reader(lines, skipinitialspace=True):
        if heading is None:
            # Output of a library or a wrapper before the table is not the heading.
            if cells and cells[0] == "index":
                heading = [cell.partition(" [")[0].strip() for cell in cells]
        elif len(cells) == len(heading):
            yield {name: cell.strip() for name, cell in zip(heading, cells, strict=True)}


@cache
def _fields() -> Mapping[str, Field]:
    return {name: field for field in device_fields().values() for name in field.smi}


def _device(row: Mapping[str, str]) -> Device | None:
    """Return the GPU of a row, None for one without an index."""
    values: dict[str, Any] = {}
    state: DeviceState = "ok"
    for name, text in row.items():
        state = _DEAD.get(text.lower(), state)
        field = _fields().get(name)
        value = None if field is None else _value(field, text)
        if field is not None and value is not None:
            values[field.name] = value
    if values.get("gpu_utilization_percent") is not None or "memory_used_bytes" in values:
        # One failed value is no reason to give up the GPU.
        state = "ok"
    fault = None
    if state != "ok":
        fault = Fault(source="nvml", message=SafeText(f"nvidia-smi: {state.replace('-', ' ')}"))
    try:
        return convert({**values, "state": state, "fault": fault}, Device)
    except ValidationError:
        return None


def _value(field: Field, text: str) -> object:
    """Return a value in the unit of its field, None for `[N/A]` and the like."""
    if not text or text.startswith("[") or text in ("N/A", "No"):
        return None
    if text.lower() in _STATE_WORDS:
        return _STATE_WORDS[text.lower()]
    if field.name == "performance_state":
        text = text.removeprefix("P")
    if field.unit is Unit.NONE and not field.name.endswith(("index", "performance_state")):
        return clean(text, NAME_BYTES)
    with suppress(ValueError, OverflowError):
        number = round(float(text) * _SCALES.get(field.unit, 1))
        lowest, highest = (-1000, 1000) if field.unit is Unit.CELSIUS else (0, _MAX_NUMBER)
        return number if lowest <= number <= highest else None
    return None


def _with_instances(devices: Sequence[Device], listed: Iterable[str]) -> Iterator[Device]:
    """Yield GPUs, each with its MIG instances; nvidia-smi lists only their names."""
    instances: dict[str, list[Device]] = defaultdict(list)
    parent: str | None = None
    for line in list(listed)[: 16 * _MAX_DEVICES]:
        if match := _GPU.match(line):
            parent = match["uuid"]
        elif parent is not None and (match := _MIG.match(line)):
            instances[parent].append(
                Device(
                    index=min(int(match["number"][:6]), 1 << 20),
                    uuid=clean(match["uuid"], NAME_BYTES),
                    parent_uuid=clean(parent, NAME_BYTES),
                    name=clean(f"MIG {match['profile']}", NAME_BYTES),
                )
            )
    for device in devices:
        yield device
        yield from instances.get(device.uuid or "", ())


def _processes(
    apps: Sequence[str], running: Sequence[str], devices: Sequence[Device]
) -> Iterator[Process]:
    """Yield the processes on the GPUs with their data from ps, the largest holder first."""
    index_of: dict[str | None, int] = {}
    for device in devices:
        # A GPU precedes its instances.
        if device.uuid is not None:
            index_of[device.uuid] = index_of.get(device.parent_uuid, device.index)
    shares: dict[int, list[ProcessDevice]] = defaultdict(list)
    for line in apps[:_MAX_PROCESSES]:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 3 and cells[1].isdecimal() and cells[0] in index_of:
            mib = int(cells[2][:9]) if cells[2].isdecimal() else None
            shares[int(cells[1][:9])].append(
                ProcessDevice(
                    index=index_of[cells[0]],
                    uuid=clean(cells[0], NAME_BYTES),
                    used_gpu_memory_bytes=None if mib is None else mib << 20,
                )
            )
    facts = dict(filter(None, map(_facts, running)))
    found = [
        Process(pid=pid, devices=tuple(used), **facts.get(pid, {})) for pid, used in shares.items()
    ]
    yield from sorted(found, key=lambda process: -(process.used_gpu_memory_bytes or 0))


def _facts(line: str) -> tuple[int, dict[str, Any]] | None:
    """Return the data of a process from ps: PID, user, resident memory, arguments."""
    words = line.split(None, 3)
    if len(words) < 4 or not words[0].isdecimal():
        return None
    arguments = [clean(word) for word in mask_arguments(words[3].split())]
    facts: dict[str, Any] = {
        "username": bound(clean(words[1]), NAME_BYTES),
        "name": bound(clean(arguments[0].rpartition("/")[2]), NAME_BYTES),
        "command_line": bound_all(arguments, _COMMAND_BYTES),
    }
    if words[2].isdecimal():
        facts["resident_memory_bytes"] = int(words[2][:12]) << 10
    return int(words[0][:9]), facts


def _host(lines: Sequence[str], driver: str | None) -> Host:
    """Return the host from its name and the output of /proc and getconf."""
    sizes = {match[1]: int(match[2][:15]) << 10 for match in map(_MEMINFO.match, lines) if match}
    values: dict[str, Any] = {}
    for words in map(str.split, lines[1:]):
        with suppress(ValueError):
            if len(words) == 2 and "." in words[0]:
                values["uptime_seconds"] = float(words[0])
            elif len(words) == 5:
                values["load_average"] = tuple(float(word) for word in words[:3])
            elif len(words) == 1:
                values["cpu_count"] = int(words[0])
    total, available = sizes.get("MemTotal"), sizes.get("MemAvailable")
    if total is not None and available is not None:
        values["memory_used_bytes"] = max(0, total - available)
    swap, free = sizes.get("SwapTotal"), sizes.get("SwapFree")
    if swap is not None and free is not None:
        values["swap_used_bytes"] = max(0, swap - free)
    known = {
        "memory_total_bytes": total,
        "memory_available_bytes": available,
        "swap_total_bytes": swap,
        "driver_version": driver and clean(driver, NAME_BYTES),
    }
    values |= {name: value for name, value in known.items() if value is not None}
    name = clean(lines[0], NAME_BYTES) if lines else SafeText("")
    return convert({"hostname": name, **values}, Host)
