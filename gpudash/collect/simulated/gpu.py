"""One simulated card as it is at any instant: a pure function of scene, seed and time.

Power follows the load of the card's programs up to its limit, temperature follows power with a
lag, clocks and their event reasons follow both, counters are integrals since boot.
"""

from __future__ import annotations

from math import floor
from typing import Literal

from msgspec import Struct

from gpudash.collect.simulated.scene import DAY, MIB, MigSlice, Program, Scene, Share
from gpudash.collect.simulated.signals import Signal, key, mix, unit, uuid, wobble

TICKS_PER_SECOND = 10
"""How often the sensors of a simulated card are read."""

IDLE, POWER_CAP, THERMAL = 0x1, 0x4, 0x20
"""The clock event reasons that occur here: nvmlClocksEventReason GpuIdle, SwPowerCap, SwThermal."""


class Moment(Struct, frozen=True):
    """What the sensors of a card read at one tick; percent, mW, degrees, MHz."""

    tick: int
    loads: tuple[int, ...]
    gpu_utilization: int
    memory_utilization: int
    encoder_utilization: int
    decoder_utilization: int
    average_power: int
    instant_power: int
    temperature: int
    reasons: int
    sm_clock: int
    memory_clock: int
    video_clock: int
    performance_state: int

    @property
    def timestamp(self) -> int:
        """When the sensors were read, Unix time in µs."""
        return self.tick * (1_000_000 // TICKS_PER_SECOND)


def blend(loads: tuple[int, ...], ratios: list[float]) -> int:
    """Return the percentage that loads add up to when each counts by its ratio."""
    total = sum(load_of(load, ratio) for load, ratio in zip(loads, ratios, strict=True))
    return min(100, total)


def load_of(load: int, ratio: float) -> int:
    """Return the percentage of an engine that a program of that load keeps busy."""
    return min(100, round(load * ratio))


MIN_UPTIME = 3 * DAY
_BETWEEN_BOOTS = 60 * DAY
_INIT = 1


def boot_time(now: float) -> float:
    """Return when the host booted, Unix time: from 3 up to 63 days ago."""
    return floor(now / _BETWEEN_BOOTS) * _BETWEEN_BOOTS - MIN_UPTIME


def start_time(program: Program, now: float) -> float:
    """Return when a program started, children of one parent within a second of each other."""
    is_child = program.parent_pid > _INIT
    lifetime = program.lifetime
    offset = round(lifetime * unit(program.parent_pid if is_child else program.pid), 2)
    delay = program.pid % 10 / 10
    return floor((now - offset) / lifetime) * lifetime + offset - delay


_LAG = 30.0
_JITTER = 1.4
_CLOCK_STEP = 15


class Occupant:
    """A program's share of one card, with its rhythm's phases fixed."""

    __slots__ = ("program", "share", "signal")

    def __init__(self, program: Program, share: Share, seed: int) -> None:
        self.program = program
        self.share = share
        self.signal = Signal(share.rhythm, seed)


class Instance:
    """A MIG instance of a card."""

    __slots__ = ("gpu", "slice", "uuid")

    def __init__(self, gpu: Gpu, mig: MigSlice) -> None:
        self.gpu = gpu
        self.slice = mig
        self.uuid = "MIG-" + uuid(gpu.identity, mig.gpu_instance, mig.compute_instance)


class Gpu:
    """A card of a scene with its occupants."""

    def __init__(self, scene: Scene, index: int, seed: int) -> None:
        self.scene = scene
        self.index = index
        self.card = scene.cards[index]
        self.board = self.card.board
        self.identity = mix(key(scene.name), index)
        self.uuid = "GPU-" + uuid(self.identity)
        self.instances = tuple(Instance(self, mig) for mig in self.card.slices)
        self.occupants = tuple(
            Occupant(program, share, mix(seed, self.identity, program.pid))
            for program in scene.programs
            for share in program.shares
            if share.gpu == index
        )
        self._seed = mix(seed, self.identity)
        self._moment: Moment | None = None

    @property
    def power_limit(self) -> float:
        """The limit in force, watts."""
        return self.card.power_limit or self.board.power_limit

    @property
    def is_capped(self) -> bool:
        """Whether its programs ask for more than the limit at all times."""
        return self._demand([o.share.rhythm.lowest for o in self.occupants]) >= self.power_limit

    @property
    def memory_used(self) -> int:
        """Allocated bytes: of its programs, a little for each context, and orphans."""
        held = sum(o.share.memory for o in self.occupants)
        contexts = sum(3 + o.program.pid % 5 for o in self.occupants) * MIB
        return held + contexts + self.card.orphaned

    def at(self, now: float) -> Moment:
        """Return what its sensors read at that time, the same for the whole of a tick."""
        tick = floor(now * TICKS_PER_SECOND)
        if self._moment is None or self._moment.tick != tick:
            self._moment = self._read(tick)
        return self._moment

    def energy(self, now: float) -> int:
        """Return millijoules since boot."""
        start = boot_time(now)
        if self.is_capped:
            return floor(self.power_limit * (now - start) * 1000)
        busy = sum(o.share.intensity * o.signal.integral(start, now) for o in self.occupants)
        idle = self.board.idle_power
        span = self.board.power_limit - idle
        return floor((idle * (now - start) + span * busy / 100) * 1000)

    def traffic(self, now: float, rate: Literal["pcie", "nvlink"]) -> float:
        """Return bytes moved over PCIe or NVLink since boot."""
        start = boot_time(now)
        total = 0.0
        for occupant in self.occupants:
            each: float = getattr(occupant.share, rate)
            total += each * occupant.signal.integral(start, now)
        return total * 1e7

    def capped_nanoseconds(self, now: float) -> int:
        """Return for how long the power limit has held the clocks since boot."""
        return floor((now - boot_time(now)) * 1e9) if self.is_capped else 0

    def _demand(self, loads: list[float]) -> float:
        """Return the watts that loads in percent, one per occupant, would draw without a limit."""
        work = sum(o.share.intensity * load for o, load in zip(self.occupants, loads, strict=True))
        return self.board.idle_power + (self.board.power_limit - self.board.idle_power) * work / 100

    def _loads(self, tick: int) -> tuple[int, ...]:
        now = tick / TICKS_PER_SECOND
        loads = []
        for occupant in self.occupants:
            load = occupant.signal.value(now)
            if occupant.share.rhythm.highest:
                load += _JITTER * wobble(self._seed, tick, occupant.program.pid)
            loads.append(min(100, max(0, round(load))))
        return tuple(loads)

    def _read(self, tick: int) -> Moment:
        now = tick / TICKS_PER_SECOND
        loads = self._loads(tick)
        shares = [o.share for o in self.occupants]
        demand = self._demand([o.signal.value(now) for o in self.occupants])
        average = min(demand, self.power_limit)
        instant = min(average * (1 + 0.012 * wobble(self._seed, tick, 1)), self.power_limit)
        temperature = self._temperature(now)
        busy = min(100, sum(loads))
        reasons = self._reasons(busy, demand, temperature)
        clocks = self.board.clocks
        return Moment(
            tick=tick,
            loads=loads,
            gpu_utilization=busy,
            memory_utilization=blend(loads, [s.bandwidth for s in shares]),
            encoder_utilization=blend(loads, [s.encoder for s in shares]),
            decoder_utilization=blend(loads, [s.decoder for s in shares]),
            average_power=round(average * 1000),
            instant_power=round(instant * 1000),
            temperature=temperature,
            reasons=reasons,
            sm_clock=self._sm_clock(tick, reasons),
            memory_clock=clocks.memory if busy else clocks.idle_memory,
            video_clock=clocks.video if busy else min(clocks.video, 2 * clocks.idle),
            performance_state=0 if busy else clocks.idle_state,
        )

    def _temperature(self, now: float) -> int:
        demand = self._demand([o.signal.integral(now - _LAG, now) / _LAG for o in self.occupants])
        return round(self.card.inlet + self.board.heat * min(demand, self.power_limit))

    def _reasons(self, busy: int, demand: float, temperature: int) -> int:
        if not busy:
            return IDLE
        power = POWER_CAP if demand >= self.power_limit else 0
        hot = temperature >= self.board.thresholds.operating
        return power | (THERMAL if hot else 0)

    def _sm_clock(self, tick: int, reasons: int) -> int:
        clocks = self.board.clocks
        if reasons & IDLE:
            return clocks.idle
        if not reasons:
            return clocks.boost
        held = clocks.boost * (0.8 if reasons & POWER_CAP else 0.9)
        steps = round(held / _CLOCK_STEP + 3 * wobble(self._seed, tick, 2))
        return steps * _CLOCK_STEP
