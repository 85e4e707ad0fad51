"""CPU time and memory of a running process and all that it started."""

import time
from pathlib import Path

MIB = 1 << 20


class ProcessTree:
    """A process and its descendants; those that ended count by what was last seen of them."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seconds: dict[int, float] = {}

    def cpu_seconds(self) -> float:
        """CPU time so far, threads that ended included, to the nanosecond."""
        for pid in self.pids():
            if (seconds := _cpu_seconds(pid)) is not None:
                self._seconds[pid] = seconds
        return sum(self._seconds.values())

    def resident_mib(self) -> list[float]:
        """Resident memory of each that is alive, the root first; shared pages count in each."""
        return [_resident_bytes(pid) / MIB for pid in self.pids()]

    def pids(self) -> list[int]:
        """The processes alive, the root first."""
        found: list[int] = []
        waiting = [self._pid]
        while waiting:
            pid = waiting.pop()
            found.append(pid)
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                waiting += [int(child) for child in _read(children).split()]
        return found


def _cpu_seconds(pid: int) -> float | None:
    """Read the CPU clock of another process (clock_getcpuclockid: ~pid << 3 | 2)."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2) / 1e9
    except OSError:
        return None


def _resident_bytes(pid: int) -> int:
    for line in _read(Path(f"/proc/{pid}/status")).splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
