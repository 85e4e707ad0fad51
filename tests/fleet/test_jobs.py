from typing import Any

from msgspec.structs import replace

from gpudash.fleet.job_columns import JOB_COLUMNS, JOB_GPU_COLUMNS
from gpudash.fleet.jobs import job_gpus, paces_of
from gpudash.fleet.reduce import Reducer
from gpudash.fleet.summary import GpuRow, fitting, host_rows
from gpudash.fleet.where import where
from gpudash.model.fleet import FleetDevice, FleetJob, FleetProcess
from gpudash.model.text import SafeText, clean
from tests.fleet.many import device, fleet, host

JOB = FleetJob(id=SafeText("4242"), user=SafeText("alice"))


def rows_of(*devices: FleetDevice) -> list[GpuRow]:
    return [GpuRow(host(1), each) for each in devices]


def at(index: int, mhz: int = 1980, **fields: Any) -> FleetDevice:
    return device(index, **{"sm_clock_mhz": mhz, **fields})


def test_a_gpu_is_slow_by_clock_and_power_and_not_by_its_utilization() -> None:
    levels = {column.key: column.level for column in JOB_GPU_COLUMNS if column.level}
    slow = at(7, 1200, power_usage_mw=400_000)
    noisy = at(6, gpu_utilization_percent=50.0)
    held = device(8, "held-idle", sm_clock_mhz=345)
    *_, lazy, lagging, idle = job_gpus(rows_of(*map(at, range(6)), noisy, slow, held), JOB)

    def warned(row: Any) -> list[str]:
        shown = ("utilization", "clock", "power", "temperature")
        return [key for key in shown if levels[key](row) == "warn"]

    assert (warned(lazy), warned(lagging), warned(idle)) == ([], ["clock", "power"], [])


def test_gpus_that_are_gone_stand_first_and_their_values_are_none_of_now() -> None:
    columns = {column.key: column for column in JOB_GPU_COLUMNS}
    silent = host(2, state="down", devices=(at(2, status="unknown"),))
    gone = GpuRow(silent, silent.devices[0])
    lost = at(1, state="lost", status="lost", sm_clock_mhz=None)
    rows = job_gpus([*rows_of(at(0), lost, at(3, sm_clock_mhz=None)), gone], JOB)
    order = sorted(rows, key=columns["clock"].sort_key)
    assert [each.gpu.state_text for each in order] == ["LOST", "DOWN", "busy", "busy"]
    shown = [columns[key].level for key in ("clock", "power", "temperature")]
    assert [level(order[1]) for level in shown if level is not None] == ["unknown"] * 3


def test_others_on_the_gpus_of_a_job_are_those_who_do_not_own_it() -> None:
    shared = at(0, users=(SafeText("alice"), SafeText("mallory")))
    assert [row.others for row in job_gpus(rows_of(shared, at(1)), JOB)] == [("mallory",), ()]
    assert [row.others for row in job_gpus(rows_of(shared), None)] == [()]


def test_processes_on_the_gpus_of_a_job_that_are_not_its_own() -> None:
    task = replace(JOB, id=SafeText("7_2"), number=SafeText("9"))

    def process(pid: int, user: str | None, job: str | None, uuid: str = "GPU-0") -> FleetProcess:
        return FleetProcess(
            pid=pid, username=user and clean(user), job=job and clean(job), uuids=(uuid,)
        )

    processes = (
        process(1, "alice", "9"),
        process(2, "alice", "8"),
        process(3, "alice", None),
        process(4, None, None),
        process(5, "mallory", None),
        process(6, "mallory", None, "GPU-1"),
        process(7, None, "6"),
    )
    shared = at(0, users=tuple(map(SafeText, ("alice", "mallory", "eve"))))
    there = host(1, devices=(shared,), processes=processes)
    (row,) = job_gpus([GpuRow(there, shared)], task)
    assert row.others == ("alice PID 2", "mallory PID 5", "unknown PID 7", "eve")


def test_who_has_a_process_beside_a_job_is_a_user_of_the_gpu() -> None:
    beside = FleetProcess(pid=1, username=SafeText("frank"), uuids=("GPU-1", "GPU-2"))
    devices = (at(0), at(1), at(2, users=(SafeText("frank"),)))
    there = host(1, devices=devices, processes=(beside, replace(beside, username=None)))
    found = Reducer().reduce(fleet((there,), jobs=(JOB,)))
    (row,) = fitting(host_rows(found), where("frank"))
    assert [each.users for each in row.devices] == [("alice", "frank"), ("frank",)]
    assert [(each.name, each.devices, each.busy) for each in found.users] == [
        ("alice", 2, 2),
        ("frank", 2, 2),
    ]


def test_a_job_is_whose_processes_it_has() -> None:
    shared = at(0, users=(SafeText("alice"), SafeText("mallory")))
    processes = (
        FleetProcess(pid=1, username=SafeText("alice"), job=SafeText("4242"), uuids=("GPU-0",)),
        FleetProcess(pid=2, username=SafeText("mallory"), uuids=("GPU-0",)),
    )
    for known, user in ((processes, "alice"), (None, None)):
        hosts = (host(1, devices=(shared,), processes=known),)
        (job,) = Reducer().reduce(fleet(hosts, jobs=())).jobs
        assert job.user == user


