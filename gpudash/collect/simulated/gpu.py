"""One simulated card as it is at any instant: a pure function of scene and time.

Power follows the load of the card's programs up to its limit, temperature follows power with a
lag, clocks and their event reasons follow both, counters are sums since boot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from msgspec import Struct

from gpudash.collect.simulated.scene import MIB, MigSlice, Program, Scene
from gpudash.collect.simulated.signals import IDLE, Course, key, mix, unit, uuid, wave

REASON_IDLE, REASON_POWER_CAP, REASON_THERMAL = 0x1, 0x4, 0x20
"""The clock event reasons that occur here: nvmlClocksEventReason GpuIdle, SwPowerCap, SwThermal."""

_HOUR = 3600.0
_BETWEEN_BOOTS = 144 * _HOUR
_MIN_UPTIME = 72 * _HOUR
_INIT = 1
_LAG = 30
"""Seconds over which temperature follows power."""
_CLOCK_STEP = 15


def boot_time(now: float) -> float:
    """Return when the host booted, Unix time: from 3 up to 9 days ago."""
    return now // _BETWEEN_BOOTS * _BETWEEN_BOOTS - _MIN_UPTIME


def start_time(program: Program, now: float) -> float:
    """Return when a program started, children of one parent within a second of each other."""
    family = program.pid if program.parent_pid == _INIT else program.parent_pid
    after_boot = (_MIN_UPTIME - _HOUR) * unit(family) + 1 - program.pid % 10 / 10
    return round(boot_time(now) + after_boot, 2)


Ratio = Literal["intensity", "bandwidth", "tensor", "encoder", "decoder", "pcie", "nvlink"]
"""Other activities of a program, by its fields that are ratios of its load."""


class Moment(Struct, frozen=True):
    """What the sensors of a card read in one second; percent, mW, degrees, MHz."""

    second: int
    loads: tuple[int, ...]
    busy: int
    average_power: int
    instant_power: int
    temperature: int
    reasons: int
    sm_clock: int


class Occupant(NamedTuple):
    """A program on one card, with its load there."""

    program: Program
    signal: Course


class Instance:
    """A MIG instance of a card."""

    def __init__(self, gpu: SimulatedGpu, mig: MigSlice) -> None:
        self.gpu = gpu
        self.slice = mig
        self.uuid = "MIG-" + uuid(gpu.identity, mig.gpu_instance, 0)


class SimulatedGpu:
    """A card of a scene with its occupants."""

    def __init__(self, scene: Scene, index: int, clock: Callable[[], float]) -> None:
        self.scene = scene
        self.index = index
        self.card = scene.cards[index]
        self.board = self.card.board
        self.power_limit = self.card.power_limit or self.board.power_limit
        self.identity = mix(key(scene.name), index)
        self.uuid = "GPU-" + uuid(self.identity)
        self.instances = tuple(Instance(self, mig) for mig in self.card.slices)
        self.occupants = tuple(
            Occupant(
                program,
                Course(program.load if index in program.gpus else IDLE, mix(index, program.pid)),
            )
            for program in scene.programs
            if index in program.gpus or index in program.holds
        )
        self._clock = clock
        self._moment: Moment | None = None

    @property
    def gpu(self) -> SimulatedGpu:
        """The whole GPU, as of an instance."""
        return self

    @property
    def now(self) -> float:
        """The time, Unix seconds."""
        return self._clock()

    @property
    def moment(self) -> Moment:
        """What its sensors read now."""
        second = int(self.now)
        if self._moment is None or self._moment.second != second:
            self._moment = self.at(second)
        return self._moment

    def memory_used(self, slot: int | None = None) -> int:
        """Return the bytes of its programs or those in a slot, and a little for each context."""
        programs = [o.program for o in self.occupants if slot in (None, o.program.slot)]
        return sum(program.memory + (3 + program.pid % 5) * MIB for program in programs)

    def load(self, start: float, end: float, ratio: Ratio | None = None) -> float:
        """Return the mean utilization between two instants, or a ratio of it, percent."""
        parts = [
            signal.total(start, end) * (getattr(program, ratio) if ratio else 1.0)
            for program, signal in self.occupants
        ]
        return sum(parts) / (end - start)

    def watts(self, start: float, end: float) -> float:
        """Return the mean power between two instants; a card is always at its limit or never."""
        span = self.board.power_limit - self.board.idle_power
        power = self.board.idle_power + span * self.load(start, end, "intensity") / 100
        return min(self.power_limit, power)

    def traffic(self, rate: Ratio, start: float, end: float) -> float:
        """Return the bytes moved over PCIe or NVLink between two instants."""
        return self.load(start, end, rate) * (end - start) * 1e7

    def engine(self, ratio: Ratio) -> int:
        """Return how busy memory or a video engine is, percent."""
        ratios: list[float] = [getattr(o.program, ratio) for o in self.occupants]
        loads = zip(self.moment.loads, ratios, strict=True)
        return min(100, sum(round(load * each) for load, each in loads))

    def at(self, second: int) -> Moment:
        """Return the sensors' readings in a second, Unix time."""
        loads = tuple(round(o.signal.total(second, second + 1)) for o in self.occupants)
        power = self.watts(second, second + 1)
        warmth = self.board.heat * self.watts(second - _LAG, second)
        temperature = round(self.card.inlet + warmth)
        noise = wave(second + self.index)
        reasons = 0 if any(loads) else REASON_IDLE
        if any(loads) and power >= self.power_limit:
            reasons |= REASON_POWER_CAP
        if any(loads) and temperature >= self.board.thresholds[3]:
            reasons |= REASON_THERMAL
        return Moment(
            second=second,
            loads=loads,
            busy=sum(loads),
            average_power=round(self.watts(second - 1, second) * 1000),
            instant_power=round(1000 * min(self.power_limit, power * (1 + 0.012 * noise))),
            temperature=temperature,
            reasons=reasons,
            sm_clock=self._sm_clock(reasons, noise),
        )

    def _sm_clock(self, reasons: int, noise: float) -> int:
        if reasons & REASON_IDLE:
            return self.board.idle_clocks[1]
        if not reasons:
            return self.board.boost_clock
        held = self.board.boost_clock * (0.8 if reasons & REASON_POWER_CAP else 0.9)
        return round(held / _CLOCK_STEP + 3 * noise) * _CLOCK_STEP
