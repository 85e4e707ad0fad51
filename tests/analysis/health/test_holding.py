"""GPUs that are held or leased without being used, and GPUs that wait for their host."""

from typing import Any

import pytest

from gpudash.analysis.health.engine import Diagnosis
from gpudash.analysis.health.findings import findings_by_device, statuses
from gpudash.analysis.health.rule import rough_duration
from gpudash.analysis.status import status_level
from gpudash.model import state as states
from gpudash.model.process import Lease, Process
from gpudash.model.snapshot import Snapshot
from tests.analysis.health.examined import Watched, found, host, later, rules
from tests.factories import (
    GIB,
    gpu_uuid,
    make_device,
    make_process,
    make_process_device,
    make_topology,
)


def holder(percents: list[int | None], **overrides: Any) -> Process:
    """A process that holds one GPU for each percentage, which is how busy it keeps it."""
    shares = tuple(
        make_process_device(
            index=index, used_gpu_memory_bytes=40 * GIB, sm_utilization_percent=percent
        )
        for index, percent in enumerate(percents)
    )
    return make_process(
        **{"devices": shares, "cpu_percent": 0.0, "status": "sleeping", **overrides}
    )


def machine(percents: list[int | None], *processes: Process, **overrides: Any) -> Snapshot:
    devices = tuple(
        make_device(index=index, gpu_utilization_percent=percent)
        for index, percent in enumerate(percents)
    )
    return host(devices=devices, processes=processes, **overrides)


TRAP = [90, 0, 0, 0, 0, 0, 0, 0]


def test_the_trap_names_process_owner_gpus_and_what_to_do() -> None:
    finding = found(machine(TRAP, holder(TRAP)), "holds-many-works-on-few")
    assert finding.sentence == (
        "alice's python (PID 4242) holds 320 GiB on GPU 0-7 and works on GPU 0 alone"
    )
    assert "CUDA_VISIBLE_DEVICES=0" in finding.advice
    assert "XLA_PYTHON_CLIENT_PREALLOCATE" in finding.advice
    assert finding.level == "warn"
    assert finding.pids == (4242,)
    assert finding.indices == (1, 2, 3, 4, 5, 6, 7)


@pytest.mark.parametrize(
    "percents", [[90] * 8, [90] * 5 + [0] * 3, [90], [None] * 4, [90, None, None, None]]
)
def test_who_works_on_most_of_his_gpus_is_not_in_the_trap(percents: list[int | None]) -> None:
    assert "holds-many-works-on-few" not in rules(machine(percents, holder(percents)))


def test_contexts_that_take_little_memory_are_no_trap() -> None:
    shares = tuple(
        make_process_device(
            index=index,
            used_gpu_memory_bytes=300 << 20 if index else 40 * GIB,
            sm_utilization_percent=0 if index else 90,
        )
        for index in range(8)
    )
    snapshot = machine(TRAP, make_process(devices=shares))
    assert rules(snapshot) == {"held-idle": "info"}
    assert "end it" not in found(snapshot, "held-idle").advice


def test_trap_stays_while_the_working_gpu_pauses(watched: Watched) -> None:
    watched.see(machine(TRAP, holder(TRAP)), 5)
    pause = [0] * 8
    told = watched.see(machine(pause, holder(pause)), 3)
    assert list(told) == ["holds-many-works-on-few"]
    assert told["holds-many-works-on-few"].held_seconds == 7


def test_idle_notebook_is_a_remark_at_first_and_a_warning_after_minutes() -> None:
    idle = machine([0], holder([0], username="bob", pid=77))
    watched = Watched()
    first = watched.see(idle)["held-idle"]
    assert (first.level, first.held_seconds) == ("info", None)
    assert first.sentence == (
        "bob's python (PID 77) holds 40.0 GiB on GPU 0 and does not use it now"
    )
    assert watched.see(idle, 60)["held-idle"].level == "info"
    later = watched.see(idle, 300)["held-idle"]
    assert later.level == "warn"
    assert later.held_seconds == 360
    assert later.sentence.endswith("and has not used it for 6 min")


