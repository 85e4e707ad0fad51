"""What to know before a process is signalled: warnings, never refusals."""

from __future__ import annotations

import os
from typing import NamedTuple

from gpudash.actions.kill.pin import Target
from gpudash.model.process import Process
from gpudash.system import process_tree, processes

_KERNEL_NAME = 15
_ROOT = 0
_DAEMONS = {
    "nvidia-persistenced": "it keeps the driver loaded: idle GPUs become slow to start",
    "nv-fabricmanager": "it runs the NVLink fabric: jobs on this host fail without it",
    "nv-hostengine": "it is DCGM's engine: monitoring and health checks end with it",
    "nvidia-cuda-mps-control": "it controls MPS: all its clients end with it",
    "nvidia-cuda-mps-server": "it is an MPS server: all its clients end with it",
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
    grave = (*_dangers(process, stat, status), _ancestor(process))
    other = (
        _graphics(process),
        _client(process),
        _owner(process, processes.owner_id(status)),
        _session(process, stat),
        _foreign(process, status),
        _unprotected(target),
        _blocked(target),
    )
    return (
        *(KillWarning(sentence, dangerous=True) for sentence in grave if sentence),
        *(KillWarning(sentence) for sentence in other if sentence),
    )


def dangers_below(process: Process) -> tuple[KillWarning, ...]:
    """Return why a process that goes with another is not a plain job; empty if it is one.

    What gpudash runs below is left out: that it does is said of the one that was chosen.
    """
    stat = processes.read_stat(process.pid)
    found = _dangers(process, stat, processes.read_status(process.pid) or b"")
    return tuple(KillWarning(sentence, dangerous=True) for sentence in found if sentence)


def _dangers(
    process: Process, stat: processes.ProcStat | None, status: bytes
) -> tuple[str | None, ...]:
    return _daemon(process, stat), _display(process), _container(status)


def _daemon(process: Process, stat: processes.ProcStat | None) -> str | None:
    name = process.name or (stat.name.decode("utf-8", "replace") if stat else "")
    for daemon, sentence in _DAEMONS.items():
        # Of a name that is not read from its arguments the kernel keeps the beginning.
        if name == daemon or (len(name) == _KERNEL_NAME and daemon.startswith(name)):
            return sentence
    return None


def _display(process: Process) -> str | None:
    if process.name in _DISPLAYS:
        return "it is a display server: the desktop ends with it"
    return None


def _graphics(process: Process) -> str | None:
    if "G" in process.type and process.name not in _DISPLAYS:
        return "it draws graphics (type G): it may be part of the desktop"
    return None


def _client(process: Process) -> str | None:
    if "M" in process.type:
        return "it is a client of MPS: the other clients of its server may fail with it"
    return None


def _container(status: bytes) -> str | None:
    pids = processes.namespace_pids(status)
    if len(pids) > 1 and pids[-1] == 1:
        return "it is the init of a container: everything in it ends with it"
    return None


def _ancestor(process: Process) -> str | None:
    if process.pid not in process_tree.ancestor_pids(os.getpid()):
        return None
    return "gpudash runs below it: this session may end with it"


def _owner(process: Process, uid: int | None) -> str | None:
    if uid == _ROOT and (os.geteuid() != _ROOT or _is_service(process)):
        return "it is root's"
    if uid is None or uid == os.geteuid():
        return None
    return f"it belongs to another user, {process.username or processes.username(uid)}"


def _is_service(process: Process) -> bool:
    job = process.job
    return job is not None and job.kind == "unit" and job.id.endswith(".service")


def _session(process: Process, stat: processes.ProcStat | None) -> str | None:
    if stat is None or stat.session_id != process.pid:
        return None
    if stat.has_terminal:
        return "it leads the session of a terminal: all that runs there is hung up"
    return "it leads a session"


def _foreign(process: Process, status: bytes) -> str | None:
    """Within a namespace the driver may mean the process of that PID outside."""
    if not status or not process.devices or processes.in_first_pid_namespace():
        return None
    return "this is a PID namespace: GPUs and memory may be those of a process outside"


def _unprotected(target: Target) -> str | None:
    if target.protected:
        return None
    return "this kernel cannot pin it: a reused PID may go unnoticed"


def _blocked(target: Target) -> str | None:
    if target.state().name != "uninterruptible":
        return None
    return "it is in D state: a signal reaches it when its system call returns"
