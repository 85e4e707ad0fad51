"""The types that declare simulated hosts: boards, cards and programs.

Sizes are bytes, powers watts, clocks MHz, rates GB/s at full utilization. A board's values that are
None or 0 are not supported by its driver.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

from gpudash.collect.simulated.signals import IDLE, Rhythm
from gpudash.model.process import Holder, Job, JobKind
from gpudash.model.text import clean

MIB, GIB = 1 << 20, 1 << 30
PASCAL, AMPERE, ADA, HOPPER = 4, 7, 8, 9
"""NVML's numbers of architectures."""


class Board(Struct, frozen=True, kw_only=True):
    """A product: the common properties of all cards of its kind."""

    name: str
    architecture: int
    compute_capability: tuple[int, int]
    core_count: int
    device_id: int
    memory: int
    reserved: int
    bar1: int
    idle_power: float
    power_limit: float
    power_limits: tuple[float, float] | None
    thresholds: tuple[int, int, int | None, int]
    """Degrees in NVML's order: shutdown, slowdown, highest of the memory, highest of the GPU."""
    boost_clock: int
    """The clock of a busy, cool board."""
    max_clocks: tuple[int, int, int, int]
    idle_clocks: tuple[int, int, int, int] = (210, 210, 405, 420)
    """In NVML's order: graphics, SM, memory, video."""
    heat: float
    """Degrees per watt."""
    pcie_generation: int
    vbios_version: str
    part_number: str | None = None
    """None for a consumer board, which has no serial number and no ECC either."""
    has_hbm: bool = False
    """Whether it has a sensor in its memory and MIG, and never lowers its performance state."""
    fans: int = 0
    min_fan: int = 30
    nvlinks: int = 0
    """Links, all to NVSwitches."""

    @property
    def is_modern(self) -> bool:
        """Whether it counts energy and has engines for JPEG and optical flow."""
        return self.architecture > PASCAL

    @property
    def averages_power(self) -> bool:
        """Whether power is averaged over a second: since Ampere, but not on GA100."""
        return self.compute_capability > (8, 0)

    @property
    def has_margin(self) -> bool:
        """Whether thresholds are also reported as margins below the slowdown temperature."""
        return self.architecture >= ADA

    @property
    def has_gpm(self) -> bool:
        """Whether it has GPU performance monitoring."""
        return self.architecture >= HOPPER

    @property
    def refuses_peers(self) -> bool:
        """Whether its driver forbids access between GPUs over PCIe."""
        return self.architecture >= ADA and self.part_number is None


class MigSlice(NamedTuple):
    """A MIG instance of a card; `slot` is its index among the possible ones."""

    slot: int
    profile: str
    gpu_instance: int
    memory: int
    multiprocessor_count: int
    slices: int


class Card(Struct, frozen=True, kw_only=True):
    """A board in a slot; links follow from `location`: (socket, root complex, PCIe switch)."""

    board: Board
    bus: int
    domain: int = 0
    location: tuple[int, int, int] = (0, 0, 0)
    state: Literal["ok", "lost", "suspended"] = "ok"
    inlet: float = 26.0
    power_limit: float | None = None
    orphaned: int = 0
    holders: tuple[Holder, ...] = ()
    slices: tuple[MigSlice, ...] = ()
    display: bool = False
    corrected_errors: int = 0
    remapped_rows: int = 0
    pcie_replays: int = 0
    xid: int | None = None
    """An XID that it reports every quarter of an hour."""

    @property
    def pci_address(self) -> str:
        """The address as sysfs writes it: `0000:1a:00.0`."""
        return f"{self.domain:04x}:{self.bus:02x}:00.0"


class Program(Struct, frozen=True, kw_only=True):
    """A process of the host, and its work on each of its GPUs; ratios are of its load."""

    pid: int
    username: str
    command: str
    gpus: tuple[int, ...]
    """The GPUs on which it works."""
    holds: tuple[int, ...] = ()
    """The GPUs on which it has the same memory without working."""
    memory: int
    load: Rhythm = IDLE
    type: Literal["C", "G", "C+G", "M", "M+C"] = "C"
    intensity: float = 0.9
    bandwidth: float = 0.5
    tensor: float = 0.52
    encoder: float = 0.0
    decoder: float = 0.0
    pcie: float = 0.2
    nvlink: float = 0.0
    slot: int | None = None
    job: Job | None = None
    cpu_percent: float = 2.0
    resident_memory: int = 2 * GIB
    parent_pid: int = 1
    leases: tuple[int, ...] = ()


def job(kind: JobKind, id: str, **names: str) -> Job:
    """Return a job with these names as its fields."""
    return Job(kind=kind, id=clean(id), **{field: clean(name) for field, name in names.items()})


class Scene(Struct, frozen=True, kw_only=True):
    """A whole host; `cpu_percent` is the load of its other programs."""

    name: str
    hostname: str
    cards: tuple[Card, ...]
    programs: tuple[Program, ...] = ()
    driver_version: str = "580.95.05"
    cuda_version: int = 13000
    cpu_count: int = 32
    sockets: int = 1
    memory: int = 128 * GIB
    memory_used: int = 18 * GIB
    swap: int = 0
    cpu_percent: float = 3.0
