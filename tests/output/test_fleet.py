import csv
import io
from datetime import datetime, timedelta, timezone

import pytest
from msgspec.structs import replace

from gpudash.fleet.reduce import Reducer
from gpudash.model.fleet import FleetDevice, FleetHost, FleetSnapshot, FleetSource, FleetUser
from gpudash.model.snapshot import Finding
from gpudash.model.text import clean, width
from gpudash.output.fleet import devices_csv, hosts_csv, render, users_csv


def device(index: int, status: str, **fields: object) -> FleetDevice:
    return FleetDevice(
        index=index,
        uuid=clean(f"GPU-{index}"),
        status=status,
        gpu_utilization_percent=50.0,
        power_usage_mw=300_000,
        users=(clean("alice"),),
        **fields,  # type: ignore[arg-type]
    )


SNAPSHOT = FleetSnapshot(
    taken_at=datetime(2026, 11, 23, 12, tzinfo=timezone.utc),
    sources=(
        FleetSource(
            kind="prometheus",
            name=clean("http://prom"),
            state="stale",
            message=clean("does not answer"),
            age_seconds=42.0,
            expected_hosts=4,
            warnings=(clean("partial response"),),
        ),
    ),
    hosts=(
        FleetHost(
            name=clean("gpu01"),
            age_seconds=7.0,
            devices=(device(0, "busy"), device(1, "held-idle")),
        ),
        FleetHost(name=clean("gpu02"), age_seconds=3.0, devices=(device(0, "lost"),)),
        FleetHost(name=clean("gpu03"), state="down", message=clean("No route to host")),
    ),
    users=(FleetUser(name=clean("alice"), hosts=2, devices=3, busy=1, held_idle=1),),
    findings=(
        Finding(
            rule="gpus-lost",
            level="critical",
            sentence=clean("1 GPU on 1 host fell off the bus"),
            advice=clean("reboot gpu02"),
            hosts=("gpu02",),
        ),
        Finding(rule="host-down", level="critical", sentence="gpu03 is down", hosts=("gpu03",)),
    ),
)


@pytest.mark.parametrize("cells", [40, 80, 200])
@pytest.mark.parametrize("ascii", [True, False])
def test_no_line_is_wider_than_the_terminal(cells: int, ascii: bool) -> None:
    text = render(SNAPSHOT, width=cells, ascii=ascii)
    assert max(map(width, text.splitlines())) <= cells
    assert not ascii or text.isascii()


def test_the_worst_hosts_come_first_with_how_many_answer() -> None:
    lines = render(SNAPSHOT, width=100).splitlines()
    assert lines[0].startswith("2 of 4 hosts answer, 3 GPUs on 3 hosts  up to 7s old")
    assert lines[1] == "2 critical, since when is not known of all"
    assert "1 LOST" in lines[2]
    named = [line.split()[0] for line in lines if line.startswith("gpu0") and ":" not in line]
    assert named == ["gpu02", "gpu03", "gpu01"]


@pytest.mark.parametrize(
    ("seconds", "shown"), [(60.0, ", since %H:%M"), (86_400.0, ", since %m-%d %H:%M"), (None, "")]
)
def test_a_finding_has_the_time_since_when_it_is(seconds: float | None, shown: str) -> None:
    known, _ = SNAPSHOT.findings
    text = render(replace(SNAPSHOT, findings=(replace(known, held_seconds=seconds),)))
    began = SNAPSHOT.taken_at.astimezone() - timedelta(seconds=seconds or 0)
    assert f"fell off the bus{began.strftime(shown)}\n" in text


def test_one_host_answers() -> None:
    host = FleetHost(name=clean("gpu01"), devices=(device(0, "busy"),))
    text = render(FleetSnapshot(taken_at=SNAPSHOT.taken_at, hosts=(host,)), width=80)
    assert text.startswith("1 host answers, 1 GPU  ")


WORDS = ("lost", "busy", "held-idle", "in-use", "free", "unknown", "leased")
CROWDED = FleetSnapshot(
    taken_at=SNAPSHOT.taken_at,
    hosts=(FleetHost(name=clean("gpu01"), devices=tuple(map(device, range(7), WORDS))),),
)
"""A host with GPUs in more states than a line has room for."""


def test_the_sums_are_there_where_the_states_fill_a_line() -> None:
    lines = render(CROWDED, width=80).splitlines()
    assert lines[1] == "nothing critical, no warning"
    assert lines[3] == "mean 50%  2.1kW  hottest -"


def test_what_does_not_fit_in_a_line_goes_on_in_the_next() -> None:
    head, _, _ = render(CROWDED, width=40).partition("\n\n")
    assert "1 held idle, 1 in use,\n1 leased, 1 free, 1 unknown\nmean 50%" in head


def test_what_fails_is_named_with_its_reason() -> None:
    text = render(SNAPSHOT, width=100)
    assert "! prometheus http://prom: stale, 42s old: does not answer" in text
    assert "! prometheus http://prom: partial response" in text
    assert "critical: 1 GPU on 1 host fell off the bus\n  reboot gpu02\n" in text


def test_warnings_beyond_the_first_are_counted() -> None:
    source = FleetSource(
        kind="prometheus", name=clean("p"), warnings=tuple(clean(f"w{n}") for n in range(9))
    )
    text = render(FleetSnapshot(taken_at=SNAPSHOT.taken_at, sources=(source,)), width=100)
    assert "  and 1 more warning\n" in text


def test_what_does_not_answer_is_explained_once() -> None:
    text = render(Reducer().reduce(SNAPSHOT), width=200)
    assert "gpu03 cannot be reached: No route to host" in text
    assert text.count("No route to host") == 1
    assert text.count("partial response") == 1


def test_hostile_names_cannot_reach_the_terminal() -> None:
    evil = FleetHost(name="a\x1b]0;x\x07\nb", age_seconds=1.0)  # type: ignore[arg-type]
    text = render(FleetSnapshot(taken_at=SNAPSHOT.taken_at, hosts=(evil,)), width=100)
    assert "\x1b" not in text
    assert "\x07" not in text


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_has_a_row_for_each_host_gpu_and_user() -> None:
    hosts = rows(hosts_csv(SNAPSHOT))
    assert [row["name"] for row in hosts] == ["gpu01", "gpu02", "gpu03"]
    assert (hosts[0]["gpus"], hosts[0]["gpus_busy"], hosts[0]["gpus_held_idle"]) == ("2", "1", "1")
    assert (hosts[2]["state"], hosts[2]["gpu_utilization_percent"]) == ("down", "")
    gpus = rows(devices_csv(SNAPSHOT))
    assert [(row["host"], row["uuid"]) for row in gpus][1:] == [
        ("gpu01", "GPU-1"),
        ("gpu02", "GPU-0"),
    ]
    assert gpus[0]["users"] == "alice"
    assert gpus[0]["memory_used_bytes"] == ""
    [user] = rows(users_csv(SNAPSHOT))
    assert (user["name"], user["held_idle"], user["idle_gpu_hours"]) == ("alice", "1", "")
