from collections.abc import Callable

import pynvml
import pytest

from gpudash.collect.simulated import SimulatedHost
from gpudash.collect.simulated.calls import GPU_CALLS, INSTANCE_CALLS
from gpudash.collect.simulated.gpu import REASON_POWER_CAP, REASON_THERMAL

NOW = 1_760_000_000.0
NOT_SUPPORTED, INVALID_ARGUMENT, NOT_FOUND, LOST, UNINITIALIZED = 3, 2, 6, 15, 1
ALL_LINKS = 0xFFFFFFFF


def library_of(name: str, clock: Callable[[], float] = lambda: NOW):
    library = SimulatedHost(name, clock).library
    library.nvmlInitWithFlags(library.NVML_INIT_FLAG_NO_GPUS)
    return library


def code_of(library, name: str, *arguments) -> int:
    with pytest.raises(library.NVMLError) as caught:
        getattr(library, name)(*arguments)
    return caught.value.value


def fields(library, handle, *ids):
    return [
        None if v.nvmlReturn else v.value.sllVal
        for v in library.nvmlDeviceGetFieldValues(handle, list(ids))
    ]


def test_nothing_answers_before_initialization_or_after_shutdown():
    library = SimulatedHost("single").library
    assert code_of(library, "nvmlDeviceGetCount") == UNINITIALIZED
    library.nvmlInit()
    assert library.nvmlDeviceGetCount() == 1
    library.nvmlShutdown()
    assert code_of(library, "nvmlDeviceGetCount") == UNINITIALIZED


def test_handle_is_dead_after_a_new_initialization():
    library = library_of("single")
    handle = library.nvmlDeviceGetHandleByIndex(0)
    library.nvmlShutdown()
    library.nvmlInit()
    assert code_of(library, "nvmlDeviceGetName", handle) == INVALID_ARGUMENT


@pytest.mark.parametrize("name", ["nvmlDeviceGetNoSuchThing", "nvmlDeviceGetAccountingStats"])
def test_call_that_is_not_reported_is_not_supported(name):
    library = library_of("single")
    assert code_of(library, name, library.nvmlDeviceGetHandleByIndex(0)) == NOT_SUPPORTED


def test_every_call_that_is_simulated_is_one_of_nvmls():
    assert [name for name in (*GPU_CALLS, *INSTANCE_CALLS) if not hasattr(pynvml, name)] == []


def test_name_that_is_no_call_is_no_attribute():
    assert not hasattr(library_of("single"), "_nvmlGetFunctionPointer")


def test_gpu_past_the_last_is_an_invalid_argument():
    assert code_of(library_of("single"), "nvmlDeviceGetHandleByIndex", 1) == INVALID_ARGUMENT


def test_lost_gpu_is_counted_but_its_handle_is_not_given():
    library = library_of("lost")
    assert library.nvmlDeviceGetCount() == 4
    assert code_of(library, "nvmlDeviceGetHandleByIndex", 2) == LOST
    assert library.nvmlDeviceGetName(library.nvmlDeviceGetHandleByIndex(3)) == "NVIDIA RTX A6000"


def test_consumer_pascal_lacks_what_it_lacks():
    library = library_of("pcie-1080ti")
    handle = library.nvmlDeviceGetHandleByIndex(0)
    for name in ("Serial", "EccMode", "RemappedRows", "MigMode"):
        assert code_of(library, f"nvmlDeviceGet{name}", handle) == NOT_SUPPORTED
    assert fields(library, handle, (82, 0)) == [None]
    assert library.nvmlDeviceGetFanSpeed(handle) >= 23
    assert code_of(library, "nvmlDeviceGetNvLinkState", handle, 0) == NOT_SUPPORTED


def test_one_process_holds_eight_cards_and_works_on_one():
    library = library_of("pcie-1080ti")
    handles = [library.nvmlDeviceGetHandleByIndex(index) for index in range(8)]
    lists = [library.nvmlDeviceGetComputeRunningProcesses_v3(handle) for handle in handles]
    assert [[process.pid for process in entry] for entry in lists] == [[20_817]] * 8
    assert all(entry[0].usedGpuMemory == 10_854 << 20 for entry in lists)
    busy = [library.nvmlDeviceGetUtilizationRates(handle).gpu for handle in handles]
    assert busy[0] > 0
    assert busy[1:] == [0] * 7


