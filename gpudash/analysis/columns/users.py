"""The columns of the owners of processes.

A percentage of GPUs is the mean over those that they use, as for a process, and so is the bar of
their memory. Idle is memory of processes at 0 % UTIL, with the longest idle time.
"""

from __future__ import annotations

from gpudash.analysis.columns.processes import idle_text
from gpudash.analysis.table import Column, amount, waste, word
from gpudash.analysis.usage import User
from gpudash.model.units import ABSENT, counted, percent, ratio, short_size


def _jobs(user: User) -> str:
    return ", ".join(user.job_labels) or ABSENT


def _jobs_counted(user: User) -> str:
    return _jobs(user) if user.jobs < 2 else f"{user.jobs} jobs"


# fmt: off
USER_COLUMNS: tuple[Column[User], ...] = (
    word("user", "USER", lambda user: user.name, 20),
    amount("memory", "GPU-MEM", lambda user: user.memory_used_bytes, short_size, 7,
        share=lambda user: ratio(user.gpu_memory_percent, 100)),
    amount("memory_percent", "MEM%", lambda user: user.gpu_memory_percent, percent, 4, priority=1),
    amount("idle_memory", "IDLE-MEM", lambda user: user.idle_memory_bytes, short_size, 8,
        priority=2, graded=waste),
    amount("idle", "IDLE", lambda user: user.idle_seconds, idle_text, 6, priority=4,
        level=lambda user: waste(user.idle_memory_bytes)),
    Column(
        key="gpus",
        header="GPUS",
        text=lambda user: user.gpus,
        short=lambda user: counted(user.devices, "GPU"),
        sort_key=lambda user: user.devices,
        width=16,
        priority=1,
    ),
    amount("processes", "PROCS", lambda user: user.process_count, str, 5, priority=1),
    amount("utilization", "UTIL", lambda user: user.utilization_percent, percent, 4, priority=3),
    amount("cpu", "CPU", lambda user: user.cpu_percent, percent, 7, least=4, priority=5),
    amount("resident_memory", "RSS", lambda user: user.resident_memory_bytes, short_size, 5,
        priority=6),
    word("jobs", "JOBS", _jobs, 14, short=_jobs_counted, grows=True, priority=7),
)
# fmt: on
