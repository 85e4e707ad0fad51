"""The columns of the owners of processes.

A percentage of GPUs is the mean of those that they use, as that of a process is, and so is the bar
of their memory. Idle is memory that processes hold at 0 % UTIL, and for how long the longest
has.
"""

from __future__ import annotations

from gpudash.analysis.columns.processes import idle_text
from gpudash.analysis.table import Column, number
from gpudash.analysis.usage import User
from gpudash.model.state import Level
from gpudash.model.units import ABSENT, counted, percent, short_size


def _idle_level(user: User) -> Level:
    return "unknown" if not user.idle_memory_bytes else "warn"


def _memory_share(user: User) -> float | None:
    return None if user.gpu_memory_percent is None else user.gpu_memory_percent / 100


def _jobs(user: User) -> str:
    return ", ".join(user.job_labels) or ABSENT


def _jobs_counted(user: User) -> str:
    return _jobs(user) if user.jobs < 2 else f"{user.jobs} jobs"


USER_COLUMNS: tuple[Column[User], ...] = (
    Column(
        key="user",
        header="USER",
        text=lambda user: user.name or ABSENT,
        sort_key=lambda user: user.name or "",
        width=20,
    ),
    Column(
        key="memory",
        header="GPU-MEM",
        text=lambda user: short_size(user.memory_used_bytes),
        sort_key=lambda user: number(user.memory_used_bytes),
        width=7,
        align=">",
        share=_memory_share,
    ),
    Column(
        key="memory_percent",
        header="MEM%",
        text=lambda user: percent(user.gpu_memory_percent),
        sort_key=lambda user: number(user.gpu_memory_percent),
        width=4,
        align=">",
        priority=1,
    ),
    Column(
        key="idle_memory",
        header="IDLE-MEM",
        text=lambda user: short_size(user.idle_memory_bytes),
        sort_key=lambda user: number(user.idle_memory_bytes),
        width=8,
        align=">",
        priority=2,
        level=_idle_level,
    ),
    Column(
        key="idle",
        header="IDLE",
        text=lambda user: idle_text(user.idle_seconds),
        sort_key=lambda user: number(user.idle_seconds),
        width=6,
        align=">",
        priority=4,
        level=_idle_level,
    ),
    Column(
        key="gpus",
        header="GPUS",
        text=lambda user: user.gpus,
        short=lambda user: counted(user.devices, "GPU"),
        sort_key=lambda user: user.devices,
        width=16,
        priority=1,
    ),
    Column(
        key="processes",
        header="PROCS",
        text=lambda user: str(user.process_count),
        sort_key=lambda user: user.process_count,
        width=5,
        align=">",
        priority=1,
    ),
    Column(
        key="utilization",
        header="UTIL",
        text=lambda user: percent(user.utilization_percent),
        sort_key=lambda user: number(user.utilization_percent),
        width=4,
        align=">",
        priority=3,
    ),
    Column(
        key="cpu",
        header="CPU",
        text=lambda user: percent(user.cpu_percent),
        sort_key=lambda user: number(user.cpu_percent),
        width=7,
        least=4,
        align=">",
        priority=5,
    ),
    Column(
        key="resident_memory",
        header="RSS",
        text=lambda user: short_size(user.resident_memory_bytes),
        sort_key=lambda user: number(user.resident_memory_bytes),
        width=5,
        align=">",
        priority=6,
    ),
    Column(
        key="jobs",
        header="JOBS",
        text=_jobs,
        short=_jobs_counted,
        sort_key=_jobs,
        width=14,
        grows=True,
        priority=7,
    ),
)
