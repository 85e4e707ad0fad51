"""The types by which simulated hosts are declared: boards, cards, programs and their shares.

Sizes are bytes, powers watts, clocks MHz, rates GB/s at full utilization. What is None or 0 of
a board's abilities is what its driver does not support.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gpudash.collect.simulated.signals import IDLE, Rhythm
from gpudash.model.process import Holder, Job, JobKind
from gpudash.model.text import clean

MIB = 1 << 20
GIB = 1 << 30
HOUR, DAY = 3600.0, 86400.0


class Thresholds(Struct, frozen=True, kw_only=True):
    """Degrees at which a board reacts; None where it has no such limit."""

    shutdown: int
    slowdown: int
    operating: int
    memory: int | None = None


class Clocks(Struct, frozen=True, kw_only=True):
    """Clocks in MHz: `boost` is what a busy and cool board runs at, `highest` what it allows."""

    boost: int
    highest: int
    memory: int
    video: int
    idle: int = 210
    idle_memory: int = 405
    idle_state: int = 8


class NvLink(Struct, frozen=True, kw_only=True):
    """Links of a board, all of them to NVSwitches; `version` in NVML's own numbering."""

    count: int
    version: int


class Board(Struct, frozen=True, kw_only=True):
    """A product: what every card of its kind has in common."""

    name: str
    architecture: int
    compute_capability: tuple[int, int]
    core_count: int
    multiprocessor_count: int
    device_id: int
    memory: int
    reserved: int
    bar1: int
    idle_power: float
    power_limit: float
    power_limits: tuple[float, float] | None
    thresholds: Thresholds
    clocks: Clocks
    heat: float
    pcie_generation: int
    vbios_version: str
    part_number: str | None = None
    idle_pcie_generation: int = 1
    has_serial: bool = False
    ecc: bool = False
    memory_sensor: bool = False
    energy_counter: bool = True
    margin: bool = False
    average_power: bool = True
    fans: int = 0
    lowest_fan: int = 30
    media: bool = True
    peer_access: bool = True
    mig_slots: int = 0
    gpm: bool = False
    nvlink: NvLink | None = None


class MigSlice(Struct, frozen=True, kw_only=True):
    """A MIG instance of a card; `slot` is its index among the possible ones."""

    slot: int
    profile: str
    gpu_instance: int
    compute_instance: int
    memory: int
    multiprocessor_count: int
    slices: int


class Xid(Struct, frozen=True, kw_only=True):
    """An XID error that a card reports `every` so many seconds."""

    code: int
    every: float


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
    mig: bool = False
    display: bool = False
    corrected_errors: int = 0
    remapped_rows: int = 0
    pcie_replays: int = 0
    xids: tuple[Xid, ...] = ()

    @property
    def pci_address(self) -> str:
        """The address as sysfs writes it: `0000:1a:00.0`."""
        return f"{self.domain:04x}:{self.bus:02x}:00.0"


class Share(Struct, frozen=True, kw_only=True):
    """What one program does on one card; ratios are of its utilization."""

    gpu: int
    memory: int
    rhythm: Rhythm = IDLE
    type: Literal["C", "G", "C+G", "M", "M+C"] = "C"
    intensity: float = 0.9
    bandwidth: float = 0.5
    encoder: float = 0.0
    decoder: float = 0.0
    pcie: float = 0.2
    nvlink: float = 0.0
    slot: int | None = None


class Program(Struct, frozen=True, kw_only=True):
    """A process of the host; a new one with the same PID follows it every `lifetime`."""

    pid: int
    username: str
    command_line: tuple[str, ...]
    shares: tuple[Share, ...]
    job: Job | None = None
    cpu_percent: float = 2.0
    resident_memory: int = 2 * GIB
    lifetime: float = DAY
    status: str = "sleeping"
    parent_pid: int = 1
    leases: tuple[int, ...] = ()


def job(*, kind: JobKind, **names: str) -> Job:
    """Return a job whose names are given as its fields."""
    return Job(kind=kind, **{field: clean(name) for field, name in names.items()})


class Scene(Struct, frozen=True, kw_only=True):
    """A whole host; `cpu_percent` is what its other programs use."""

    name: str
    hostname: str
    cards: tuple[Card, ...]
    programs: tuple[Program, ...] = ()
    driver_version: str = "580.95.05"
    cuda_version: int = 13000
    cpu_count: int = 32
    cpus_per_socket: int = 16
    memory: int = 128 * GIB
    memory_used: int = 18 * GIB
    swap: int = 0
    cpu_percent: float = 3.0
