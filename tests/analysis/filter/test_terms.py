from typing import Any

import pytest

from gpudash.analysis.filter import parse
from gpudash.analysis.filter.terms import TERMS
from gpudash.analysis.table import ProcessRow, process_rows
from gpudash.model.errors import FilterError
from gpudash.model.process import Job
from tests.factories import gpu_uuid, make_device, make_process, make_process_device, make_snapshot

SLURM = Job(kind="slurm", id="1392969", step="0", container="1f3a0c5b2d4e99ff")


def make_row(age_seconds: float | None = 7300, **overrides: Any) -> ProcessRow:
    created = make_snapshot().taken_at.timestamp() - (age_seconds or 0)
    overrides.setdefault("create_time", None if age_seconds is None else created)
    [row] = process_rows(make_snapshot(processes=(make_process(**overrides),)))
    return row


def make_row_on(*indices: int) -> ProcessRow:
    return make_row(devices=tuple(make_process_device(index=index) for index in indices))


@pytest.mark.parametrize(
    "text",
    [
        "user:ali",
        "user:ALICE",
        "owner=alice",
        "user!=root",
        "gpu:0",
        "gpu=0",
        "gpu!=1",
        "mem>39G",
        "MEM>=40GiB",
        "gpu-mem<40.1g",
        "gpu_memory=40G",
        "mem:40G",
        "util=85",
        "util>5%",
        "util<=85",
        "util!=84",
        "type:c",
        "type=C",
        "pid:4242",
        "pid:4000-4999,7",
        "job:slurm",
        "job:1392969.0",
        "job:1F3A",
        "job=1392969",
        'cmd:"train.py --batch"',
        "cpu>50",
        "cpu=100",
        "rss>1G",
        "rss=6G",
        "age>2h",
        "time<2h2m",
        "age=2h",
    ],
)
def test_a_term_that_is_true_fits(text: str) -> None:
    row = make_row(job=SLURM)
    assert parse(text).matches(row)
    assert not parse(f"-{text}").matches(row)


@pytest.mark.parametrize(
    "text",
    [
        "user:bob",
        "user=ali",
        "user!=alice",
        "gpu:1-7",
        "gpu!=0",
        "gpu:10",
        "mem>40G",
        "mem<40G",
        "mem!=40G",
        "util<5",
        "type:G",
        "type!=C",
        "pid:424",
        "job:docker",
        "cmd:eval",
        "cpu<50",
        "rss<1G",
        "age>3h",
        "age=1h",
    ],
)
def test_a_term_that_is_false_does_not_fit(text: str) -> None:
    assert not parse(text).matches(make_row(job=SLURM))


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("gpu:0", True),
        ("gpu:3-9", True),
        ("gpu:4,5", False),
        ("gpu:5,3", True),
        ("gpu=0-3", True),
        ("gpu=0-2", False),
        ("gpu!=0-2", True),
        ("gpu:0:1", False),
    ],
)
def test_gpus_are_ranges_and_equal_only_if_there_is_no_other(text: str, fits: bool) -> None:
    assert parse(text).matches(make_row_on(0, 1, 2, 3)) is fits


@pytest.mark.parametrize(
    ("text", "fits"),
    [("gpu:0:1", True), ("gpu=0:1", True), ("gpu:0", True), ("gpu:0:2", False), ("gpu:1", False)],
)
def test_a_mig_instance_is_found_by_its_label_and_its_parent(text: str, fits: bool) -> None:
    instance = make_device(index=1, uuid="MIG-a", parent_uuid=gpu_uuid(0))
    share = make_process_device(index=0, uuid="MIG-a")
    snapshot = make_snapshot(
        devices=(make_device(index=0), instance), processes=(make_process(devices=(share,)),)
    )
    [row] = process_rows(snapshot)
    assert parse(text).matches(row) is fits


@pytest.mark.parametrize(
    ("text", "fits"), [("type:C", True), ("type:G", True), ("type:C,M", True), ("type=C", False)]
)
def test_a_type_may_be_one_of_several(text: str, fits: bool) -> None:
    assert parse(text).matches(make_row(devices=(make_process_device(type="C+G"),))) is fits


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("user:bob,ALI", True),
        ("user:bob,carol", False),
        ("user=bob,Alice", True),
        ("user=bob,ali", False),
        ("user!=bob,root", True),
        ("user!=bob,alice", False),
        ("job:docker,slurm", True),
        ("job=7,1392969", True),
        ("job!=docker,slurm", False),
        ("cmd:bob,python", False),
        ("type!=G,M", True),
        ("type!=C,M", False),
    ],
)
def test_an_owner_or_a_job_may_be_one_of_several(text: str, fits: bool) -> None:
    row = make_row(job=SLURM)
    assert parse(text).matches(row) is fits
    assert parse(f"-{text}").matches(row) is not fits


def test_an_owner_with_a_comma_in_the_name_is_found_by_it() -> None:
    row = make_row(username="alice,bob")
    assert parse('user="alice,bob"').matches(row)
    assert parse("user:alice,bob").matches(row)
    assert not parse("user!=alice,bob").matches(row)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "mem<10G",
            "mem>=0",
            "mem!=0",
            "util<5",
            "util=0",
            "cpu<1",
            "rss>=0",
            "age<1h",
            "idle<10m",
        ),
        *("user:a", "user!=root", "job:a", "job!=a", "cmd:-", "type:C", "gpu!=9"),
    ],
)
def test_what_is_absent_fits_no_term_but_every_negation(text: str) -> None:
    row = make_row(
        age_seconds=None,
        devices=(),
        username=None,
        name=None,
        command_line=None,
        cpu_percent=None,
        resident_memory_bytes=None,
    )
    assert not parse(text).matches(row)
    assert parse(f"-{text}").matches(row)


def test_idle_time_is_taken_from_rows_that_know_it() -> None:
    row = make_row(idle_seconds=660.0)
    assert parse("idle>10m").matches(row)
    assert not parse("idle>11m").matches(row)
    assert not parse("idle>=0").matches(make_row())


def test_zero_is_a_value() -> None:
    idle = make_row(devices=(make_process_device(sm_utilization_percent=0),), cpu_percent=0.0)
    assert parse("util=0 util<5 cpu=0 mem>0").matches(idle)


def test_memory_is_added_up_over_all_gpus_and_utilization_is_their_mean() -> None:
    assert parse("mem=80G util=85").matches(make_row_on(0, 1))
    shares = tuple(make_process_device(index=i, sm_utilization_percent=i * 50) for i in range(3))
    assert parse("util=50").matches(make_row(devices=shares))


def test_sm_is_not_what_a_process_has() -> None:
    """SM activity is counted by GPU; what a process has is a share of time."""
    with pytest.raises(FilterError, match=r"choose from .*util<5"):
        parse("sm<5")


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.names[0])
def test_the_example_of_every_term_is_valid(term: Any) -> None:
    assert parse(term.example).clauses
    assert term.help
    assert not term.help.endswith(".")