def test_islands_meet_only_across_the_sockets():
    library = library_of("pcie-1080ti")
    handles = [library.nvmlDeviceGetHandleByIndex(index) for index in range(8)]
    levels = [library.nvmlDeviceGetTopologyCommonAncestor(handles[0], h) for h in handles]
    assert levels == [0, 10, 20, 20, 50, 50, 50, 50]
    peers = [library.nvmlDeviceGetP2PStatus(handles[0], h, 0) for h in handles]
    assert peers == [0, 0, 0, 0, 1, 1, 1, 1]


def test_affinity_is_the_half_of_the_cpus_that_belongs_to_the_socket():
    library = library_of("pcie-1080ti")
    last = library.nvmlDeviceGetHandleByIndex(7)
    assert library.nvmlDeviceGetCpuAffinity(last, 2) == [((1 << 20) - 1) << 20, 0]
    assert library.nvmlDeviceGetMemoryAffinity(last, 1, 0) == [0b10]


def test_every_link_of_an_nvswitch_machine_ends_at_a_switch():
    library = library_of("dgx-h100")
    handle = library.nvmlDeviceGetHandleByIndex(0)
    for link in range(18):
        assert library.nvmlDeviceGetNvLinkState(handle, link) == 1
        assert library.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link) == 2
    assert code_of(library, "nvmlDeviceGetNvLinkState", handle, 18) == INVALID_ARGUMENT
    assert fields(library, handle, (147, 0)) == [18]


def test_aggregate_of_the_nvlink_counters_is_the_sum_of_the_links():
    library = library_of("dgx-h100")
    handle = library.nvmlDeviceGetHandleByIndex(0)
    each = fields(library, handle, *((139, link) for link in range(18)))
    assert fields(library, handle, (139, ALL_LINKS)) == [sum(each)]
    assert fields(library, handle, (139, 18), (9999, 0)) == [None, None]


def test_hot_card_is_held_by_power_and_heat_below_its_clocks():
    library = library_of("dgx-h100")
    handle = library.nvmlDeviceGetHandleByIndex(2)
    reasons = library.nvmlDeviceGetCurrentClocksEventReasons(handle)
    assert reasons == REASON_POWER_CAP | REASON_THERMAL
    sm = 1
    assert library.nvmlDeviceGetClockInfo(handle, sm) < library.nvmlDeviceGetMaxClockInfo(
        handle, sm
    )
    held = fields(library, handle, (74, 0), (269, 0), (270, 0))
    assert held[0] == held[1] > 0
    assert held[2] == 0


def test_samples_of_processes_are_only_the_newer_ones():
    library = library_of("dgx-h100")
    handle = library.nvmlDeviceGetHandleByIndex(5)
    samples = library.nvmlDeviceGetProcessUtilization(handle, 0)
    assert {sample.pid for sample in samples} == {88_215, 519_033}
    newest = max(sample.timeStamp for sample in samples)
    assert NOW * 1e6 - 200_000 <= newest <= NOW * 1e6
    assert code_of(library, "nvmlDeviceGetProcessUtilization", handle, newest) == NOT_FOUND


def test_idle_holder_has_no_samples():
    library = library_of("dgx-h100")
    handle = library.nvmlDeviceGetHandleByIndex(6)
    assert library.nvmlDeviceGetComputeRunningProcesses_v3(handle)[0].usedGpuMemory == 60 << 30
    assert code_of(library, "nvmlDeviceGetProcessUtilization", handle, 0) == NOT_FOUND


def test_desktop_lists_graphics_and_both():
    library = library_of("single")
    handle = library.nvmlDeviceGetHandleByIndex(0)
    graphics = {p.pid for p in library.nvmlDeviceGetGraphicsRunningProcesses_v3(handle)}
    compute = {p.pid for p in library.nvmlDeviceGetComputeRunningProcesses_v3(handle)}
    assert compute == {18_442, 19_007}
    assert graphics == compute | {1_904, 2_317}
    assert library.nvmlDeviceGetDisplayActive(handle) == 1
    assert library.nvmlDeviceGetEncoderUtilization(handle)[0] > 0


