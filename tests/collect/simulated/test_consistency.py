"""What must hold on every simulated card at every instant, as on real ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.collect.simulated import NAMES, SimulatedHost
from gpudash.collect.simulated.gpu import Gpu, boot_time
from gpudash.collect.simulated.scenes import load

IDLE, POWER_CAP, THERMAL = 0x1, 0x4, 0x20
MIB = 1 << 20

instants = st.floats(1e9, 4e9)
seeds = st.integers(0, 2**32)
EVERY_GPU = [(name, index) for name in NAMES for index in range(len(load(name).cards)) if index < 8]


def gpus(seed: int) -> Iterator[Gpu]:
    for name, index in EVERY_GPU:
        yield Gpu(load(name), index, seed)


@pytest.mark.parametrize("name", NAMES)
def test_rhythms_of_one_card_fit_into_a_hundred_percent(name):
    for gpu in (Gpu(load(name), index, 0) for index in range(len(load(name).cards))):
        rhythms = [occupant.share.rhythm for occupant in gpu.occupants]
        assert all(0 <= r.lowest <= r.highest <= 100 for r in rhythms)
        active = [r.highest for r in rhythms if r.highest]
        jitter = 2 * len(active) if len(active) > 1 else 0
        assert sum(active) + jitter <= 100


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_either_capped_at_all_times_or_never(name):
    for gpu in (Gpu(load(name), index, 0) for index in range(len(load(name).cards))):
        most = sum(o.share.intensity * o.share.rhythm.highest for o in gpu.occupants)
        idle = gpu.board.idle_power
        demand = idle + (gpu.board.power_limit - idle) * most / 100
        assert gpu.is_capped == (demand >= gpu.power_limit)


@given(instants, seeds)
def test_power_stays_below_its_limit_and_above_nothing(now, seed):
    for gpu in gpus(seed):
        moment = gpu.at(now)
        for power in (moment.average_power, moment.instant_power):
            assert 0 < power <= gpu.power_limit * 1000


@given(instants, seeds)
def test_temperature_lies_between_inlet_and_slowdown(now, seed):
    for gpu in gpus(seed):
        assert gpu.card.inlet <= gpu.at(now).temperature < gpu.board.thresholds.slowdown


@given(instants, seeds)
def test_event_reasons_agree_with_utilization_power_heat_and_clocks(now, seed):
    for gpu in gpus(seed):
        moment, clocks = gpu.at(now), gpu.board.clocks
        assert bool(moment.reasons & IDLE) == (moment.gpu_utilization == 0)
        assert bool(moment.reasons & POWER_CAP) == (gpu.is_capped and moment.gpu_utilization > 0)
        if moment.reasons & THERMAL:
            assert moment.temperature >= gpu.board.thresholds.operating
        if moment.reasons == IDLE:
            assert moment.sm_clock == clocks.idle
            assert moment.performance_state == clocks.idle_state
        elif moment.reasons:
            assert clocks.idle < moment.sm_clock < clocks.boost
        else:
            assert moment.sm_clock == clocks.boost
            assert moment.performance_state == 0


@given(instants, seeds)
def test_utilization_is_the_sum_of_its_programs(now, seed):
    for gpu in gpus(seed):
        moment = gpu.at(now)
        assert moment.gpu_utilization == sum(moment.loads)
        assert 0 <= moment.memory_utilization <= 100


@given(instants, seeds, st.floats(0.1, 1e5))
def test_counters_grow_from_boot_on(start, seed, seconds):
    if boot_time(start) != boot_time(start + seconds):
        return
    for gpu in gpus(seed):
        assert 0 <= gpu.energy(start) < gpu.energy(start + seconds)
        assert 0 <= gpu.traffic(start, "pcie") <= gpu.traffic(start + seconds, "pcie")
        assert 0 <= gpu.capped_nanoseconds(start) <= gpu.capped_nanoseconds(start + seconds)


def test_energy_is_power_over_time():
    start = 1_760_000_000.0
    for gpu in gpus(7):
        powers = [gpu.at(start + second / 2).average_power for second in range(1200)]
        energy = gpu.energy(start + 600) - gpu.energy(start)
        assert energy == pytest.approx(600 * sum(powers) / len(powers), rel=0.01)


@pytest.mark.parametrize(("name", "index"), EVERY_GPU)
def test_memory_adds_up(name, index):
    library = SimulatedHost(name, lambda: 1_760_000_000.0).library
    library.nvmlInit()
    card = load(name).cards[index]
    if card.state == "lost":
        return
    handle = library.nvmlDeviceGetHandleByIndex(index)
    memory = library.nvmlDeviceGetMemoryInfo(handle, version=2)
    assert memory.used + memory.reserved + memory.free == memory.total
    assert min(memory.used, memory.reserved, memory.free) >= 0
    old = library.nvmlDeviceGetMemoryInfo(handle)
    assert (old.used, old.free) == (memory.used + memory.reserved, memory.free)
    processes = {
        process.pid: process.usedGpuMemory
        for kind in ("Compute", "Graphics", "MPSCompute")
        for process in getattr(library, f"nvmlDeviceGet{kind}RunningProcesses_v3")(handle)
    }
    unaccounted = memory.used - sum(processes.values()) - card.orphaned
    assert 3 * MIB * len(processes) <= unaccounted <= 8 * MIB * len(processes)


def test_orphaned_memory_belongs_to_no_listed_process():
    library = SimulatedHost("lost").library
    library.nvmlInit()
    handle = library.nvmlDeviceGetHandleByIndex(3)
    assert library.nvmlDeviceGetMemoryInfo(handle, 2).used == 5_324 * MIB
    assert library.nvmlDeviceGetComputeRunningProcesses_v3(handle) == []
    assert library.nvmlDeviceGetGraphicsRunningProcesses_v3(handle) == []
    assert library.nvmlDeviceGetUtilizationRates(handle).gpu == 0


@pytest.mark.parametrize("name", NAMES)
def test_pids_are_unique_and_name_cards_that_exist(name):
    scene = load(name)
    pids = [program.pid for program in scene.programs]
    assert len(pids) == len(set(pids))
    shares = [share for program in scene.programs for share in program.shares]
    for share in shares:
        card = scene.cards[share.gpu]
        assert card.state == "ok"
        slots = {place.slot for place in card.slices}
        assert (share.slot in slots) if card.mig else (share.slot is None)


def test_instances_of_a_split_card_fit_into_it():
    card = load("mig").cards[0]
    assert sum(s.memory for s in card.slices) < card.board.memory - card.board.reserved
    assert sum(s.slices for s in card.slices) <= card.board.mig_slots