@pytest.mark.parametrize(("seconds", "told"), [(8.96, "8 s"), (48.97, "40 s"), (239.99, "3 min")])
def test_sentence_and_proof_tell_one_time(seconds: float, told: str) -> None:
    idle = machine([0], holder([0]))
    diagnosis = Diagnosis()
    diagnosis.examine(idle)
    (finding,) = diagnosis.examine(later(idle, seconds)).findings or ()
    assert finding.sentence.endswith(f"has not used it for {told}")
    (proof,) = (each.value for each in finding.evidence if each.name == "idle_seconds")
    assert isinstance(proof, float)
    assert proof == finding.held_seconds
    assert 0 <= seconds - proof < 0.1 + 1e-6
    assert rough_duration(proof) == told


def test_the_command_to_end_too_many_processes_names_none_of_them() -> None:
    many = [holder([0], pid=pid) for pid in range(50, 70)]
    advice = found(machine([0], *many), "held-idle").advice
    assert "K on the screen (Space tags several)." in advice


def test_idle_processes_of_one_owner_share_a_sentence() -> None:
    mine = [
        make_process(
            pid=pid,
            devices=(make_process_device(index=index, sm_utilization_percent=0),),
            cpu_percent=0.0,
        )
        for index, pid in enumerate((50, 51, 52))
    ]
    finding = found(machine([0, 0, 0], *mine), "held-idle")
    assert finding.sentence == (
        "alice's python (PID 50) and 2 more processes hold 120 GiB on GPU 0-2 "
        "and do not use them now"
    )
    assert finding.pids == (50, 51, 52)
    assert {proof.of for proof in finding.evidence} == {
        f"PID {pid} on GPU {index}" for index, pid in enumerate(finding.pids)
    }
    assert "gpudash kill 50 51 52" in finding.advice


@pytest.mark.parametrize("seconds", [0, 60])
def test_no_proof_of_many_processes_is_cut_and_the_others_are_counted(seconds: int) -> None:
    mine = [holder([0], pid=pid) for pid in range(50, 71)]
    watched = Watched()
    finding = watched.see(machine([0], *mine), 1 + seconds)["held-idle"]
    *proofs, last = finding.evidence
    names = ["used_gpu_memory_bytes", "sm_utilization_percent", "idle_seconds"]
    of_each = {
        pid: [each.name for each in proofs if f"PID {pid} " in (each.of or "")]
        for pid in finding.pids
    }
    told = [pid for pid in of_each if of_each[pid]]
    assert 0 < len(told) < 21
    assert told == list(finding.pids[: len(told)])
    assert all(of_each[pid] == names[: 3 if seconds else 2] for pid in told)
    assert (last.name, last.value, last.of) == ("left_out_count", 21 - len(told), None)


@pytest.mark.parametrize(
    "process",
    [
        holder([5]),
        make_process(devices=(make_process_device(type="G", sm_utilization_percent=0),)),
        make_process(
            devices=(make_process_device(sm_utilization_percent=0, encoder_utilization_percent=9),)
        ),
    ],
)
def test_who_works_or_only_draws_holds_nothing_idly(process: Process) -> None:
    assert rules(machine([0], process)) == {}


def test_process_that_the_driver_never_sampled_works_if_it_is_alone_on_a_busy_gpu() -> None:
    assert "held-idle" not in Watched().see(machine([30], holder([0])), 40)


def test_held_memory_is_no_longer_reported_once_its_process_is_gone(watched: Watched) -> None:
    assert "held-idle" in watched.see(machine([0], holder([0])), 400)
    assert watched.see(machine([0])) == {}


def test_held_memory_is_no_longer_reported_once_its_process_works(watched: Watched) -> None:
    watched.see(machine([0], holder([0])), 400)
    assert watched.see(machine([9], holder([9]))) == {}


