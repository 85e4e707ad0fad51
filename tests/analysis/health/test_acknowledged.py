"""What is acknowledged is no news: on one host and many, whatever stands in the file."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from itertools import starmap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json
from msgspec.structs import replace

from gpudash.analysis.health.acknowledged import (
    Acknowledged,
    Acknowledgement,
    InForce,
    Place,
    acknowledgement,
    in_force,
    load,
    place_of,
    until_of,
    write,
)
from gpudash.analysis.health.engine import Diagnosis, marked
from gpudash.fleet.reduce import Reducer
from gpudash.fleet.summary import host_rows
from gpudash.model.errors import ActionError, UsageError
from gpudash.model.fleet import FleetDevice, FleetSnapshot
from gpudash.model.snapshot import Finding
from tests.factories import make_device, make_host, make_snapshot
from tests.fleet.many import INSTANT, device, host

LATER = datetime.now(timezone.utc) + timedelta(days=9)
NOW = datetime(2026, 11, 26, 12, tzinfo=timezone.utc)


def known(file: Path, *entries: Acknowledgement) -> Callable[[], InForce]:
    """What a file says once these are written to it."""
    write(str(file), entries)
    return Acknowledged(lambda: str(file)).now


def of(place: str, reason: str = "RMA 4711", until: datetime | None = None) -> Acknowledgement:
    return replace(acknowledgement(place_of(place, "here"), until=until, reason=reason), by="alice")


def both(findings: tuple[Finding, ...] | None) -> tuple[list[Finding], list[Finding]]:
    """The new findings, and those that are known."""
    found = findings or ()
    return (
        [each for each in found if each.acknowledged is None],
        [each for each in found if each.acknowledged is not None],
    )


def test_of_two_lost_gpus_of_a_host_the_one_that_is_not_acknowledged_is_new(tmp_path: Path) -> None:
    devices = tuple(make_device(index=i, state="lost" if i < 2 else "ok") for i in range(4))
    snapshot = make_snapshot(devices=devices, host=make_host(hostname="node1"), topology=None)
    acknowledged = known(tmp_path / "a", of("node1:1"))
    new, old = both(Diagnosis(acknowledged).examine(snapshot).findings)
    assert {each.indices for each in new if each.rule == "lost"} == {(0,)}
    assert [(each.indices, each.acknowledged) for each in old] == [((1,), "RMA 4711, alice")]


def test_of_many_hosts_the_part_that_is_not_acknowledged_is_new(tmp_path: Path) -> None:
    hosts = (
        host(1, *["busy"] * 7, "lost"),
        host(2, "lost", "lost", *["busy"] * 6),
        host(3, state="down", message="No route to host"),
        host(4, state="down"),
    )
    snapshot = FleetSnapshot(taken_at=INSTANT, hosts=hosts)
    whole = Reducer().reduce(snapshot).findings
    assert {each.rule: each.hosts for each in whole} == {
        "gpus-lost": ("gpu0001", "gpu0002"),
        "host-down": ("gpu0003", "gpu0004"),
    }
    entries = of("gpu0001:7"), of("gpu0002:0", "broken fan"), of("gpu0003.example.org", "moved")
    reducer = Reducer(acknowledged=known(tmp_path / "a", *entries, of("gpu0003", "moved")))
    new, old = both(reducer.reduce(snapshot).findings)
    assert {each.rule: (each.hosts, len(each.uuids)) for each in new} == {
        "gpus-lost": (("gpu0002",), 1),
        "host-down": (("gpu0004",), 0),
    }
    assert {each.rule: each.hosts for each in old} == {
        "gpus-lost": ("gpu0001", "gpu0002"),
        "host-down": ("gpu0003",),
    }
    assert {each.acknowledged for each in old} == {
        "RMA 4711, alice; broken fan, alice",
        "moved, alice",
    }


def test_what_is_lost_again_after_it_was_back_is_new_unless_an_end_was_given(
    tmp_path: Path,
) -> None:
    entries = of("gpu0001:7"), of("gpu0002"), of("gpu0003:7", until=LATER)
    reducer = Reducer(acknowledged=known(tmp_path / "a", *entries))

    def found(hours: float) -> set[str]:
        """Return the hosts with news 20 hours after that of what was lost this long ago."""
        lost = device(7, "lost", state="lost", age_seconds=hours * 3600)
        there = tuple(map(device, range(7)))
        hosts = (
            host(1, devices=(*there, lost)),
            host(2, state="down", age_seconds=hours * 3600),
            host(3, devices=(*there, lost)),
        )
        at = datetime.now(timezone.utc) + timedelta(hours=20)
        new, _ = both(reducer.reduce(FleetSnapshot(taken_at=at, hosts=hosts)).findings)
        return {name for each in new for name in each.hosts}

    assert found(44) == set()
    assert found(19.5) == set()
    assert found(3) == {"gpu0001", "gpu0002"}


def test_a_gpu_that_is_not_even_listed_is_acknowledged_by_its_index(tmp_path: Path) -> None:
    snapshot = FleetSnapshot(taken_at=INSTANT, hosts=(host(1, *["busy"] * 6),))
    reducer = Reducer(acknowledged=known(tmp_path / "a", of("gpu0001:7")))
    new, old = both(reducer.reduce(snapshot).findings)
    assert [each.evidence[0].value for each in (*new, *old)] == [1, 1]


def test_an_index_names_the_gpu_that_was_lost_and_not_the_one_that_has_it_since(
    tmp_path: Path,
) -> None:
    reducer = Reducer(acknowledged=known(tmp_path / "a", of("gpu0001:1")))
    gone = device(1, "lost", uuid="GPU-lost", state="lost", job=None)
    broken = device(1, xid=79, xid_seconds=60.0)
    hosts = (host(1, devices=(device(0), broken, gone), expected_devices=3),)
    new, old = both(reducer.reduce(FleetSnapshot(taken_at=INSTANT, hosts=hosts)).findings)
    assert [each.rule for each in new] == ["xid-critical"]
    assert [(each.rule, each.uuids) for each in old] == [("gpus-lost", ("GPU-lost",))]


def test_after_a_renumbering_it_is_of_the_gpu_that_it_was_given_for(tmp_path: Path) -> None:
    acknowledged = known(tmp_path / "a", acknowledgement(Place("gpu0001", 5, "GPU-5")))

    def gpu(index: int, number: int) -> FleetDevice:
        return device(index, uuid=f"GPU-{number}", xid=79 if number > 4 else None, xid_seconds=60.0)

    # The GPUs behind that which fell off the bus have moved up.
    there = [number for number in range(8) if number != 2]
    devices = tuple(starmap(gpu, enumerate(there)))
    snapshot = FleetSnapshot(taken_at=INSTANT, hosts=(host(1, devices=devices),))
    new, old = both(Reducer(acknowledged=acknowledged).reduce(snapshot).findings)
    assert [each.uuids for each in new if each.uuids] == [("GPU-6", "GPU-7")]
    assert [each.uuids for each in old] == [("GPU-5",)]
    lost = tuple(
        make_device(index=index, uuid=f"GPU-{number}", state="lost")
        for index, number in enumerate(there)
    )
    alone = make_snapshot(devices=lost, host=make_host(hostname="gpu0001"), topology=None)
    new, old = both(Diagnosis(acknowledged).examine(alone).findings)
    assert "GPU-6" in {uuid for each in new for uuid in each.uuids}
    assert [each.uuids for each in old] == [("GPU-5",)]
    for index, is_known in (4, True), (5, False):
        far = Diagnosis().examine(replace(alone, devices=(lost[index],)))
        found = {each.acknowledged for each in marked(far, acknowledged(), "x").findings or ()}
        assert (None not in found) == is_known


def test_a_gpu_that_is_not_even_listed_after_a_renumbering_is_known_as_one_of_the_missing(
    tmp_path: Path,
) -> None:
    entries = [acknowledgement(Place("gpu0001", index, f"GPU-{index}")) for index in (2, 3)]
    moved = tuple(device(index, uuid=f"GPU-{index + 2}") for index in range(2, 5))
    devices = (device(0), device(1), *moved)
    snapshot = FleetSnapshot(taken_at=INSTANT, hosts=(host(1, devices=devices),))
    new, old = both(Reducer(acknowledged=known(tmp_path / "a", *entries)).reduce(snapshot).findings)
    assert [each.evidence[0].value for each in (*new, *old)] == [1, 2]


def test_of_a_gpu_whose_uuid_cannot_be_read_its_index_decides(tmp_path: Path) -> None:
    acknowledged = known(tmp_path / "a", acknowledgement(Place("gpu0001", 1, "GPU-1")))
    lost = device(1, "lost", uuid=None, state="lost")
    hosts = (host(1, devices=(device(0), lost), expected_devices=2),)
    snapshot = FleetSnapshot(taken_at=INSTANT, hosts=hosts)
    assert not both(Reducer(acknowledged=acknowledged).reduce(snapshot).findings)[0]
    one = make_snapshot(
        devices=(make_device(index=1, uuid=None, state="lost"),),
        host=make_host(hostname="gpu0001"),
        topology=None,
    )
    assert not both(Diagnosis(acknowledged).examine(one).findings)[0]


def test_two_gpus_that_had_one_index_are_acknowledged_and_taken_back_apart(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a"
    first, second = (Place("gpu0001", 5, f"GPU-{letter}") for letter in "ab")
    write(str(file), [acknowledgement(first), acknowledgement(second)])
    write(str(file), [acknowledgement(first._replace(gpu=4), taken_back=True)])
    assert [each.place for each in in_force(str(file)).found.values()] == [second]


def test_a_straggler_is_compared_to_its_job_all_the_same(tmp_path: Path) -> None:
    slow = device(0, sm_clock_mhz=900)
    others = tuple(device(index, sm_clock_mhz=1900) for index in range(1, 8))
    snapshot = FleetSnapshot(taken_at=INSTANT, hosts=(host(1, devices=(slow, *others)),))
    assert [each.rule for each in Reducer().reduce(snapshot).findings] == ["straggler"]
    reducer = Reducer(acknowledged=known(tmp_path / "a", of("gpu0001:0")))
    found = reducer.reduce(snapshot)
    new, old = both(found.findings)
    assert not new
    assert [each.rule for each in old] == ["straggler"]
    (row,) = host_rows(found)
    assert (row.counts, row.news) == ({"slow": 1, "busy": 7}, {"acknowledged": 1, "busy": 7})


def test_findings_of_a_host_that_examines_itself_are_marked_where_they_arrive(
    tmp_path: Path,
) -> None:
    devices = tuple(make_device(index=i, state="lost" if i < 2 else "ok") for i in range(4))
    far = Diagnosis().examine(make_snapshot(devices=devices, topology=None))
    both_gpus = known(tmp_path / "a", of("lab7:0"), of("lab7:1"))()
    assert not both(marked(far, both_gpus, "lab7").findings)[0]
    one = known(tmp_path / "b", of("lab7:0"))()
    assert not both(marked(far, one, "lab7").findings)[1]


def test_it_ends_by_itself_or_is_taken_back(tmp_path: Path) -> None:
    file = tmp_path / "a"
    write(str(file), [of("gpu1", until=NOW + timedelta(hours=8)), of("gpu2:3")])
    moment = [NOW.timestamp()]
    acknowledged = Acknowledged(lambda: str(file), lambda: moment[0])
    assert [*acknowledged.now().found] == [("gpu1", None), ("gpu2", 3)]
    moment[0] += 8 * 3600
    assert [*acknowledged.now().found] == [("gpu2", 3)]
    write(str(file), [acknowledgement(Place("gpu2", 3), taken_back=True)])
    last = file.read_text().splitlines()[-1]
    assert '"by":' in last
    assert '"at":' in last
    assert not Acknowledged(lambda: str(file), lambda: moment[0]).now().found


def test_a_bad_line_is_named_and_takes_nothing_from_the_others(tmp_path: Path) -> None:
    file = tmp_path / "a"
    write(str(file), [of("gpu1")])
    with file.open("ab") as opened:
        opened.write(b'\xff\n{"host": 1}\n[[[[\n{"host": "x", "gpu": -1}\n{"host":"torn')
    write(str(file), [of("gpu2")])
    found = in_force(str(file))
    assert [*found.found] == [("gpu1", None), ("gpu2", None)]
    (finding,) = found.finding
    assert finding.level == "warn"
    assert "5 lines are not an acknowledgement, the first is line 2" in finding.sentence


@given(st.binary(max_size=300))
def test_whatever_stands_there_is_read_to_its_end(data: bytes) -> None:
    descriptor = os.memfd_create("acknowledged")
    os.write(descriptor, data)
    found, problem = load(f"/proc/self/fd/{descriptor}")
    os.close(descriptor)
    assert found or problem or not data.strip(b"\n\r\t \x0b\x0c")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (os.mkfifo, "not a regular file"),
        (lambda file: file.mkdir(), "Is a directory"),
        (lambda file: file.write_bytes(b"x" * (1 << 20) + b"y"), "larger than 1 MiB"),
    ],
)
def test_a_file_that_cannot_be_one_is_one_line(
    tmp_path: Path, make: Callable[[Path], object], words: str
) -> None:
    file = tmp_path / "a"
    make(file)
    found = in_force(str(file))
    assert not found.found
    assert words in found.finding[0].sentence


def test_texts_of_others_are_cleaned(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text('{"host":"gpu1","reason":"\\u001b[31mred\\n","by":"\\u202eeve"}\n')
    text = in_force(str(file)).text(["gpu1"], {})
    assert text.isprintable()


def test_a_file_that_has_grown_keeps_what_is_in_force(tmp_path: Path) -> None:
    file = tmp_path / "a"
    past = NOW - timedelta(days=400)
    write(str(file), [of("gpu1"), *(of(f"old{i}", "x" * 150, past) for i in range(2500))])
    write(str(file), [of("gpu2")])
    assert [*in_force(str(file)).found] == [("gpu1", None), ("gpu2", None)]
    assert file.stat().st_size < 1000


def test_whoever_reads_a_file_meanwhile_has_it_whole(tmp_path: Path) -> None:
    file, link = tmp_path / "a", tmp_path / "link"
    past = NOW - timedelta(days=400)
    write(str(file), [of(f"old{i}", "x" * 150, past) for i in range(2500)])
    file.chmod(0o664)
    link.symlink_to(file)
    before = file.read_bytes()
    with file.open("rb") as opened:
        write(str(link), [of("gpu2")])
        assert opened.read() == before
    assert [*in_force(str(file)).found] == [("gpu2", None)]
    assert (file.stat().st_mode & 0o777, link.is_symlink()) == (0o664, True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "link"]


def test_what_several_write_at_once_stays_while_the_file_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "a"
    past = NOW - timedelta(days=400)
    write(str(file), [of(f"old{i}", "x" * 150, past) for i in range(2500)])

    def add(number: int) -> None:
        write(str(file), [of(f"gpu{number}")])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert {host for host, _ in in_force(str(file)).found} == {f"gpu{i}" for i in range(40)}


def test_a_file_that_is_too_large_to_be_read_is_not_emptied(tmp_path: Path) -> None:
    file = tmp_path / "a"
    before = b"".join(json.encode(of(f"gpu{i}", "x" * 150)) + b"\n" for i in range(6000))
    file.write_bytes(before)
    with pytest.raises(ActionError, match="1 MiB"):
        write(str(file), [of("another")])
    assert file.read_bytes() == before


def test_a_folder_that_forbids_it_is_one_error(
    as_nobody: Callable[[], None], tmp_path: Path
) -> None:
    as_nobody()
    with pytest.raises(ActionError, match="Permission denied"):
        write("/proc/none/acknowledged.jsonl" if os.geteuid() == 0 else "/root/a", [of("gpu1")])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("gpu20:5", Place("gpu20", 5)),
        ("gpu20", Place("gpu20")),
        (":3", Place("here", 3)),
        ("prod/gpu20:0", Place("prod/gpu20", 0)),
        ("[fe80::1]:2", Place("fe80::1", 2)),
    ],
)
def test_places_are_typed_as_hosts_and_gpus(text: str, place: Place) -> None:
    assert place_of(text, "here") == place


@pytest.mark.parametrize("text", ["", ":", "gpu20:x", "gpu20:123456", "a\nb", "x" * 300, "gpu1;rm"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names no host"):
        place_of(text, "here")


def test_until_is_a_span_or_a_time_to_come() -> None:
    assert until_of("8h", NOW) == NOW + timedelta(hours=8)
    assert until_of("2026-11-27T12:00+00:00", NOW) == NOW + timedelta(days=1)
    for text in ("yesterday", "2020-01-01", "0s", "99999999999d"):
        with pytest.raises(UsageError, match="not a time in the future"):
            until_of(text, NOW)


def test_a_host_is_dim_and_behind_those_with_something_new_once_all_of_it_is_known(
    tmp_path: Path,
) -> None:
    hosts = host(1, *["busy"] * 7, "lost"), host(2, state="down"), host(3, "hot", *["busy"] * 7)
    acknowledged = known(tmp_path / "a", of("gpu0001"), of("gpu0002"))
    reducer = Reducer(acknowledged=acknowledged)
    rows = host_rows(reducer.reduce(FleetSnapshot(taken_at=INSTANT, hosts=hosts)))
    assert [row.level for row in rows] == ["unknown", "unknown", "warn"]
    assert min(rows, key=lambda row: row.worst_first).host.name == "gpu0003"
    assert [row.host.worst_finding for row in rows] == [None, None, "gpus-hot"]
