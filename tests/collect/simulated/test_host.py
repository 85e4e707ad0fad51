import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.collect.nvml.bus import UNKNOWN
from gpudash.collect.simulated import NAMES, SimulatedHost
from gpudash.model.errors import UsageError

NOW = 1_760_000_000.0

TOLD = (
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetCurrentClocksEventReasons",
)


def host_at(name: str, now: float = NOW) -> SimulatedHost:
    host = SimulatedHost(name, lambda: now)
    host.library.nvmlInitWithFlags(0)
    return host


def told(host: SimulatedHost) -> list[object]:
    library, answers = host.library, []
    for index in range(library.nvmlDeviceGetCount()):
        for name in TOLD:
            try:
                handle = library.nvmlDeviceGetHandleByIndex(index)
                answers.append(getattr(library, name)(handle))
            except library.NVMLError as error:
                answers.append(error.value)
    return answers


def test_unknown_scene_is_a_usage_error_that_names_the_valid_ones():
    with pytest.raises(UsageError, match=r"'dgx'.*dgx-h100.*pcie-1080ti.*empty"):
        SimulatedHost("dgx")


@pytest.mark.parametrize("name", NAMES)
def test_same_clock_tell_the_same(name):
    before = host_at(name, NOW - 1000)
    moved = [NOW - 1000]
    walked = SimulatedHost(name, lambda: moved[0])
    walked.library.nvmlInit()
    assert told(walked) == told(before)
    moved[0] = NOW
    assert told(walked) == told(host_at(name))
    assert walked.reader.host() == host_at(name).reader.host()


def test_values_move():
    seen = {str(told(host_at("dgx-h100", NOW + second))) for second in range(10)}
    assert len(seen) == 10


def test_sleeping_gpu_is_known_without_being_woken():
    host = SimulatedHost("laptop", lambda: NOW)
    assert host.power_states() == {"0000:01:00.0": "suspended"}
    assert "4070" in (host.identity("0000:01:00.0").name or "")
    assert host.identity("0000:02:00.0") == UNKNOWN
    host.library.nvmlInit()
    assert host.library.nvmlDeviceGetCount() == 1
    assert not host.library.woken


def test_handle_of_a_sleeping_gpu_is_noted_as_waking_it():
    host = host_at("laptop")
    host.library.nvmlDeviceGetHandleByIndex(0)
    assert host.library.woken == {"0000:01:00.0"}


def test_power_states_are_in_pci_order_and_active_elsewhere():
    states = SimulatedHost("many").power_states()
    assert list(states) == sorted(states)
    assert set(states.values()) == {"active"}


@given(st.floats(0, 4e9))
def test_processes_started_after_boot_and_before_now(now):
    for name in ("dgx-h100", "single", "many"):
        reader = SimulatedHost(name, lambda: now).reader
        boot = now - (reader.host().uptime_seconds or 0)
        pids = [412_907, 301_556, 1_904, 2_317, *range(100_000, 118_500, 37)]
        known = [p for p in reader.processes(pids).values() if p.create_time is not None]
        assert known
        assert all(boot <= p.create_time <= now for p in known)


def test_processes_are_distinguished_by_when_they_started_since_boot():
    reader = host_at("dgx-h100").reader
    for process in reader.processes(range(412_907, 412_911)).values():
        assert process.start_ticks is not None
        assert process.start_ticks > 0
        assert process.key == (process.pid, process.start_ticks)


def test_ranks_of_one_training_started_together():
    found = host_at("dgx-h100").reader.processes(range(412_907, 412_911)).values()
    times = [process.create_time or 0.0 for process in found]
    assert max(times) - min(times) < 1


def test_host_is_marked_as_simulated_and_uses_no_more_than_it_has():
    for name in NAMES:
        host = host_at(name).reader.host()
        assert host.simulated
        assert 0 < (host.cpu_percent or 0) <= 100
        assert (host.memory_used_bytes or 0) + (host.memory_available_bytes or 0) == (
            host.memory_total_bytes
        )
        assert (host.memory_available_bytes or 0) > 0


def test_process_has_owner_command_and_a_job_of_each_kind():
    found = host_at("dgx-h100").reader.processes([412_907, 88_214, 519_033, 301_556])
    assert [process.job.kind for process in found.values() if process.job] == [
        "slurm",
        "container",
        "pod",
        "unit",
    ]
    assert found[301_556].username == "bob"
    assert "ipykernel_launcher" in (found[301_556].command_line or ())


def test_pid_that_the_scene_lacks_has_exited():
    process = host_at("empty").reader.processes([1])[1]
    assert process.hidden_reason == "exited"
    assert process.username is None
