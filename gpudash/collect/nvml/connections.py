"""The topology of the GPUs that can be asked, in step with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpudash.collect.nvml.gpu import Gpu
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.silence import excuse
from gpudash.collect.nvml.tasks import Task
from gpudash.collect.nvml.topology import read_topology
from gpudash.collect.nvml.worker import Crew
from gpudash.model.fault import Fault
from gpudash.model.snapshot import Topology
from gpudash.model.text import clean

_Known = tuple[str | None, int]
"""UUID of a GPU and how often its handle was asked for: after a reset its links may be others."""


class Connections:
    """How the GPUs are connected: read when one can be asked that could not, else only told.

    Of GPUs that are gone, asleep or silent nothing is told, for which nothing has to be asked.
    """

    def __init__(self, library: Library, crew: Crew) -> None:
        self.topology: Topology | None = None
        self._library = library
        self._crew = crew
        self._task: Task[Topology | None] | None = None
        self._asked_of: tuple[_Known, ...] = ()
        self._whole: Topology | None = None
        self._whole_of: tuple[_Known, ...] = ()
        self._told_of: tuple[_Known, ...] = ()

    @property
    def is_out(self) -> bool:
        """Whether a call has not come back."""
        return self._task is not None and self._task.is_out

    def refresh(self, gpus: Iterable[Gpu]) -> None:
        """Tell of those that can be asked now."""
        if self.is_out:
            return
        self._take()
        present = [gpu for gpu in gpus if gpu.is_readable]
        known = tuple((gpu.device.uuid, gpu.reader.openings) for gpu in present)
        if known == self._told_of and self._task is None:
            return
        if set(known) <= set(self._whole_of):
            self._task = None
        else:
            self._read(present, known)
        if self._task is None:
            self._tell(known)

    def faults(self) -> Iterator[Fault]:
        """Yield why the topology is not known."""
        if self._task is not None:
            fault = excuse(self._task, "it")
            message = clean(f"topology unknown: {fault.message}")
            yield Fault(source="topology", code=fault.code, message=message)

    def _read(self, present: list[Gpu], known: tuple[_Known, ...]) -> None:
        self._asked_of, self._told_of, self.topology = known, (), None
        pairs = [(gpu.device, gpu.reader.handle) for gpu in present]
        self._task = Task(lambda: read_topology(self._library, pairs), instead_of=self._task)
        self._crew.run([self._task], first=True)
        self._take()

    def _take(self) -> None:
        if self._task is not None and self._task.is_back:
            self._whole, self._whole_of = self._task.outcome(), self._asked_of
            self._task = None

    def _tell(self, known: tuple[_Known, ...]) -> None:
        self._told_of = known
        uuids = {uuid for uuid, _ in known if uuid is not None}
        self.topology = None if self._whole is None else self._whole.among(uuids)
