"""The contents of a bug report, as one text file without names of people and hosts."""

from __future__ import annotations

import os
import platform
import pwd
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from gpudash.config.file import rendered
from gpudash.config.settings import Settings, Table, declared, plain
from gpudash.doctor.checks import Machine
from gpudash.model import wire
from gpudash.model.process import Holder, LastProcess, Lease, Process
from gpudash.model.secrets import mask_text
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import SafeText, clean
from gpudash.model.units import counted

MASKED = "Names of users and hosts, UUIDs, serial numbers, arguments and secrets are left out."

_VARIABLES = re.compile(
    r"(TERM|TERM_PROGRAM|COLORTERM|NO_COLOR|LANG|LC_\w+|TMUX|STY)$|(GPUDASH|CUDA|NVIDIA)_"
)
_OF_HOSTS = frozenset({"GPUDASH_PROMETHEUS", "GPUDASH_SCRAPE"})
"""Variables with URLs."""
_HOME = re.compile(r"(/home/)(?!user\b)[^/\s\"',:]+")
_UUID = re.compile(r"\b(GPU|MIG)-[0-9a-fA-F]{4}[0-9a-fA-F-]*")
"""Including the beginning of one, as allowed in CUDA_VISIBLE_DEVICES."""
_Runs = TypeVar("_Runs", Process, Holder)
_MIN_NAME = 2
_WELL_KNOWN = frozenset({"root", "nobody", "localhost"})


class Section(NamedTuple):
    """A part of the report, under its heading."""

    title: str
    text: str


def sections(
    machine: Machine, checks: str, settings: Settings, snapshot: Snapshot | str
) -> list[Section]:
    """Return the report: checks as printed, the settings, and a snapshot or why there is none.

    All of it is masked.
    """
    names = _own_names()
    if isinstance(snapshot, Snapshot):
        names |= _names(snapshot)
        document = wire.pretty(wire.encode(_without_arguments(snapshot))).decode()
    else:
        document = snapshot
    found = [
        Section("gpudash doctor", checks),
        Section("system", _system(machine)),
        Section("environment", _environment(machine.environ)),
        Section("settings", _settings(settings)),
        Section("snapshot (gpudash --once --json)", document),
    ]
    return [Section(title, _masked(text, names)) for title, text in found]


def render(parts: list[Section]) -> str:
    """Return the text of the file."""
    heads = [f"== {part.title} ==\n{part.text.strip()}\n" for part in parts]
    return "\n".join([f"Report of gpudash. {MASKED}\n", *heads])


def _system(machine: Machine) -> str:
    release = re.search(r'PRETTY_NAME="?([^"\n]*)', machine.read("/etc/os-release") or "")
    rows = {
        "system": release[1] if release else platform.system(),
        "kernel": f"{platform.release()} {platform.machine()}",
        "python": f"{platform.python_version()} {platform.python_implementation()}",
        "prefix": sys.prefix,
        "uid": str(os.geteuid()),
        "driver": (machine.read("/proc/driver/nvidia/version") or "none").partition("\n")[0],
    }
    return "\n".join(f"{name}: {clean(value)}" for name, value in rows.items())


def _environment(environ: Mapping[str, str]) -> str:
    shown = sorted(name for name in environ if _VARIABLES.match(name))
    lines = [
        f"{name} is set" if name in _OF_HOSTS else f"{name}={clean(environ[name])}"
        for name in shown
    ]
    return "\n".join(lines) or "none of ours"


def _settings(settings: Settings) -> str:
    """Return settings that differ from the defaults, without texts that may name anyone."""
    lines: list[str] = []
    for name, setting in declared().items():
        value = getattr(settings, name)
        if value == setting.default:
            continue
        if isinstance(setting.kind, Table):
            # Hosts, users, URLs, headers and commands; the others have fixed choices.
            lines += [
                f"{name}.{each} is set"
                for each in setting.kind.type.__struct_fields__
                if getattr(value, each) != getattr(setting.default, each)
            ]
        elif isinstance(value, Mapping):
            lines += [f"{name}.{each} = {rendered(plain(item))}" for each, item in value.items()]
        else:
            lines.append(f"{name} = {rendered(plain(value))}")
    return "\n".join(lines) or "the defaults"


def _own_names() -> dict[str, str]:
    names = {os.path.expanduser("~"): "~"}
    host = platform.node()
    names |= dict.fromkeys((host, host.partition(".")[0]), "host")
    names |= {os.environ[name]: "user" for name in ("SUDO_USER", "LOGNAME") if name in os.environ}
    with suppress(KeyError):
        names[pwd.getpwuid(os.getuid()).pw_name] = "user"
    return names


def _names(snapshot: Snapshot) -> dict[str, str]:
    """Return a replacement for each name in a snapshot."""
    host = snapshot.host.hostname
    names = dict.fromkeys((host, host.partition(".")[0]), "host")
    last = [
        each
        for device in snapshot.devices
        if device.last_read
        for each in device.last_read.processes
    ]
    people: list[Process | Holder | LastProcess | Lease] = [
        *snapshot.processes,
        *snapshot.holders,
        *last,
        *snapshot.leases,
    ]
    jobs = [process.job for process in snapshot.processes if process.job is not None]
    kinds: dict[str, list[str | None]] = {
        "user": [each.username for each in people],
        "GPU": [device.uuid for device in snapshot.devices],
        "serial": [device.serial for device in snapshot.devices],
        "fabric": [device.fabric_cluster_uuid for device in snapshot.devices],
        "job": [text for job in jobs for text in (job.id, job.container)],
    }
    for kind, values in kinds.items():
        unique = dict.fromkeys(value for value in values if value)
        names |= {value: f"{kind}-{number}" for number, value in enumerate(unique, 1)}
    return names


def _without_arguments(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot with command lines reduced to the program and its argument count."""
    return replace(
        snapshot,
        processes=tuple(_brief(process) for process in snapshot.processes),
        holders=tuple(_brief(holder) for holder in snapshot.holders),
    )


def _brief(process: _Runs) -> _Runs:
    if not process.command_line:
        return process
    program, *arguments = process.command_line
    # A title that a process gives itself is all in its first argument, with options and paths.
    name = program.partition(" ")[0].rpartition("/")[2]
    kept = SafeText(name), SafeText(f"({counted(len(arguments), 'argument')})")
    return replace(process, command_line=kept)


def _masked(text: str, names: Mapping[str, str]) -> str:
    """Return a text without these names, and without secrets."""
    kept = _WELL_KNOWN | {name for name in names if len(name) < _MIN_NAME or name.isdecimal()}
    known = names.keys() - kept
    if known:
        words = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
        text = re.sub(rf"(?<![\w-])(?:{words})(?![\w-])", lambda match: names[match[0]], text)
    text = _UUID.sub(r"\1-?", _HOME.sub(r"\1user", text))
    return mask_text(text)
