"""What time does to findings: they appear when they lasted, go when they were away, never flap."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpudash.analysis.health.engine import Diagnosis
from gpudash.analysis.health.findings import findings
from gpudash.analysis.table import device_rows
from gpudash.model.device import Device
from gpudash.model.process import Lease, Process, ProcessDevice
from gpudash.model.snapshot import Host, Snapshot
from gpudash.model.wire import decode, encode
from tests.analysis.health.examined import Watched, host, later, of_device
from tests.factories import (
    GIB,
    gpu_uuid,
    make_device,
    make_host,
    make_process,
    make_process_device,
    make_snapshot,
    make_topology,
)
from tests.strategies import snapshots, values

FINE = of_device()
CAPPED = of_device(clocks_event_reasons=("sw-power-cap",))


def test_later_a_symptom_must_last_before_it_is_reported(watched: Watched) -> None:
    watched.see(FINE, 5)
    seen = ["power-capped" in watched.see(CAPPED) for _ in range(6)]
    assert seen == [False, False, False, True, True, True]
    assert watched.see(CAPPED)["power-capped"].held_seconds == 6


def test_alternating_symptom_that_never_lasts_is_never_reported(watched: Watched) -> None:
    watched.see(FINE)
    for second in range(60):
        assert watched.see(FINE if second % 2 else CAPPED) == {}


@pytest.mark.parametrize(
    ("rule", "overrides"),
    [
        ("power-capped", {"clocks_event_reasons": ("sw-power-cap",)}),
        ("thermal-slowdown-software", {"clocks_event_reasons": ("sw-thermal-slowdown",)}),
        ("thermal-slowdown-hardware", {"clocks_event_reasons": ("hw-thermal-slowdown",)}),
        ("power-brake", {"clocks_event_reasons": ("hw-power-brake-slowdown",)}),
        ("hardware-slowdown", {"clocks_event_reasons": ("hw-slowdown",)}),
        ("clocks-low", {"sm_clock_mhz": 900}),
        ("pcie-link-reduced", {"pcie_link_width": 8}),
        ("pcie-replays", {"pcie_replays_per_second": 40.0}),
        ("memory-almost-full", {"memory_free_bytes": 2 * GIB}),
        ("nvlink-errors", {"nvlink_erring_links": (1,)}),
        ("fabric-not-ready", {"fabric_state": "in-progress"}),
    ],
)
def test_nothing_flaps(rule: str, overrides: dict[str, Any], watched: Watched) -> None:
    watched.see(FINE, 5)
    wrong = of_device(**overrides)
    while rule not in watched.see(wrong):
        assert watched.second < 60
    flickering = [watched.see(FINE if second % 3 else wrong) for second in range(60)]
    assert all(list(told) == [rule] for told in flickering)


def test_symptom_that_stays_away_goes(watched: Watched) -> None:
    watched.see(CAPPED, 5)
    told = ["power-capped" in watched.see(FINE) for _ in range(12)]
    assert told[:8] == [True] * 8
    assert not told[-1]


def test_unowned_memory_is_reported_no_longer_than_it_is_so(watched: Watched) -> None:
    watched.see(FINE)
    orphaned = of_device(memory_unaccounted_bytes=9 << 30)
    assert "memory-unaccounted" in watched.see(orphaned, 10)
    assert "memory-unaccounted" not in watched.see(of_device(memory_unaccounted_bytes=0))


def test_level_that_wavers_stays_at_the_worse(watched: Watched) -> None:
    lowered = {"clocks_event_reasons": ("sw-power-cap",), "default_power_limit_mw": 800_000}
    slower, faster = (of_device(**lowered, sm_clock_mhz=clock) for clock in (1780, 1790))
    watched.see(slower, 5)
    levels = [watched.see(faster if s % 3 else slower)["power-capped"].level for s in range(20)]
    assert set(levels) == {"warn"}
    assert watched.see(faster, 15)["power-capped"].level == "info"


def test_broken_hardware_is_reported_at_once(watched: Watched) -> None:
    watched.see(FINE, 5)
    assert "ecc-uncorrected" in watched.see(of_device(ecc_uncorrected_volatile_count=1))


def test_findings_go_with_their_device(watched: Watched) -> None:
    watched.see(CAPPED, 5)
    lost = of_device(state="lost", clocks_event_reasons=None)
    assert list(watched.see(lost)) == ["lost"]
    assert watched.see(host(devices=())) == {}


def test_pcie_generation_read_while_idle_is_not_held_against_a_gpu_that_starts(
    watched: Watched,
) -> None:
    idle = of_device(gpu_utilization_percent=0, pcie_link_generation=1, performance_state=8)
    watched.see(idle, 5)
    # The generation is read every ten seconds only.
    stale = of_device(pcie_link_generation=1, performance_state=0)
    assert watched.see(stale, 11) == {}
    assert watched.see(FINE, 5) == {}
    assert "pcie-link-reduced" in watched.see(stale, 30)


def test_nvlinks_that_go_down_on_all_gpus_at_once_are_noticed(watched: Watched) -> None:
    up, down = (
        host(devices=tuple(make_device(index=i, nvlink_count=count) for i in range(2)))
        for count in (18, 12)
    )
    watched.see(up, 2)
    finding = watched.see(down, 8)["nvlink-down"]
    assert finding.sentence == "GPU 0-1 have 12 of 18 NVLinks up"


def test_host_that_was_restarted_starts_again() -> None:
    diagnosis = Diagnosis()
    diagnosis.examine(later(CAPPED, 1000))
    (finding,) = diagnosis.examine(CAPPED).findings or ()
    assert finding.held_seconds is None


def test_wall_clock_that_is_set_back_changes_nothing() -> None:
    diagnosis = Diagnosis()
    diagnosis.examine(CAPPED)
    moved = replace(later(CAPPED, 4), taken_at=CAPPED.taken_at.replace(year=2020))
    (finding,) = diagnosis.examine(moved).findings or ()
    assert finding.held_seconds == 4


def test_many_gpus_in_trouble_are_few_sentences() -> None:
    devices = tuple(
        make_device(
            index=i,
            clocks_event_reasons=("sw-power-cap", "sw-thermal-slowdown"),
            memory_free_bytes=0,
        )
        for i in range(64)
    )
    told = findings(host(devices=devices))
    assert len(told) == 3
    assert all(len(finding.evidence) <= 32 for finding in told)
    assert all(finding.sentence.startswith("GPU 0-63 ") for finding in told)
    for finding in told:
        *proofs, last = finding.evidence
        of_each = [
            [proof.name for proof in proofs if proof.of == of] for of in {p.of for p in proofs}
        ]
        assert all(names == of_each[0] for names in of_each)
        assert (last.name, last.value) == ("left_out_count", 64 - len(of_each))


@given(st.lists(snapshots(), min_size=1, max_size=2))
def test_no_snapshot_makes_a_rule_fail(samples: list) -> None:  # type: ignore[type-arg]
    diagnosis = Diagnosis()
    for sample in samples:
        judged = diagnosis.examine(replace(sample, findings=None, brief=False))
        assert judged.findings is not None
        assert all(finding.sentence.isprintable() for finding in judged.findings)
        assert decode(encode(judged)) == judged
        device_rows(judged)


@given(st.floats(-1e6, 1e6), st.one_of(st.none(), st.floats(0, 1e9)))
def test_any_clock_is_taken(seconds: float, uptime: float | None) -> None:
    diagnosis = Diagnosis()
    diagnosis.examine(CAPPED)
    strange = replace(CAPPED, host=make_host(uptime_seconds=uptime))
    assert diagnosis.examine(later(strange, seconds)).findings is not None


def test_findings_go_with_their_device_also_while_the_clock_stands() -> None:
    diagnosis = Diagnosis()
    diagnosis.examine(CAPPED)
    assert diagnosis.examine(host(devices=())).findings == ()


def test_device_without_a_uuid_is_judged() -> None:
    assert findings(make_snapshot(devices=(Device(index=0),), processes=())) == ()


def test_samples_within_a_second_have_the_findings_of_the_last_examination() -> None:
    diagnosis = Diagnosis()
    cool, hot = of_device(), of_device(clocks_event_reasons=("hw-thermal-slowdown",))
    assert not diagnosis.examine(cool).findings
    assert not diagnosis.examine(later(hot, 0.25)).findings
    assert diagnosis.examine(later(hot, 1.0)).findings
    assert diagnosis.examine(later(cool, 1.25)).findings


def test_a_gpu_that_is_lost_is_reported_however_fast_samples_come() -> None:
    diagnosis = Diagnosis()
    diagnosis.examine(of_device())
    judged = diagnosis.examine(later(of_device(state="lost"), 0.1))
    assert [finding.rule for finding in judged.findings or ()] == ["lost"]


def like(
    make: Callable[..., Any], kind: type[msgspec.Struct], *kept: str
) -> st.SearchStrategy[Any]:
    """What a factory makes, a few fields of which are any value of their types."""
    fields = {f.name: values(f.type) for f in msgspec.structs.fields(kind) if f.name not in kept}
    return st.fixed_dictionaries({}, optional=fields).map(lambda given: make(**given))


def make_lease(**overrides: Any) -> Lease:
    return Lease(**{"uuid": gpu_uuid(0), "index": 0, **overrides}, is_used=False)


def on_two_gpus(
    one: Device, other: Device, process: Process, share: ProcessDevice, lease: Lease, of: Host
) -> Snapshot:
    second = {"index": 1, "uuid": gpu_uuid(1)}
    shares = (share, replace(share, **second))
    return host(
        devices=(one, replace(other, **second)),
        processes=(replace(process, devices=shares),),
        topology=make_topology(2, p2p_read=(("X", "CNS"), ("CNS", "X"))),
        leases=(lease,),
        host=of,
    )


DEVICES = like(make_device, Device, "uuid", "index", "parent_uuid")
HOSTS = st.builds(
    on_two_gpus,
    DEVICES,
    DEVICES,
    like(make_process, Process, "devices"),
    like(make_process_device, ProcessDevice, "uuid", "index", "type"),
    like(make_lease, Lease, "uuid", "is_used"),
    like(make_host, Host),
)


@given(st.lists(HOSTS, min_size=1, max_size=2))
def test_no_finding_is_refused_by_the_wire(samples: list[Snapshot]) -> None:
    diagnosis = Diagnosis()
    for sample in samples:
        judged = diagnosis.examine(sample)
        assert judged.findings
        assert all(finding.sentence.isprintable() for finding in judged.findings)
        assert decode(encode(judged)) == judged
