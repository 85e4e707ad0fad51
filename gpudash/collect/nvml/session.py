"""NVML opened, closed and opened anew, as the driver, its GPUs and the wish to look come and go."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from msgspec import Struct

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.bus import Bus
from gpudash.collect.nvml.calls import LOOK_AGAIN_MAX_SECONDS, RETRY_SECONDS
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.power_saving import SUSPENDED
from gpudash.collect.nvml.registry import Roster
from gpudash.collect.nvml.worker import DriverWorker, Task, timeout_fault
from gpudash.model.errors import DriverError
from gpudash.model.text import SafeText, clean


class Versions(Struct, frozen=True, kw_only=True):
    """The driver's versions, None where it does not tell."""

    driver_version: SafeText | None = None
    nvml_version: SafeText | None = None
    cuda_driver_version: str | None = None


def read_versions(library: Library) -> Versions:
    """Ask for all of them."""
    driver, _ = library.ask("nvmlSystemGetDriverVersion")
    nvml, _ = library.ask("nvmlSystemGetNVMLVersion")
    cuda, _ = library.ask("nvmlSystemGetCudaDriverVersion_v2")
    return Versions(
        driver_version=clean(driver) if driver else None,
        nvml_version=clean(nvml) if nvml else None,
        cuda_driver_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
    )


States = Mapping[str, str]
"""Runtime power status by PCI address."""


class Session:
    """Whether NVML is open, and for which GPUs; what opens or closes it is a task that may hang."""

    def __init__(self, library: Library, roster: Roster, bus: Bus, worker: DriverWorker) -> None:
        self.is_open = False
        self.openings = 0
        """How often it was opened."""
        self.versions = Versions()
        self.task: Task[None] | None = None
        """What is under way, or waits for a thread; meanwhile nothing else may be asked."""
        self._library = library
        self._roster = roster
        self._bus = bus
        self._worker = worker
        self._on_bus: tuple[str, ...] = ()
        self._load: int | None = None
        self._is_dead = False
        self._lookout = _Lookout()

    def attend(self, states: States, now: float, *, resting: bool, is_held: bool) -> bool:
        """Open or close NVML if that is due; False while that is not done.

        While `resting` it is closed; while a call `is_held` in the driver it stays as it is.
        Raises DriverError when NVML cannot be used at all.
        """
        before = self.task
        if before is not None and before.is_pending:
            return False
        if before is not None and before.is_done:
            self._take()
        if self._is_settled(states, now, resting=resting, is_held=is_held):
            self.task = None
            return True
        self.task = Task(lambda: self._follow(states, resting=resting), retry_of=before)
        self._worker.run([self.task], first=True)
        return self._take()

    def close(self) -> None:
        """Let go of the driver; raises DriverError if that is not done in time."""
        self.task = task = Task(self._close)
        self._worker.run([task], first=True)
        if not self._take():
            fault = timeout_fault(task, "the driver")
            hangs = "a call hangs in the driver, which keeps the GPUs"
            raise DriverError(
                fault.code or codes.TIMEOUT, hangs if task.is_pending else fault.message
            )

    def note_the_dead(self) -> None:
        """Open NVML anew in the next tick if no GPU knows of it: the driver was reloaded."""
        faults = [gpu.device.fault for gpu in self._roster.gpus]
        if faults and all(fault and fault.code == codes.UNINITIALIZED for fault in faults):
            self._is_dead = True

    def _take(self) -> bool:
        """Take note of the outcome; False while there is none."""
        task = self.task
        if task is None or not task.is_done:
            return False
        self.task = None
        task.result()
        return True

    def _is_settled(self, states: States, now: float, *, resting: bool, is_held: bool) -> bool:
        if not self.is_open:
            return resting
        if is_held:
            return True
        if resting or self._is_dead:
            return False
        if states:
            return tuple(states) == self._on_bus
        if self._lookout.is_due(now, is_needed=self._roster.misses_any):
            self._is_dead = True
        return not self._is_dead

    def _follow(self, states: States, *, resting: bool) -> None:
        """Open NVML, once more if the GPUs on the bus are others: it counts them when opened.

        While none is to be seen there, as in some containers, they are those of before.
        """
        on_bus = tuple(states)
        changed = bool(on_bus) and on_bus != self._on_bus
        if resting or changed or self._is_dead:
            self._close()
        if resting or self.is_open:
            return
        self._on_bus = on_bus
        if on_bus and all(state in SUSPENDED for state in states.values()):
            if changed:
                self._roster.arrange(on_bus)
            return
        self._library.open()
        self.is_open = True
        self.openings += 1
        self.versions = read_versions(self._library)
        try:
            self._roster.count(on_bus)
        except DriverError:
            self._close()
            raise
        load = self._bus.driver_load()
        if None not in (load, self._load) and load != self._load:
            self._roster.begin_anew()
        self._load = load

    def _close(self) -> None:
        if self.is_open:
            self._roster.close()
            self._library.close()
        self.is_open = self._is_dead = False


class _Lookout:
    """When to open NVML anew for a GPU that is gone, where no bus tells that it is back.

    That costs the other GPUs what two readings tell, so it is done ever more rarely.
    """

    def __init__(self) -> None:
        self._pause = RETRY_SECONDS
        self._due = inf

    def is_due(self, now: float, *, is_needed: bool) -> bool:
        """Whether it is time, and if so, count from now to the next one."""
        if not is_needed:
            self._pause, self._due = RETRY_SECONDS, inf
        elif self._due == inf:
            self._due = now + self._pause
        elif now >= self._due:
            self._pause = min(2 * self._pause, LOOK_AGAIN_MAX_SECONDS)
            self._due = now + self._pause
            return True
        return False
