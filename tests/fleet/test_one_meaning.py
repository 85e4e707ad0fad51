"""One GPU through every source: NVML, ssh, nvidia-smi over ssh, Prometheus, exporters."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw, json

from gpudash.analysis.columns.devices import DEVICE_COLUMNS
from gpudash.analysis.columns.users import USER_COLUMNS
from gpudash.analysis.health.engine import Diagnosis
from gpudash.fleet import columns, remote_smi
from gpudash.fleet.from_snapshot import SnapshotReader
from gpudash.fleet.prometheus.known import Row
from gpudash.fleet.prometheus.picture import Picture
from gpudash.fleet.reduce import Reducer
from gpudash.model import wire
from gpudash.model.fleet import FleetDevice, FleetSnapshot
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import SafeText
from tests.analysis.health.examined import later
from tests.factories import make_device, make_process, make_process_device, make_snapshot

START = datetime(2026, 11, 24, tzinfo=timezone.utc)
MIB = 1 << 20


class Sample(NamedTuple):
    """What a GPU does at an instant, in seconds since the start."""

    at: float
    percent: int
    used_mib: int
    owner: str | None = "alice"


class Meaning(NamedTuple):
    """What is made of it."""

    status: str | None
    idle_seconds: float | None
    users: tuple[str, ...]


def examined(samples: Iterable[Sample]) -> list[Snapshot]:
    """The snapshots of the host itself."""
    diagnosis, found = Diagnosis(), []
    for sample in samples:
        device = make_device(
            gpu_utilization_percent=sample.percent,
            memory_used_bytes=sample.used_mib * MIB,
            memory_total_bytes=80_000 * MIB,
        )
        share = make_process_device(
            used_gpu_memory_bytes=sample.used_mib * MIB, sm_utilization_percent=sample.percent
        )
        process = make_process(username=sample.owner, devices=(share,), cpu_percent=0.0)
        processes = (process,) if sample.owner else ()
        snapshot = make_snapshot(devices=(device,), processes=processes, topology=None)
        found.append(diagnosis.examine(later(snapshot, sample.at)))
    return found


def by_nvml(samples: Sequence[Sample]) -> Meaning:
    last = examined(samples)[-1]
    (device,) = last.devices
    users = {each.username for each in last.processes if each.username}
    return Meaning(device.status, device.idle_seconds, tuple(users))


def reduced(devices: Iterable[tuple[float, FleetSnapshot]]) -> Meaning:
    reducer = Reducer()
    for at, snapshot in devices:
        taken_at = START + timedelta(seconds=at)
        last = reducer.reduce(
            FleetSnapshot(taken_at=taken_at, hosts=snapshot.hosts, jobs=snapshot.jobs)
        )
    (device,) = last.hosts[0].devices
    assert isinstance(device, FleetDevice)
    return Meaning(device.status, device.idle_seconds, tuple(map(str, device.users)))


def read(lines: Iterable[tuple[float, Snapshot]]) -> Meaning:
    reader = SnapshotReader(SafeText("lab7"), None)
    return reduced(
        (at, FleetSnapshot(taken_at=START, hosts=(reader.read(snapshot),)))
        for at, snapshot in lines
    )


def by_ssh(samples: Sequence[Sample]) -> Meaning:
    lines = map(wire.encode_compact, examined(samples))
    return read((sample.at, wire.decode(line)) for sample, line in zip(samples, lines, strict=True))


def by_smi(samples: Sequence[Sample]) -> Meaning:
    def line(sample: Sample) -> bytes:
        host = f"lab7\n{1000 + sample.at} 99.0"
        gpus = (
            "index, uuid, utilization.gpu [%], memory.total [MiB], memory.used [MiB]\n"
            f"0, GPU-0, {sample.percent}, 80000, {sample.used_mib}"
        )
        apps = f"GPU-0, 42, {sample.used_mib}" if sample.owner else ""
        running = f"42 {sample.owner} 2048 python train.py" if sample.owner else ""
        sections = ("gpudash-smi", host, gpus, "", apps, running)
        return "".join(f"{each}\x1d" for each in sections).replace("\n", "\x1e").encode()

    return read((sample.at, remote_smi.decode(line(sample))) for sample in samples)


class Exporter(NamedTuple):
    """The names of an exporter's series, and what a percent and a MiB are in them."""

    used: str
    memory: str
    total: str
    percent: float
    mib: float
    labels: dict[str, str]
    users: str = ""


DCGM_48 = Exporter(
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_TOTAL",
    1,
    1,
    {"Hostname": "lab7", "gpu": "0", "UUID": "GPU-0"},
)
DCGM_49 = Exporter(
    "DCGM_FI_DEV_GPU_UTIL_RATIO",
    "DCGM_FI_DEV_FB_USED_BYTES",
    "DCGM_FI_DEV_FB_CAPACITY_BYTES",
    0.01,
    MIB,
    {"hostname": "lab7", "gpu": "0", "UUID": "GPU-0"},
)
NVITOP = Exporter(
    "gpu_utilization_Percentage",
    "gpu_memory_used_MiB",
    "gpu_memory_total_MiB",
    1,
    1,
    {"hostname": "lab7", "index": "0", "uuid": "GPU-0"},
    "process_gpu_memory_MiB",
)