def test_a_job_keeps_what_is_gone_and_what_that_did_does_not_count() -> None:
    lost = device(0, "lost", state="lost", job="4242", gpu_utilization_percent=None)
    silent = device(0, gpu_utilization_percent=10.0)
    hosts = (
        host(1, devices=(lost, *host(1).devices[1:])),
        host(2, state="down", devices=(silent,)),
        host(3, state="stale", devices=(replace(silent, job=SafeText("77")),)),
    )
    found = Reducer().reduce(fleet(hosts, jobs=())).jobs
    shown = [(e.id, e.user, e.devices, e.busy, e.min_gpu_utilization_percent) for e in found]
    assert shown == [("4242", "alice", 9, 7, 90.0), ("77", "alice", 1, None, None)]
    assert [each.hosts for each in found] == [("gpu0001", "gpu0002"), ("gpu0003",)]


def of_other_model(index: int, mhz: int = 1200, mw: int = 300_000) -> FleetDevice:
    return at(index, mhz, name="NVIDIA L40S", power_usage_mw=mw)


def test_slow_ones_are_few_among_gpus_of_one_model() -> None:
    usual = [at(n) for n in range(7)]
    for devices, slow in (
        ((*usual, at(7, 1200)), [[7]]),
        ((*usual, of_other_model(7)), [[]]),
        ((*usual[:2], at(7, 1200)), []),
        ((*usual[:3], *(at(n, 1200) for n in range(3, 6))), [[]]),
    ):
        paces, shown = paces_of(rows_of(*devices)), job_gpus(rows_of(*devices), JOB)
        assert [[row.device.index for row in pace.slow] for pace in paces] == slow
        assert [row.gpu.device.index for row in shown if row.is_slow] == [
            i for n in slow for i in n
        ]
        assert not any(row.draws_little for row in shown)


def test_gpus_of_a_job_on_two_models_are_compared_within_theirs() -> None:
    fast = [at(n, 1300 if n == 2 else 1980) for n in range(6)]
    weak = [of_other_model(n, mw=100_000 if n == 7 else 300_000) for n in range(6, 11)]
    rows = job_gpus(rows_of(*fast, *weak), JOB)
    assert [row.gpu.device.index for row in rows if row.is_slow] == [2]
    assert [row.gpu.device.index for row in rows if row.draws_little] == [7]
    assert [row.usual.clock_mhz for row in (rows[0], rows[-1])] == [1980, 1200]
    found = Reducer().reduce(fleet((host(1, devices=(*fast, *weak)),), jobs=(JOB,)))
    (straggler,) = (each for each in found.findings if each.rule == "straggler")
    assert "at 66% of the clock of the other 5 of the same model in job" in straggler.sentence
    assert found.jobs[0].slow == 1


def test_a_gpu_that_heat_slows_down_is_slow_and_hot_is_what_is_found() -> None:
    hot = at(7, 1600, status="hot", job="4242", gpu_utilization_percent=90.0)
    gpus = (*map(at, range(7)), hot)
    found = Reducer().reduce(fleet((host(1, devices=gpus),), jobs=(JOB,)))
    assert [row.gpu.device.index for row in job_gpus(rows_of(*gpus), JOB) if row.is_slow] == [7]
    assert found.jobs[0].slow == 1
    assert [each.rule for each in found.findings] == ["gpus-hot"]


def test_a_slow_gpu_is_slow_wherever_it_is_shown_and_not_busy_as_well() -> None:
    warm = [at(n, job="4242", users=("alice",), temperature_celsius=60) for n in range(17)]
    slow = at(17, 1200, job="4242", users=("alice",), temperature_celsius=88)
    found = Reducer().reduce(fleet((host(1, devices=(*warm, slow)),), jobs=(JOB,)))
    assert [each.rule for each in found.findings] == ["straggler", "hot-outlier"]
    (row,) = host_rows(found)
    assert (row.state_text, row.counts) == ("1 slow", {"busy": 17, "slow": 1})
    (narrow,) = fitting([row], where("status:slow"))
    assert [each.index for each in narrow.devices] == [17]
    lagging = [each.gpu for each in job_gpus([GpuRow(row.host, d) for d in row.devices], JOB)]
    assert [each.state_text for each in lagging if each.level == "warn"] == ["slow"]
    assert (found.users[0].busy, found.jobs[0].busy, found.jobs[0].slow) == (17, 17, 1)


def test_a_row_of_a_job_has_what_of_it_is_broken() -> None:
    down = host(2, *["unknown"] * 4, state="down")
    down = replace(down, devices=tuple(replace(each, job="4242") for each in down.devices))
    states = ("busy", "lost", "unusable", "hot")
    gpus = tuple(at(n, status=each, job="4242") for n, each in enumerate(states))
    found = Reducer().reduce(fleet((host(1, devices=gpus), down), jobs=(JOB,)))
    (column,) = (each for each in JOB_COLUMNS if each.key == "broken")
    assert column.text(found.jobs[0]) == "6"
    assert column.has_content(found.jobs)
    (well,) = Reducer().reduce(fleet((host(1),), jobs=(JOB,))).jobs
    assert (well.broken, column.has_content([well])) == (0, False)
    unseen = Reducer().reduce(fleet((host(1, "free"),), jobs=(JOB,))).jobs
    assert [each.broken for each in unseen] == [None] * len(unseen)


def test_a_job_counts_its_slow_gpus() -> None:
    gpus = tuple(at(n, 1200 if n == 3 else 1980) for n in range(8))
    (job,) = Reducer().reduce(fleet((host(1, devices=gpus),), jobs=(JOB,))).jobs
    assert job.slow == 1
    (job,) = Reducer().reduce(fleet((host(1),), jobs=(JOB,))).jobs
    assert job.slow is None
