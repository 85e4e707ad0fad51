"""Information before a process is signalled: warnings, never refusals."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from gpudash.actions.kill.pin import Target
from gpudash.model.process import Process
from gpudash.system import process_tree, processes

_KERNEL_NAME = 15
_ROOT = 0
_DAEMONS = {
    "nvidia-persistenced": "it keeps the driver loaded; without it idle GPUs are slow to start",
    "nv-fabricmanager": "it runs the NVLink fabric; without it jobs on this host fail",
    "nv-hostengine": "it is DCGM's engine; monitoring and health checks end with it",
    "nvidia-cuda-mps-control": "it controls MPS; all clients of MPS end with it",
    "nvidia-cuda-mps-server": "it is an MPS server; all its clients end with it",
}
_DISPLAYS = (
    *("Xorg", "X", "Xwayland", "gnome-shell", "kwin_wayland", "kwin_x11", "plasmashell"),
    *("mutter", "sway", "weston", "Hyprland", "gdm-x-session", "sddm", "lightdm"),
)


class KillWarning(NamedTuple):
    """A sentence about what a signal would affect."""

    text: str
    dangerous: bool = False
    """Whether it is not a plain job, so that its signal needs a second confirmation."""


def warnings(target: Target) -> tuple[KillWarning, ...]:
    """Return what else a signal would affect, dangers first; empty for a plain job."""
    process = target.process
    stat = processes.read_stat(process.pid)
    status = processes.read_status(process.pid) or b""
    dangers = [*_dangers(process, stat, status)]
    if process.pid in process_tree.ancestor_pids(os.getpid()):
        dangers.append("gpudash was started by it; this session may end with it")
    return (
        *(KillWarning(sentence, dangerous=True) for sentence in dangers),
        *map(KillWarning, _doubts(target, stat, status)),
    )


def dangers_below(process: Process) -> tuple[KillWarning, ...]:
    """Return why a process that is signalled along with another is not a plain job; else empty.

    That gpudash runs below it is left out: the warnings about the chosen one say so.
    """
    stat = processes.read_stat(process.pid)
    found = _dangers(process, stat, processes.read_status(process.pid) or b"")
    return tuple(KillWarning(sentence, dangerous=True) for sentence in found)


def _dangers(process: Process, stat: processes.ProcStat | None, status: bytes) -> Iterator[str]:
    name = process.name or (stat.name.decode("utf-8", "replace") if stat else "")
    for daemon, sentence in _DAEMONS.items():
        # If a name is not read from the arguments, the kernel keeps only its beginning.
        if name == daemon or (len(name) == _KERNEL_NAME and daemon.startswith(name)):
            yield sentence
            break
    if process.name in _DISPLAYS:
        yield "it is a display server; the desktop ends with it"
    pids = processes.namespace_pids(status)
    if len(pids) > 1 and pids[-1] == 1:
        yield "it is the init process of a container; everything in the container ends with it"


def _doubts(target: Target, stat: processes.ProcStat | None, status: bytes) -> Iterator[str]:
    process, uid = target.process, processes.owner_id(status)
    if "G" in process.type and process.name not in _DISPLAYS:
        yield "it draws graphics (type G) and may be part of the desktop"
    if "M" in process.type:
        yield "it is an MPS client; other clients of its server may fail with it"
    if uid == _ROOT and (os.geteuid() != _ROOT or _is_service(process)):
        yield "it belongs to root"
    elif uid not in (None, os.geteuid()):
        yield f"it belongs to another user, {process.username or processes.username(uid)}"
    if stat is not None and stat.session_id == process.pid:
        terminal = "a terminal session; everything in it is hung up"
        yield f"it leads {terminal if stat.has_terminal else 'a session'}"
    if status and process.devices and not processes.in_first_pid_namespace():
        # The driver may mean the outside process with this PID.
        yield "this is a PID namespace; its GPUs and memory may be those of a process outside"
    if not target.protected:
        yield "this kernel has no pidfd; a reused PID may go unnoticed"
    if target.state().name == "uninterruptible":
        yield "it is in D state; a signal reaches it when its system call returns"


def _is_service(process: Process) -> bool:
    job = process.job
    return job is not None and job.kind == "unit" and job.id.endswith(".service")