def _row(now: float, labels: dict[str, str], name: str, value: float, **more: str) -> list[Row]:
    metric = {"__name__": name, "job": "exporter", **labels, **more}
    return [Row(Raw(json.encode(metric)), (now, repr(value)))]


def by_exporter(exporter: Exporter) -> Callable[[Sequence[Sample]], Meaning]:
    names = (exporter.used, exporter.memory, exporter.total, exporter.users)

    def meaning(samples: Sequence[Sample]) -> Meaning:
        return reduced(pictures(samples))

    def pictures(samples: Sequence[Sample]) -> Iterable[tuple[float, FleetSnapshot]]:
        picture = Picture()
        picture.inventory.set_names(names)
        for sample in samples:
            now = START.timestamp() + sample.at
            labels = dict(exporter.labels)
            if sample.owner and not exporter.users:
                labels |= {"namespace": sample.owner, "pod": "train-0"}

            row = partial(_row, now, labels)
            main = row(exporter.used, sample.percent * exporter.percent)
            picture.inventory.learn(main)
            picture.take_main(main, now, is_partial=False)
            for field, name, mib in (
                ("memory_total_bytes", exporter.total, 80_000),
                ("memory_used_bytes", exporter.memory, sample.used_mib),
            ):
                picture.take_field(field, row(name, mib * exporter.mib), now)
            if exporter.users:
                owner = row(exporter.users, 1, username=sample.owner) if sample.owner else []
                picture.take_users(owner, now)
            hosts = picture.hosts(now)
            yield sample.at, FleetSnapshot(taken_at=START, hosts=hosts, jobs=picture.jobs())

    return meaning


SOURCES: dict[str, Callable[[Sequence[Sample]], Meaning]] = {
    "nvml": by_nvml,
    "ssh": by_ssh,
    "nvidia-smi over ssh": by_smi,
    "dcgm 4.8": by_exporter(DCGM_48),
    "dcgm 4.9": by_exporter(DCGM_49),
    "exporter": by_exporter(NVITOP),
}


@pytest.mark.parametrize(
    ("percents", "used_mib", "owner", "expected"),
    [
        ([80] * 70, 40_000, "alice", Meaning("busy", None, ("alice",))),
        ([3] * 70, 40_000, "alice", Meaning("in-use", None, ("alice",))),
        ([0] * 70, 40_000, "alice", Meaning("held-idle", 690.0, ("alice",))),
        ([80] * 60 + [0] * 10, 40_000, "alice", Meaning("in-use", 90.0, ("alice",))),
        ([80] * 30 + [0] * 40, 40_000, "alice", Meaning("held-idle", 390.0, ("alice",))),
        ([0] * 69 + [3], 40_000, "alice", Meaning("in-use", None, ("alice",))),
        ([0] * 70, 4, None, Meaning("free", 690.0, ())),
        ([3] * 70, 4, None, Meaning("free", None, ())),
        ([0] * 70, 40_000, None, Meaning("held-idle", 690.0, ())),
    ],
)
def test_a_gpu_means_the_same_from_every_source(
    percents: list[int], used_mib: int, owner: str | None, expected: Meaning
) -> None:
    samples = [Sample(10.0 * n, percent, used_mib, owner) for n, percent in enumerate(percents)]
    found = {source: meaning(samples) for source, meaning in SOURCES.items()}
    assert found == dict.fromkeys(SOURCES, expected)


STRETCH = st.tuples(
    st.integers(1, 12),
    st.sampled_from([0, 3, 80]),
    st.sampled_from([4, 40_000]),
    st.sampled_from([None, "alice"]),
)
"""For how many samples a GPU does the same: percent, MiB, owner."""


def samples_of(stretches: Iterable[tuple[int, int, int, str | None]]) -> list[Sample]:
    alike = [same for count, *same in stretches for _ in range(count)]
    return [Sample(10.0 * n, *same) for n, same in enumerate(alike)]


@settings(max_examples=10)
@given(st.lists(STRETCH, min_size=1, max_size=5))
def test_whatever_a_gpu_did_it_has_one_idle_time_and_one_user(
    stretches: list[tuple[int, int, int, str | None]],
) -> None:
    found = [read_from(samples_of(stretches)) for read_from in SOURCES.values()]
    assert len({(each.idle_seconds, each.users) for each in found}) == 1


@settings(max_examples=6)
@given(st.lists(STRETCH, max_size=3), STRETCH)
def test_once_a_gpu_does_the_same_for_longer_than_a_pause_it_has_one_status(
    before: list[tuple[int, int, int, str | None]], last: tuple[int, int, int, str | None]
) -> None:
    samples = samples_of([*before, (31, *last[1:])])
    assert len({read_from(samples) for read_from in SOURCES.values()}) == 1


@pytest.mark.parametrize(
    ("many", "one"), [(columns.GPU_COLUMNS, DEVICE_COLUMNS), (columns.USER_COLUMNS, USER_COLUMNS)]
)
def test_a_value_has_the_name_that_it_has_on_one_host(many: Any, one: Any) -> None:
    names = {column.key: column.header for column in one}
    shared = [column for column in many if column.key in names]
    assert len(shared) > 2
    assert [column.header for column in shared] == [names[column.key] for column in shared]
