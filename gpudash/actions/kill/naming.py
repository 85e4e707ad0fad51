"""What a process is called in questions, outcomes and records."""

from __future__ import annotations

from msgspec.structs import replace

from gpudash.analysis.labels import command
from gpudash.model.process import Process
from gpudash.model.secrets import mask_arguments


def named(process: Process) -> str:
    """Return PID and owner: `4242 (alice)`."""
    return f"{process.pid} ({process.username})" if process.username else str(process.pid)


def masked_command(process: Process) -> str:
    """Return the command line without secrets; what is read from /proc here still holds them."""
    line = process.command_line
    return command(replace(process, command_line=mask_arguments(line)) if line else process)
