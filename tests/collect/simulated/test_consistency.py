"""What must hold on every simulated card at every instant, as on real ones."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.collect.simulated import NAMES, SimulatedHost
from gpudash.collect.simulated.calls import field_values
from gpudash.collect.simulated.gpu import (
    REASON_IDLE,
    REASON_POWER_CAP,
    REASON_THERMAL,
    SimulatedGpu,
    boot_time,
)
from gpudash.collect.simulated.scenes import load

MIB = 1 << 20
NOW = 1_760_000_000.0

instants = st.floats(1e9, 4e9)
EVERY_GPU = [(name, index) for name in NAMES for index in range(len(load(name).cards)) if index < 8]


def gpus(now: float) -> Iterator[SimulatedGpu]:
    for name, index in EVERY_GPU:
        yield SimulatedGpu(load(name), index, lambda: now)


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_at_its_limit_at_all_times_or_never(name):
    for index in range(len(load(name).cards)):
        gpu = SimulatedGpu(load(name), index, lambda: NOW)
        seconds = [NOW + second for second in range(600)]
        assert len({gpu.watts(each, each + 1) >= gpu.power_limit for each in seconds}) == 1


@given(instants)
def test_what_a_card_reads_agrees_with_itself(now):
    for gpu in gpus(now):
        moment, board = gpu.moment, gpu.board
        assert 0 <= moment.busy == sum(moment.loads) <= 100
        assert 0 <= gpu.engine("bandwidth") <= 100
        for power in (moment.average_power, moment.instant_power):
            assert 0 < power <= gpu.power_limit * 1000
        assert gpu.card.inlet <= moment.temperature < board.thresholds[1]
        assert bool(moment.reasons & REASON_IDLE) == (moment.busy == 0)
        is_at_limit = moment.average_power >= gpu.power_limit * 1000
        assert bool(moment.reasons & REASON_POWER_CAP) == is_at_limit
        assert bool(moment.reasons & REASON_THERMAL) == (
            moment.busy > 0 and moment.temperature >= board.thresholds[3]
        )
        if moment.reasons == REASON_IDLE:
            assert moment.sm_clock == board.idle_clocks[1]
        elif moment.reasons:
            assert board.idle_clocks[1] < moment.sm_clock < board.boost_clock
        else:
            assert moment.sm_clock == board.boost_clock


ENERGY, PCIE, CAPPED = (83, 0), (198, 0), (74, 0)


@given(instants, st.floats(0.1, 1e5))
def test_counters_grow_from_boot_on(start, seconds):
    if boot_time(start) != boot_time(start + seconds):
        return
    before, after = ([counters(gpu) for gpu in gpus(at)] for at in (start, start + seconds))
    for one, other in zip(before, after, strict=True):
        assert all(0 <= early <= late for early, late in zip(one, other, strict=True))


def counters(gpu: SimulatedGpu) -> list[int]:
    return [v.value.sllVal or 0 for v in field_values(gpu, [ENERGY, PCIE, CAPPED])]


def test_energy_is_power_over_time():
    for name, index in EVERY_GPU:
        now = [NOW]
        gpu = SimulatedGpu(load(name), index, lambda now=now: now[0])
        first, powers = counters(gpu)[0], []
        for _ in range(600):
            now[0] += 1
            powers.append(gpu.moment.average_power)
        assert not first or counters(gpu)[0] - first == pytest.approx(sum(powers), rel=0.01)


@pytest.mark.parametrize(("name", "index"), EVERY_GPU)
def test_memory_adds_up(name, index):
    library = SimulatedHost(name, lambda: NOW).library
    library.nvmlInit()
    card = load(name).cards[index]
    if card.state == "lost":
        return
    handle = library.nvmlDeviceGetHandleByIndex(index)
    memory = library.nvmlDeviceGetMemoryInfo(handle, 2)
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
    for program in scene.programs:
        for index in program.gpus + program.holds:
            card = scene.cards[index]
            assert card.state == "ok"
            slots = {each.slot for each in card.slices} or {None}
            assert program.slot in slots


def test_instances_of_a_split_card_fit_into_it():
    card = load("mig").cards[0]
    assert sum(s.memory for s in card.slices) < card.board.memory - card.board.reserved
    assert sum(s.slices for s in card.slices) <= 7
