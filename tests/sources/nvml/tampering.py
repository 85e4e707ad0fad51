"""A driver that misbehaves: a simulated host of whose functions some answer as the test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudash.sources.nvml import Library, NvmlReader, Reading
from gpudash.sources.simulated import SimulatedHost


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


class Machine:
    """A simulated host, its tampered driver and a clock that the test moves."""

    def __init__(self, name: str) -> None:
        self.now = 1_800_000_000.0
        self.host = SimulatedHost(name, clock=lambda: self.now)
        self.driver = Tampered(self.host.library)
        clock = self.host.clock
        self.reader = NvmlReader(Library(self.driver), self.host, clock, wall_clock=clock)

    def read(self, after: float = 1.0) -> Reading:
        """Read one tick, `after` seconds later."""
        self.now += after
        return self.reader.read()