def test_process_with_the_same_pid_starts_again(watched: Watched) -> None:
    watched.see(machine([0], holder([0], start_ticks=1)), 400)
    again = machine([0], holder([0], start_ticks=2))
    assert watched.see(again) == {}
    assert watched.see(again, 60)["held-idle"].level == "info"


def test_process_that_is_just_starting_holds_nothing_idly(watched: Watched) -> None:
    watched.see(machine([0] * 8))
    loading = holder([0] * 8)
    assert watched.see(machine([0] * 8, loading), 29) == {}
    first = [90] + [0] * 7
    assert watched.see(machine(first, holder(first)), 3) == {}
    assert watched.see(machine([90] * 8, holder([90] * 8)), 60) == {}


def test_process_that_starts_and_never_works_is_reported_after_a_while(watched: Watched) -> None:
    watched.see(machine([0]))
    told = watched.see(machine([0], holder([0])), 40)["held-idle"]
    assert (told.level, told.held_seconds) == ("info", 39)


def test_new_process_in_the_trap_is_reported_after_a_while(watched: Watched) -> None:
    watched.see(machine([0] * 8))
    assert watched.see(machine(TRAP, holder(TRAP)), 29) == {}
    assert "holds-many-works-on-few" in watched.see(machine(TRAP, holder(TRAP)), 15)


def test_server_that_works_now_and_then_is_no_warning(watched: Watched) -> None:
    busy, idle = machine([80], holder([80])), machine([0], holder([0]))
    for _ in range(2):
        watched.see(busy, 5)
        assert watched.see(idle, 1500)["held-idle"].level == "info"
    assert watched.see(idle, 400)["held-idle"].level == "warn"


@pytest.mark.parametrize("name", ["nvidia-cuda-mps-server", "nvidia-cuda-mps", "nv-hostengine"])
def test_service_of_the_driver_holds_nothing_idly(name: str) -> None:
    assert rules(machine([0], holder([0], name=name))) == {}


def test_browser_on_the_card_of_the_display_holds_nothing_idly() -> None:
    share = make_process_device(type="C+G", sm_utilization_percent=0)
    desktop = make_device(gpu_utilization_percent=0, display_active=True)
    browser = make_process(devices=(share,), cpu_percent=0.0)
    assert rules(host(devices=(desktop,), processes=(browser,))) == {}
    server = make_device(gpu_utilization_percent=0, display_active=False)
    assert rules(host(devices=(server,), processes=(browser,))) == {"held-idle": "info"}
    computing = holder([0])
    assert rules(host(devices=(desktop,), processes=(computing,))) == {"held-idle": "info"}


SPINNING = {"cpu_percent": 100.0, "status": "running"}


def test_who_works_on_its_cpu_is_neither_idle_nor_to_be_ended(watched: Watched) -> None:
    told = watched.see(machine([0], holder([0], **SPINNING)), 90)
    assert list(told) == ["cpu-bound"]
    finding = told["cpu-bound"]
    assert finding.level == "info"
    assert finding.sentence == (
        "alice's python (PID 4242) holds 40.0 GiB on GPU 0, keeps a CPU busy and has not used it "
        "for 1 min"
    )
    assert "end" not in finding.advice.split()
    assert ("mean_cpu_percent", 100.0) in {(each.name, each.value) for each in finding.evidence}
    assert watched.see(machine([0], holder([0], **SPINNING)), 900)["cpu-bound"].level == "info"


def test_a_gpu_whose_process_works_on_its_cpu_is_in_use() -> None:
    snapshot = machine([0], holder([0], **SPINNING))
    (device,) = snapshot.devices
    told = findings_by_device(Diagnosis().examine(snapshot))[device.key]
    assert statuses(snapshot, {device.key: told})[device.key] is states.IN_USE
    assert status_level(states.IN_USE, told) == "ok"


