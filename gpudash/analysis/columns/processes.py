"""The columns of processes.

A percentage of GPUs is the mean over those that the process uses: 100 means all of them fully.
"""

from __future__ import annotations

from gpudash.analysis.health.levels import works_on_cpu
from gpudash.analysis.labels import command, owner, short_command
from gpudash.analysis.table import Column, ProcessRow, amount, number, word, work
from gpudash.model.state import Level
from gpudash.model.units import ABSENT, duration, mean_known, percent, short_size, sum_known

_MINUTE, _HOUR, _NOTABLE_IDLE = 60, 3600, 60


def idle_text(seconds: float | None) -> str:
    """Return how long memory has been held without GPU use, rounded to change rarely."""
    if seconds is None or seconds >= _HOUR:
        return duration(seconds)
    if seconds >= _MINUTE:
        return f"{seconds // _MINUTE:.0f}m"
    return "<10s" if 0 < seconds < 10 else f"{seconds // 10 * 10:.0f}s"


def _idle_level(row: ProcessRow) -> Level:
    is_notable = (row.process.idle_seconds or 0) >= _NOTABLE_IDLE and not works_on_cpu(row.process)
    return "warn" if is_notable else "unknown"


def _codecs(row: ProcessRow) -> tuple[float | None, float | None]:
    """Return the percentages of encoders and decoders, the means of its devices."""
    devices = row.process.devices
    return (
        mean_known(device.encoder_utilization_percent for device in devices),
        mean_known(device.decoder_utilization_percent for device in devices),
    )


def _uses_codecs(row: ProcessRow) -> bool:
    return any(
        device.encoder_utilization_percent or device.decoder_utilization_percent
        for device in row.process.devices
    )


def _codec(row: ProcessRow) -> str:
    known = _codecs(row)
    return ABSENT if known == (None, None) else "/".join(map(percent, known))


PERCENTAGES = "UTIL, MEM%, MEM-BW, ENC/DEC: mean of its GPUs, or MIG instances; CPU: 100% is a core"
"""The base of percentages of a process and of a user, for the help."""

# fmt: off
PROCESS_COLUMNS: tuple[Column[ProcessRow], ...] = (
    amount("pid", "PID", lambda row: row.process.pid, str, 10),
    word("user", "USER", lambda row: owner(row.process), 12, priority=1),
    Column(
        key="gpus",
        header="GPUS",
        text=lambda row: row.gpus,
        sort_key=lambda row: min((d.index for d in row.process.devices), default=-1),
        width=12,
        priority=1,
    ),
    word("type", "TYPE", lambda row: row.process.type, 5, priority=9),
    amount("gpu_memory", "GPU-MEM", lambda row: row.process.used_gpu_memory_bytes, short_size, 7),
    amount("gpu_memory_percent", "MEM%", lambda row: row.gpu_memory_percent, percent, 4,
        priority=8),
    amount("utilization", "UTIL", lambda row: row.process.sm_utilization_percent, percent, 4,
        priority=2, graded=work),
    amount("memory_bandwidth", "MEM-BW", lambda row: row.process.memory_utilization_percent,
        percent, 4, priority=10),
    Column(
        key="codec",
        header="ENC/DEC",
        text=_codec,
        sort_key=lambda row: number(sum_known(_codecs(row))),
        width=9,
        least=9,
        align=">",
        priority=11,
        worth=_uses_codecs,
    ),
    amount("cpu", "CPU", lambda row: row.process.cpu_percent, percent, 6, least=4, priority=5),
    amount("resident_memory", "RSS", lambda row: row.process.resident_memory_bytes, short_size, 5,
        priority=7),
    amount("time", "TIME", lambda row: row.age_seconds, duration, 6, priority=3, ticks=True),
    amount("idle", "IDLE", lambda row: row.process.idle_seconds, idle_text, 6, priority=4,
        level=_idle_level, ticks=True),
    # As long as that of a container in Kubernetes.
    word("job", "JOB", lambda row: None if row.process.job is None else row.process.job.label, 27,
        priority=6),
    Column(
        key="command",
        header="COMMAND",
        text=lambda row: row.branch + command(row.process),
        short=lambda row: row.branch + short_command(row.process),
        sort_key=lambda row: short_command(row.process),
        width=30,
        grows=True,
    ),
)
# fmt: on
