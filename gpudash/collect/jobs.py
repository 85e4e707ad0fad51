"""Job of a process from /proc/PID/cgroup: pod, Slurm job, container or unit.

The forms of docker, podman, containerd, CRI-O, Kubernetes, Slurm and systemd under cgroup v1, v2
and both; users choose cgroup names, so they are limited and cleaned.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

from msgspec import Struct

from gpudash.model.process import Job
from gpudash.model.text import SafeText, clean

LIMIT = 16384
"""Characters to read: twelve v1 hierarchies with paths of a kilobyte and more."""

_NAME_LIMIT = 256
_CONTAINER_ID_LENGTH = 64
_HEX = frozenset("0123456789abcdef")
_POD = r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?=[.:]|$)"
# A login is not a job, and neither is a user's own service manager.
_NO_JOB = r"session-[^-]*\.scope|user@[^@]*\.service|init\.scope"

_Path = list[str]
_Found = TypeVar("_Found")


class _Container(Struct, frozen=True):
    id: SafeText
    runtime: SafeText | None


@lru_cache(maxsize=128)
def job_of(text: str) -> Job | None:
    """Return the job in a cgroup file, None for a login shell or a bare process.

    All processes of a job are in few cgroups, and rarely leave them.
    """
    paths = _paths(text[:LIMIT])
    container = _first(_container, paths)
    id_ = container.id if container else None
    runtime = container.runtime if container else None
    if pod := _first(_pod, paths):
        return Job(kind="pod", id=pod, runtime=runtime, container=id_)
    if slurm := _first(_slurm, paths):
        job, step = slurm
        return Job(kind="slurm", id=job, step=step, runtime=runtime, container=id_)
    if container:
        return Job(kind="container", id=container.id, runtime=runtime)
    unit = _unit(paths[0]) if paths else None
    return Job(kind="unit", id=unit) if unit else None


def _paths(text: str) -> list[_Path]:
    """Split every hierarchy's path into its names, with the one managed by systemd first."""
    rows = [row.split(":", 2) for row in text.split("\n") if row.count(":") >= 2]
    # On a hybrid host, both v2 and name=systemd are systemd's; an empty v2 path names no job.
    rows.sort(key=lambda row: _rank(*row))
    return [path.removesuffix(" (deleted)").strip("/").split("/") for _, _, path in rows]


def _rank(hierarchy: str, controllers: str, path: str) -> int:
    if hierarchy == "0" and not controllers and path != "/":
        return 0
    return 1 if controllers == "name=systemd" else 2


def _first(find: Callable[[_Path], _Found | None], paths: list[_Path]) -> _Found | None:
    return next((found for path in paths if (found := find(path))), None)


def _container(path: _Path) -> _Container | None:
    """Find the innermost container: `ID`, `RUNTIME-ID.scope` or `...slice:RUNTIME:ID`."""
    for index in range(len(path) - 1, -1, -1):
        name = path[index].removesuffix(".scope")
        head, id_ = name[:-_CONTAINER_ID_LENGTH], name[-_CONTAINER_ID_LENGTH:]
        if len(id_) < _CONTAINER_ID_LENGTH or not _HEX.issuperset(id_):
            continue
        if not head:
            runtime = "docker" if path[:index][-1:] == ["docker"] else ""
            return _Container(clean(id_), clean(runtime) or None)
        runtime = head[:-1].rpartition(":")[2]
        # conmon watches a container of podman or CRI-O from outside.
        if head[-1] in "-:" and not runtime.endswith("conmon"):
            return _Container(clean(id_), clean(runtime, _NAME_LIMIT) or None)
    return None


def _pod(path: _Path) -> SafeText | None:
    for name in path:
        if "pod" in name and (match := re.search(_POD, name)):
            return clean(match[1].replace("_", "-"))
    return None


def _slurm(path: _Path) -> tuple[SafeText, SafeText | None] | None:
    """Find `job_ID` and `step_STEP` below a directory of Slurm's."""
    below_slurm = False
    for name, child in pairwise([*path, ""]):
        job = name.removeprefix("job_")
        if below_slurm and job != name and job.isascii() and job.isdigit():
            step = child.removeprefix("step_")
            return clean(job, _NAME_LIMIT), clean(step, _NAME_LIMIT) if step != child else None
        below_slurm = below_slurm or "slurm" in name
    return None


def _unit(path: _Path) -> SafeText | None:
    """Find the innermost unit that was started, rather than the login that started it."""
    for name in reversed(path):
        if name.endswith((".service", ".scope")) and not re.fullmatch(_NO_JOB, name):
            return clean(name, _NAME_LIMIT)
    return None
