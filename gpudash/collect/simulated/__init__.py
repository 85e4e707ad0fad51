"""Made-up hosts that speak NVML's functions, so that the reader of real ones reads them too.

`gpudash --demo=NAME` shows one. Values move as on a working machine and are a pure function of
host and clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from gpudash.collect.nvml.bus import UNKNOWN, Identity
from gpudash.collect.simulated.host import SimulatedReader
from gpudash.collect.simulated.library import SimulatedLibrary
from gpudash.collect.simulated.scenes import SCENES, load

NAMES = tuple(SCENES)
"""Every simulated host, the default first."""


class SimulatedHost:
    """A host by name: its NVML, its PCI devices' power states and its operating system."""

    def __init__(self, name: str, clock: Callable[[], float] = time.time) -> None:
        """Raise UsageError that names the valid hosts if there is none of that name."""
        self._scene = load(name)
        self.library = SimulatedLibrary(self._scene, clock)
        self.reader = SimulatedReader(self._scene, clock)

    def identity(self, address: str) -> Identity:
        """Return name and UUID of the GPU at a PCI address, as known without waking it."""
        found = [gpu for gpu in self.library.gpus if gpu.card.pci_address == address]
        return Identity(found[0].board.name, found[0].uuid) if found else UNKNOWN

    def driver_load(self) -> None:
        """Return nothing: a simulated driver is loaded once."""

    def power_states(self) -> dict[str, str]:
        """Return the runtime power status of each GPU by PCI address; asking wakes nothing."""
        return {
            card.pci_address: "suspended" if card.state == "suspended" else "active"
            for card in self._scene.cards
        }
