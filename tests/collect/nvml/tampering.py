"""A driver that misbehaves: a simulated host of whose functions some answer as the test says."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from gpudash.collect.nvml import calls, codes
from gpudash.collect.nvml.bus import Identity, IdlePolicy
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.reader import NvmlReader, NvmlSample
from gpudash.collect.nvml.worker import DriverWorker
from gpudash.collect.simulated import SimulatedHost
from gpudash.model.device import Device


class Tampered:
    """A simulated host's library with some functions replaced, and a count of what was asked."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self.replaced: dict[str, Callable[..., Any]] = {}
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        answer = self.replaced.get(name) or getattr(self._module, name)
        if not name.startswith("nvml") or not callable(answer):
            return answer

        def counted(*arguments: Any) -> Any:
            self.asked.append(name)
            return (self.replaced.get(name) or getattr(self._module, name))(*arguments)

        return counted

    def error(self, code: int) -> Callable[..., Any]:
        """Return a function that raises an NVML error."""

        def fail(*_: Any) -> Any:
            raise self._module.NVMLError(code)

        return fail


class System:
    """Starts so many threads and no more."""

    def __init__(self, threads: int) -> None:
        self.left = threads

    def start(self, function: Callable[[], None]) -> None:
        """Start one if there is one left; raises RuntimeError, as Python does."""
        if not self.left:
            raise RuntimeError("can't start new thread")
        self.left -= 1
        threading.Thread(target=function, daemon=True).start()


class Machine:
    """A simulated host, its tampered driver and a clock that the test moves."""

    def __init__(
        self,
        name: str,
        worker: DriverWorker | None = None,
        handed_over: dict[str, Device] | None = None,
        with_topology: bool = True,
    ) -> None:
        self._worker = worker
        self._with_topology = with_topology
        self._handed_over = handed_over
        self.now = 1_800_000_000.0
        self.wall_seconds_ahead = 0.0
        self.load: int | None = None
        self.seconds_in_calls = 0.0
        """How long all calls so far took; one that is to be slow adds to it."""
        self.host = SimulatedHost(name, clock=lambda: self.now)
        self.driver = Tampered(self.host.library)
        self.reader = self._reader()

    def read(self, after: float = 1.0) -> NvmlSample:
        """Read one tick, `after` seconds later."""
        self.now += after
        return self.reader.read()

    def device_after(self, ticks: int) -> Device:
        """Read so many ticks; return the first GPU in the last of them."""
        return [self.read() for _ in range(ticks)][-1].devices[0]

    def refuse_fields(self, *numbers: int) -> None:
        """Let the driver know no field of these numbers."""

        def refuse(entry: Any) -> None:
            if entry.fieldId in numbers:
                entry.nvmlReturn = codes.NOT_SUPPORTED

        self.change_fields(refuse)

    def change_fields(self, change: Callable[[Any], object] = lambda _: None) -> list[list[int]]:
        """Let a test change each entry of the batches of field values; the ids of each batch."""
        asked: list[list[int]] = []
        genuine = self.host.library.nvmlDeviceGetFieldValues

        def answer(handle: Any, ids: Any) -> Any:
            asked.append([number for number, _ in ids])
            entries = genuine(handle, ids)
            for entry in entries:
                change(entry)
            return entries

        self.driver.replaced["nvmlDeviceGetFieldValues"] = answer
        return asked

    def forget_memory_versions(self) -> None:
        """Let the driver be an old one, which knows only the first version of its memory."""
        genuine = self.host.library.nvmlDeviceGetMemoryInfo

        def first_version(handle: object, *version: int) -> object:
            return self.driver.error(codes.FUNCTION_NOT_FOUND)() if version else genuine(handle)

        self.driver.replaced["nvmlDeviceGetMemoryInfo"] = first_version

    def fail(self, code: int) -> set[str]:
        """Let all calls of a tick fail; return their names."""
        read = (each for reading in calls.FAST for each in (reading, reading.fallback))
        names = {each.name for each in read if each is not None}
        self.driver.replaced.update(dict.fromkeys(names, self.driver.error(code)))
        return names

    def power_states(self) -> dict[str, str]:
        """Return what the kernel shows at this moment."""
        return self.host.power_states()

    def identity(self, address: str) -> Identity:
        return self.host.identity(address)

    def driver_load(self) -> int | None:
        """Return which load of the driver this is."""
        return self.load

    def _reader(self, rest: IdlePolicy | None = None) -> NvmlReader:
        library = Library(self.driver, stopwatch=lambda: self.seconds_in_calls)
        return NvmlReader(
            library,
            self,
            lambda: self.now,
            lambda: self.now + self.wall_seconds_ahead,
            self._worker,
            rest,
            self._handed_over,
            with_topology=self._with_topology,
        )


class HotplugMachine(Machine):
    """A host whose GPUs, by their numbers in it, are unplugged and plugged in by the test.

    Like the driver's, its NVML counts and numbers them when it is initialised.
    """

    def __init__(
        self,
        name: str,
        unplugged: Iterable[int] = (),
        hidden_from_nvml: Iterable[int] = (),
        bus_is_visible: bool = True,
    ) -> None:
        super().__init__(name)
        self._rates = self.host.library.nvmlDeviceGetUtilizationRates
        self.unplugged = set(unplugged)
        self._gone: set[int] = set()
        self._hidden = frozenset(hidden_from_nvml)
        self._bus_is_visible = bus_is_visible
        self._present: list[int] = []
        by_index = self.host.library.nvmlDeviceGetHandleByIndex
        self.driver.replaced.update(
            nvmlInitWithFlags=self._init,
            nvmlDeviceGetCount=lambda: len(self._present),
            nvmlDeviceGetHandleByIndex=lambda index: by_index(self._there(self._present[index])),
            nvmlDeviceGetUtilizationRates=self._utilization,
        )

    def power_states(self) -> dict[str, str]:
        states = enumerate(self.host.power_states().items())
        present = {a: state for n, (a, state) in states if n not in self.unplugged}
        return present if self._bus_is_visible else {}

    def _utilization(self, handle: Any) -> Any:
        self._there(handle.index)
        return self._rates(handle)

    def _there(self, number: int) -> int:
        """Return the number of a GPU; one that was unplugged is lost until the next init."""
        if number in self._gone:
            self.driver.error(codes.GPU_IS_LOST)()
        return number

    def unplug(self, *numbers: int) -> None:
        self.unplugged = set(numbers)
        self._gone |= self.unplugged

    def _init(self, flags: int) -> None:
        self._gone = set(self.unplugged)
        hidden = self._hidden | self.unplugged
        self._present = [n for n in range(len(self.host.power_states())) if n not in hidden]
        self.host.library.nvmlInitWithFlags(flags)
