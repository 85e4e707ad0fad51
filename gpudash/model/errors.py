"""What can go wrong, and the exit status of each.

GpudashError
├── UsageError        invalid arguments                                   exit 2
├── DriverError       NVML cannot be used                                 exit NVML's number
├── WireError         a document is not a snapshot                        exit 65
├── ResourceError     out of processes, files or memory                   exit 71
├── OutputError       the output could not be written                     exit 74
├── FilterError       an invalid or incomplete filter of processes        exit 2
├── SettingsError     the settings could not be saved                     exit 1
└── ActionError       an action was not carried out                       exit 1

Every message is one line that says what failed and what to do about it.
"""

from __future__ import annotations

import errno
import os

_LIMITS = "ulimit -a shows the limits, a container may have lower ones"


class ExitStatus:
    """The exit statuses of gpudash: nvidia-smi's, which are NVML's return values, and sysexits."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NO_GPU = 6
    NO_ANSWER = 10
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    DATA = 65
    UNAVAILABLE = 69
    SYSTEM = 71
    OUTPUT = 74
    TOO_FEW_GPUS = 75
    HANGUP = 129
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143
    SSH = 255


MEANINGS: dict[int, str] = {
    ExitStatus.OK: "success",
    ExitStatus.FAILURE: "an action was declined or failed; with `--fail-on` a finding is that bad",
    ExitStatus.USAGE: "bad usage, or no terminal for the screen",
    4: "no permission to use the driver",
    ExitStatus.NO_GPU: "there is no GPU",
    9: "the driver is not loaded",
    ExitStatus.NO_ANSWER: "the driver or a GPU did not answer within `--timeout`; the values "
    "of other GPUs are complete; `record` got no sample",
    12: "libnvidia-ml.so.1 was not found",
    ExitStatus.GPU_IS_LOST: "one host: a GPU is lost; the output is still complete",
    ExitStatus.RESET_REQUIRED: "one host: a GPU needs a reset; the output is still complete",
    18: "driver and library versions differ",
    ExitStatus.DATA: "the input is not a document of gpudash",
    ExitStatus.UNAVAILABLE: "many hosts: a source does not answer at all; what others know is "
    "printed",
    ExitStatus.SYSTEM: "the system is out of processes, threads, files or memory",
    ExitStatus.OUTPUT: "the output could not be written",
    ExitStatus.TOO_FEW_GPUS: "`pick`, `wait` or `run` found too few GPUs",
    ExitStatus.HANGUP: "the terminal was closed",
    ExitStatus.INTERRUPTED: "ended by SIGINT, as by Ctrl-C; on the screen that key is `q`",
    ExitStatus.BROKEN_PIPE: "the reader closed the output",
    ExitStatus.TERMINATED: "ended by SIGTERM",
    ExitStatus.SSH: "ssh to the host of `--host` failed",
}
"""The meaning of each exit status; the others from 1 to 30, and 999 as 231, are NVML's too."""

NVML_REFUSED = frozenset({*range(3, 31), 999 % 256})
"""Statuses for when NVML refused to work: its return values."""


class GpudashError(Exception):
    """An error that users can do something about; its text is the line that is printed."""

    exit_status: int = ExitStatus.FAILURE


class UsageError(GpudashError):
    """Invalid arguments; the message names the valid ones."""

    exit_status = ExitStatus.USAGE


class DriverError(GpudashError):
    """NVML cannot be used at all; `code` is its return value (9 not loaded, 12 no library, ...)."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.exit_status = code


class WireError(GpudashError):
    """A document is not a snapshot; the message names the path of the first wrong value."""

    exit_status = ExitStatus.DATA


EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})
"""Kernel errors at the limits of files, processes or memory."""

_NO_THREAD = "can't start new thread"
"""Python's message when no thread can be started."""


def is_exhausted(error: Exception) -> bool:
    """Whether an error means that the system is out of files, processes, threads or memory."""
    if isinstance(error, OSError):
        return error.errno in EXHAUSTED
    return isinstance(error, MemoryError) or str(error) == _NO_THREAD


class ResourceError(GpudashError):
    """The system has no processes, threads, open files or memory left: see `is_exhausted`."""

    exit_status = ExitStatus.SYSTEM

    def __init__(self, error: Exception) -> None:
        number = errno.ENOMEM if isinstance(error, MemoryError) else errno.EAGAIN
        why = error.strerror if isinstance(error, OSError) else os.strerror(number)
        super().__init__(f"out of system resources: {why}; {_LIMITS}")


class OutputError(GpudashError):
    """The output could not be written (full disk, closed descriptor)."""

    exit_status = ExitStatus.OUTPUT


class FilterError(GpudashError):
    """An invalid filter of processes; its bad term is at `start` to `end`."""

    exit_status = ExitStatus.USAGE

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.start = start
        self.end = end


class SettingsError(GpudashError):
    """The settings could not be saved; the message names the file and the reason."""


class ActionError(GpudashError):
    """gpudash declined to act on a process, or the kernel did; the message is the reason."""
