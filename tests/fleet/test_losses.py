"""What was lost in a span of events, and what is broken or began without one."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from gpudash.cli.arguments import parse
from gpudash.fleet.events import events
from gpudash.fleet.losses import begun, broken, losses
from gpudash.fleet.summary import host_rows, totals
from gpudash.model.fleet import Event, FleetHost
from gpudash.model.snapshot import Finding
from gpudash.model.state import HELD, HOT, SLOW
from gpudash.model.text import SafeText
from tests.fleet.many import INSTANT, device, fleet, host

HOUR = 3600.0
SINCE = INSTANT - timedelta(hours=24)


def found(*moments: tuple[float, FleetHost]) -> list[Event]:
    """What happened from one hour to the next."""
    return [*events(fleet((each,), seconds=HOUR * at, jobs=()) for at, each in moments)]


def texts(
    known: Sequence[Event], *hosts: FleetHost, since: datetime | None = SINCE, **some: Any
) -> Sequence[str]:
    return losses(known, hosts, since, INSTANT, **some).texts


def without(*gpus: int, **fields: Any) -> FleetHost:
    """A host of eight GPUs, of which these are lost."""
    lost = {n: device(n, "lost", state="lost", job=None, **fields) for n in gpus}
    return host(1, devices=tuple(lost.get(n) or device(n) for n in range(8)))


THERE = host(1)
DOWN = host(1, state="down")


def test_gpus_lose_the_hours_until_they_are_back_or_the_span_ends() -> None:
    lost = found((-20, THERE), (-10, without(0)), (-4, THERE), (-3, without(0, 1)))
    assert texts(lost, without(0, 1)) == ["12.0 GPU-h down or lost: 2 GPUs"]


def test_hosts_lose_the_hours_of_all_their_gpus_and_none_twice() -> None:
    lost = found((-20, THERE), (-10, without(0)), (-8, DOWN), (-7, without(0)), (-5, THERE))
    # Five hours of the GPU, one of which its host was down, too.
    assert texts(lost, THERE) == ["12.0 GPU-h down or lost: 1 host 8.0, 1 GPU 4.0"]


def test_what_slurm_has_powered_down_is_not_lost() -> None:
    off = replace(DOWN, state="powered-down")
    assert found((-20, THERE), (-8, off), (-2, THERE)) == []
    # Of a past that does not know of Slurm.
    assert texts(found((-20, THERE), (-8, DOWN)), off) == []


def test_a_gpu_is_lost_until_it_is_back_at_any_index_or_exchanged() -> None:
    def cards(*uuids: int, lost: int | None = None) -> FleetHost:
        gpus = [device(index, uuid=f"GPU-{uuid}") for index, uuid in enumerate(uuids)]
        if lost is not None:
            gpus.append(device(lost, "lost", state="lost", uuid=f"GPU-{lost}"))
        return host(1, devices=tuple(gpus))

    there, without = cards(0, 1, 2), cards(0, 2, lost=1)
    for last, text in (
        (without, "10.0 GPU-h down or lost: 1 GPU"),
        (cards(0, 2, 1), "6.0 GPU-h down or lost: 1 GPU"),
        (cards(0, 9, 2), "6.0 GPU-h down or lost: 1 GPU"),
    ):
        assert texts(found((-20, there), (-10, without), (-4, last)), last) == [text]


def test_what_was_lost_before_the_span_counts_from_its_beginning() -> None:
    lost = found((-23, without(0)), (-20, THERE))
    assert texts(lost, THERE) == ["4.0 GPU-h down or lost: 1 GPU"]
    assert texts(lost, THERE, since=None) == []
    new = found((-23, host(1, *["busy"] * 7)), (-20, THERE))
    assert [each.kind for each in new] == ["gpu-returned"]
    assert texts(new, THERE) == []


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (without(3, age_seconds=2 * HOUR), "2.0 GPU-h down or lost: 1 GPU"),
        (without(3, age_seconds=99 * HOUR), "24.0 GPU-h down or lost: 1 GPU"),
        (host(1, state="down", age_seconds=2 * HOUR), "16.0 GPU-h down or lost: 1 host"),
        (host(1, state="down", age_seconds=200 * HOUR), "192 GPU-h down or lost: 1 host"),
    ],
)
def test_what_has_been_lost_for_longer_than_events_are_known_counts(
    known: FleetHost, text: str
) -> None:
    assert texts((), known) == [text]


def test_it_is_said_that_more_was_lost_where_not_all_is_known() -> None:
    lost = found((-20, THERE), (-10, without(0)), (-8, THERE))
    assert texts(lost, without(1, age_seconds=None)) == ["at least 2.0 GPU-h down or lost: 1 GPU"]
    gone = found((-20, THERE), (-10, DOWN), (-8, THERE))
    assert texts(gone) == ["1 host down or lost"]
    assert texts((), without(1, age_seconds=None)) == []


def test_errors_are_counted_and_a_filter_hides_no_return() -> None:
    broken = host(1, devices=(device(0, xid=79, xid_seconds=1.0), *THERE.devices[1:]))
    lost = found((-20, THERE), (-10, without(0, 1)), (-8, THERE), (-3, broken))
    assert texts(lost, THERE) == ["4.0 GPU-h down or lost: 2 GPUs", "1 XID"]
    some = [each for each in lost if each.kind == "gpu-lost" and each.gpu == "0"]
    assert texts(lost, THERE, passing=some) == ["2.0 GPU-h down or lost: 1 GPU"]
    assert texts(lost, without(5, age_seconds=HOUR), passing=[]) == []


def test_the_command_has_the_sum_below_its_heading(capfd: pytest.CaptureFixture[str]) -> None:
    options = parse(["events", "--demo=fleet-64x8", "--since=12h"])
    assert options.run(options) == 0
    heading, sums, blank, _ = capfd.readouterr().out.split("\n", 3)
    assert " events, " in heading
    assert " GPU-h down or lost: " in sums
    assert blank == ""


def test_what_is_broken_is_what_the_heading_of_all_pages_counts() -> None:
    hosts = (
        host(1, "lost", "unusable", "hot", "slow", "busy", expected_devices=5),
        host(2, state="stale"),
        host(3, state="connecting", devices=()),
        host(4, *["busy"] * 7),
        host(5, "unusable", expected_devices=1),
    )
    known = Finding(
        rule="gpus-unusable",
        level="critical",
        sentence=SafeText("x"),
        hosts=(SafeText("gpu0005"),),
        uuids=(SafeText("GPU-of-5"),),
        acknowledged=SafeText("RMA"),
    )
    mine = replace(hosts[4].devices[0], uuid=SafeText("GPU-of-5"))
    hosts = (*hosts[:4], replace(hosts[4], devices=(mine,)))
    rows = host_rows(fleet(hosts, findings=(known,)))
    names = ("gpu0002", "gpu0001:0", "gpu0001:1", "gpu0004 -1")
    assert broken(rows) == names
    counts = totals(rows).counts
    assert (counts["lost"], counts["unusable"], counts["acknowledged"]) == (1, 1, 1)


def test_what_began_is_counted_where_it_is_known_since_when() -> None:
    uuids = {f"GPU-{n}": 60.0 for n in range(3)}
    hosts = (
        host(1, "hot", "hot", "slow", "slow", slow_seconds={**uuids, "GPU-3": 99 * HOUR}),
        host(2, "slow"),
        host(
            3,
            devices=(
                device(0, "held-idle", idle_seconds=99 * HOUR),
                device(1, "held-idle", idle_seconds=HOUR),
                device(2, "held-idle", idle_seconds=None),
                device(3, "divided", idle_seconds=None),
                *(
                    device(n, "held-idle", idle_seconds=HOUR, uuid=f"MIG-{n}", parent_uuid="GPU-3")
                    for n in (1, 2)
                ),
            ),
        ),
        *(host(n, state="stale", age_seconds=n * HOUR) for n in (4, 40)),
        host(5, "held-idle", state="down"),
    )
    rows = host_rows(fleet(hosts))
    what = SafeText("x")
    place = {"host": SafeText("gpu0001"), "gpu": SafeText("0"), "uuid": SafeText("GPU-0")}
    hot = Event(at=INSTANT, kind="throttled", what=what, **place)
    new = begun(rows, (hot,), SINCE, INSTANT)
    assert new == {"STALE": 1, HOT.word: 1, SLOW.word: 1, HELD.word: 2}
    assert begun(rows[:0], (), SINCE, INSTANT) == {}