def test_who_loads_one_gpu_and_works_on_its_cpu_gets_no_advice_about_gpus() -> None:
    watched, idle = Watched(), machine([0, 0], holder([0, 0], **SPINNING))
    watched.see(idle)
    watched.see(machine([3, 0], holder([3, 0], **SPINNING)), 2)
    for _ in range(90):
        assert list(watched.see(idle)) == ["cpu-bound"]


def test_who_works_on_one_gpu_is_in_the_trap_however_busy_its_cpu() -> None:
    told = Watched().see(machine(TRAP, holder(TRAP, **SPINNING)), 20)
    assert "holds-many-works-on-few" in told


def test_who_is_new_may_be_loading_or_compiling(watched: Watched) -> None:
    watched.see(machine([0]))
    told = watched.see(machine([0], holder([0], **SPINNING)), 40)
    assert "loading or compiling" in told["cpu-bound"].advice


def test_who_waits_for_a_disk_is_not_idle_either() -> None:
    told = Watched().see(machine([0], holder([0], status="disk-sleep")), 90)
    assert list(told) == ["disk-bound"]
    assert "waits for a disk" in told["disk-bound"].sentence


def test_idleness_begins_when_the_cpu_rests(watched: Watched) -> None:
    watched.see(machine([0], holder([0], **SPINNING)), 900)
    resting = machine([0], holder([0]))
    assert "held-idle" not in watched.see(resting, 20)
    told = watched.see(resting, 60)["held-idle"]
    assert told.level == "info"
    assert (told.held_seconds or 0) < 60
    assert watched.see(resting, 300)["held-idle"].level == "warn"


def test_what_a_process_used_before_it_was_seen_says_nothing_of_now(watched: Watched) -> None:
    worked_before = machine([0], holder([0], cpu_percent=100.0))
    first = watched.see(worked_before)["held-idle"]
    assert "end it" not in first.advice
    assert "end it" in watched.see(machine([0], holder([0])), 1)["held-idle"].advice


def test_a_little_cpu_time_now_and_then_is_idle(watched: Watched) -> None:
    for percent in (0.0, 6.0, 30.0, 0.0, 3.0) * 20:
        told = watched.see(machine([0], holder([0], cpu_percent=percent)))
    assert list(told) == ["held-idle"]


def test_gpu_that_waits_for_a_busy_host_is_starved() -> None:
    watched, waiting = Watched(), machine([25], holder([25], cpu_percent=101.0))
    assert watched.see(waiting, 59) == {}
    finding = watched.see(waiting, 10)["host-bound"]
    assert finding.level == "warn"
    assert finding.sentence == (
        "GPU 0 is used less than half while alice's python (PID 4242) keeps the CPU busy"
    )


def test_gpu_that_waits_for_a_disk_is_starved() -> None:
    waiting = machine([25], holder([25], cpu_percent=3.0, status="disk-sleep"))
    finding = Watched().see(waiting, 70)["host-bound"]
    assert finding.sentence.endswith("waits for a disk")


@pytest.mark.parametrize("unknown", ["gpu", "cpu"])
def test_what_is_no_longer_reported_starves_no_gpu(unknown: str, watched: Watched) -> None:
    watched.see(machine([25], holder([25], cpu_percent=101.0)), 70)
    silent = machine([25], holder([25], cpu_percent=None, status=None))
    if unknown == "gpu":
        silent = machine([None], holder([25], cpu_percent=101.0))
    assert "host-bound" not in watched.see(silent, 40)


def test_single_sample_does_not_tell_who_starves() -> None:
    assert rules(machine([25], holder([25], cpu_percent=101.0))) == {}


@pytest.mark.parametrize(
    ("percent", "cpu"), [(90, 101.0), (25, 40.0), (25, None), (0, 101.0), (None, 101.0)]
)
def test_busy_or_unused_gpu_is_not_starved(percent: int | None, cpu: float | None) -> None:
    snapshot = machine([percent], holder([percent], cpu_percent=cpu, status="running"))
    assert "host-bound" not in Watched().see(snapshot, 70)