def test_clients_of_mps_are_in_a_list_of_their_own():
    library = library_of("many")
    listed = [
        process.pid
        for index in range(64)
        for process in library.nvmlDeviceGetMPSComputeRunningProcesses_v3(
            library.nvmlDeviceGetHandleByIndex(index)
        )
    ]
    assert len(listed) == 10


def test_five_hundred_processes_on_sixty_four_cards():
    library = library_of("many")
    pids = [
        process.pid
        for index in range(library.nvmlDeviceGetCount())
        for process in library.nvmlDeviceGetComputeRunningProcesses_v3(
            library.nvmlDeviceGetHandleByIndex(index)
        )
    ]
    assert library.nvmlDeviceGetCount() == 64
    assert len(pids) == len(set(pids)) == 500


def test_instances_fill_sparse_slots_and_share_the_processes_of_their_parent():
    library = library_of("mig")
    parent = library.nvmlDeviceGetHandleByIndex(0)
    slots = {}
    for slot in range(library.nvmlDeviceGetMaxMigDeviceCount(parent)):
        if slot in (0, 1, 3):
            slots[slot] = library.nvmlDeviceGetMigDeviceHandleByIndex(parent, slot)
        else:
            code = code_of(library, "nvmlDeviceGetMigDeviceHandleByIndex", parent, slot)
            assert code == NOT_FOUND
    listed = library.nvmlDeviceGetComputeRunningProcesses_v3(parent)
    assert {(p.pid, p.gpuInstanceId, p.computeInstanceId) for p in listed} == {
        (7_781, 2, 0),
        (7_902, 3, 0),
    }
    assert library.nvmlDeviceGetGpuInstanceId(slots[3]) == 9
    assert library.nvmlDeviceGetAttributes(slots[0]).multiprocessorCount == 42


def test_engines_of_a_split_gpu_and_of_its_instances_are_not_measured():
    library = library_of("mig")
    parent = library.nvmlDeviceGetHandleByIndex(0)
    instance = library.nvmlDeviceGetMigDeviceHandleByIndex(parent, 0)
    for handle in (parent, instance):
        assert code_of(library, "nvmlDeviceGetUtilizationRates", handle) == NOT_SUPPORTED
        assert code_of(library, "nvmlDeviceGetProcessUtilization", handle, 0) == NOT_SUPPORTED
    assert code_of(library, "nvmlDeviceGetPowerUsage", instance) == NOT_SUPPORTED
    assert library.nvmlDeviceGetPowerUsage(parent) > 0


def test_performance_monitoring_averages_between_two_samples():
    now = [NOW]
    library = library_of("dgx-h100", lambda: now[0])
    handle = library.nvmlDeviceGetHandleByIndex(4)
    assert library.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice
    request = library.c_nvmlGpmMetricsGet_t()
    request.version = library.NVML_GPM_METRICS_GET_VERSION
    request.sample1, request.sample2 = library.nvmlGpmSampleAlloc(), library.nvmlGpmSampleAlloc()
    library.nvmlGpmSampleGet(handle, request.sample1)
    library.nvmlGpmSampleGet(handle, request.sample2)
    assert code_of(library, "nvmlGpmMetricsGet", request) == INVALID_ARGUMENT
    now[0] += 1
    library.nvmlGpmSampleGet(handle, request.sample2)
    request.numMetrics = 4
    for metric, number in zip(request.metrics, (1, 2, 60, 250), strict=False):
        metric.metricId = number
    graphics, sm, received, unknown = library.nvmlGpmMetricsGet(request).metrics[:4]
    assert 0 < sm.value < graphics.value <= 100
    assert received.value > 0
    assert unknown.nvmlReturn == NOT_SUPPORTED


def test_performance_monitoring_is_not_there_before_hopper():
    library = library_of("mig")
    handle = library.nvmlDeviceGetHandleByIndex(1)
    assert not library.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice
    sample = library.nvmlGpmSampleAlloc()
    assert code_of(library, "nvmlGpmSampleGet", handle, sample) == NOT_SUPPORTED


def test_versions_are_those_of_the_driver():
    library = library_of("dgx-h100")
    assert library.nvmlSystemGetDriverVersion() == "580.95.05"
    assert library.nvmlSystemGetNVMLVersion() == "13.580.95.05"
    assert library.nvmlSystemGetCudaDriverVersion_v2() == 13000