def test_one_slow_sample_is_not_called_starved(watched: Watched) -> None:
    fast = machine([95], holder([95], cpu_percent=101.0))
    slow = machine([20], holder([20], cpu_percent=101.0))
    watched.see(fast, 60)
    assert watched.see(slow, 3) == {}


def test_gpus_of_one_process_without_p2p_are_reported() -> None:
    percents: list[int | None] = [80, 80, 80, 80]
    snapshot = machine(percents, holder(percents), topology=make_topology(4))
    finding = found(snapshot, "p2p-missing")
    assert finding.level == "info"
    assert "no P2P between GPU 0-1 and 2-3" in finding.sentence
    assert finding.indices == (0, 1, 2, 3)
    near = machine([80, 80], holder([80, 80]), topology=make_topology(2))
    assert rules(near) == {}


def leased_host(*indices: int, **overrides: Any) -> Snapshot:
    fields: dict[str, Any] = {
        "pid": 77,
        "start_ticks": 9,
        "username": "bob",
        "name": "python",
        "is_used": False,
    }
    leases = tuple(
        Lease(uuid=gpu_uuid(index), index=index, **{**fields, **overrides}) for index in indices
    )
    idle = {"gpu_utilization_percent": 0, "memory_used_bytes": 0}
    devices = tuple(make_device(index=index, **idle) for index in range(4))
    return host(devices=devices, leases=leases)


def test_who_has_leased_what_and_does_not_use_it() -> None:
    finding = found(leased_host(0, 1, 2), "leased-unused")
    assert finding.sentence == "bob's python (PID 77) has leased GPU 0-2 and does not use them now"
    assert (finding.level, finding.held_seconds) == ("info", None)
    assert finding.indices == (0, 1, 2)
    assert "end it with gpudash kill 77." in finding.advice


def test_a_used_one_and_one_that_cannot_be_seen_are_no_finding() -> None:
    assert "leased-unused" not in rules(leased_host(0, is_used=True))
    assert "leased-unused" not in rules(leased_host(0, is_used=None))


def test_it_becomes_a_warning_after_ten_minutes(watched: Watched) -> None:
    assert watched.see(leased_host(0), 599)["leased-unused"].level == "info"
    finding = watched.see(leased_host(0), 10)["leased-unused"]
    assert finding.level == "warn"
    assert finding.sentence.endswith("has leased GPU 0 and has not used it for 10 min")


def test_a_moment_of_use_starts_again(watched: Watched) -> None:
    watched.see(leased_host(0), 590)
    watched.see(leased_host(0, is_used=True), 2)
    assert watched.see(leased_host(0), 20)["leased-unused"].level == "info"


def test_a_moment_in_which_the_use_cannot_be_seen_does_not(watched: Watched) -> None:
    watched.see(leased_host(0), 590)
    assert watched.see(leased_host(0, is_used=None), 2) == {}
    assert watched.see(leased_host(0), 20)["leased-unused"].level == "warn"


def test_a_long_time_in_which_the_use_cannot_be_seen_is_not_called_unused(watched: Watched) -> None:
    watched.see(leased_host(0), 590)
    assert watched.see(leased_host(0, is_used=None), 1200) == {}
    finding = watched.see(leased_host(0), 10)["leased-unused"]
    assert finding.level == "info"
    assert finding.sentence.endswith("has not used it for 9 s")


def test_samples_that_come_rarely_add_up(watched: Watched) -> None:
    for _ in range(7):
        finding = watched.see(leased_host(0))["leased-unused"]
        watched.second += 119
    assert finding.level == "warn"


def test_a_leased_gpu_is_neither_free_nor_idle() -> None:
    snapshot = leased_host(1)
    first, second, *_ = snapshot.devices
    states_by_key = statuses(snapshot)
    assert states_by_key[first.key] is states.FREE
    assert states_by_key[second.key] is states.LEASED
    concerned = findings_by_device(snapshot)
    assert status_level(states.LEASED, concerned[second.key]) == "ok"
