"""Each rule: what it finds in one sample, and what is no problem."""

from inspect import isgeneratorfunction
from typing import Any

import pytest
from msgspec.structs import replace

from gpudash.analysis.health.findings import findings
from gpudash.analysis.health.rule import Registry, Rule
from gpudash.analysis.health.rules import FAMILIES, RULES, checks
from gpudash.model.fault import Fault, XidEvent
from gpudash.model.process import Holder, LastRead
from gpudash.model.records import SramErrors
from gpudash.model.snapshot import Topology
from gpudash.model.state import STATES
from gpudash.model.text import clean
from tests.analysis.health.examined import Watched, found, host, of_device, rules
from tests.factories import GIB, gpu_uuid, make_device, make_topology

ORPHAN: dict[str, Any] = {"memory_unaccounted_bytes": 12 * GIB, "minor_number": 3}
ERRING: dict[str, Any] = {
    "nvlink_count": 18,
    "nvlink_erring_links": (3,),
    "nvlink_crc_errors_per_second": 0.0,
    "nvlink_replays_per_second": 0.0,
    "nvlink_recoveries_per_second": 0.0,
}
CAPPED: dict[str, Any] = {"clocks_event_reasons": ("sw-power-cap",)}


@pytest.mark.parametrize(
    ("overrides", "rule", "level"),
    [
        ({"clocks_event_reasons": ("sw-power-cap",)}, "power-capped", "info"),
        (CAPPED | {"default_power_limit_mw": 800_000}, "power-capped", "warn"),
        (
            CAPPED | {"default_power_limit_mw": 800_000, "power_limit_mw": 650_000},
            "power-capped",
            "warn",
        ),
        (
            CAPPED | {"default_power_limit_mw": 800_000, "power_limit_mw": 800_000},
            "power-capped",
            "info",
        ),
        (
            CAPPED | {"default_power_limit_mw": 800_000, "sm_clock_mhz": 1900},
            "power-capped",
            "info",
        ),
        (CAPPED | {"sm_clock_mhz": 300}, "power-capped", "warn"),
        ({"clocks_event_reasons": ("sw-thermal-slowdown",)}, "thermal-slowdown-software", "warn"),
        (
            {"clocks_event_reasons": ("hw-slowdown", "hw-thermal-slowdown")},
            "thermal-slowdown-hardware",
            "critical",
        ),
        (
            {"clocks_event_reasons": ("hw-slowdown", "hw-power-brake-slowdown")},
            "power-brake",
            "critical",
        ),
        ({"clocks_event_reasons": ("hw-slowdown",)}, "hardware-slowdown", "critical"),
        ({"throttled_hw_power_brake_percent": 20.0}, "power-brake", "critical"),
        ({"throttled_hw_thermal_percent": 20.0}, "thermal-slowdown-hardware", "critical"),
        (
            {"clocks_event_reasons": None, "throttled_sw_thermal_percent": 20.0},
            "thermal-slowdown-software",
            "warn",
        ),
        ({"sm_clock_mhz": 900}, "clocks-low", "warn"),
        ({"gpu_utilization_percent": 99, "sm_active_percent": 0.8}, "few-sms", "info"),
        ({"pcie_link_width": 8}, "pcie-link-reduced", "warn"),
        ({"pcie_link_generation": 1}, "pcie-link-reduced", "warn"),
        ({"pcie_replays_per_second": 12.5}, "pcie-replays", "warn"),
        ({"memory_free_bytes": 3 * GIB}, "memory-almost-full", "info"),
        ({"memory_free_bytes": 0}, "memory-almost-full", "warn"),
        ({"memory_unaccounted_bytes": 2 * GIB}, "memory-unaccounted", "warn"),
        ({"ecc_uncorrected_volatile_count": 1}, "ecc-uncorrected", "critical"),
        (
            {"sram_errors": SramErrors(threshold_exceeded=True, secded_aggregate_count=9)},
            "sram-threshold-exceeded",
            "critical",
        ),
        ({"remapped_rows_pending": True}, "row-remap-pending", "warn"),
        ({"remapped_rows_failed": True}, "row-remap-failed", "critical"),
        ({"retired_pages_pending": True}, "page-retirement-pending", "warn"),
        ({"nvlink_count": 18, "nvlink_erring_links": (3,)}, "nvlink-errors", "warn"),
        (ERRING | {"nvlink_crc_errors_per_second": 0.1}, "nvlink-errors", "info"),
        (ERRING | {"nvlink_crc_errors_per_second": 4.0}, "nvlink-errors", "warn"),
        (ERRING | {"nvlink_receive_errors_per_second": 4.0}, "nvlink-errors", "warn"),
        (ERRING | {"nvlink_recoveries_per_second": 0.1}, "nvlink-errors", "warn"),
        ({"fabric_state": "in-progress"}, "fabric-not-ready", "critical"),
        ({"fabric_state": "completed", "fabric_status_code": 3}, "fabric-not-ready", "critical"),
        (
            {"fabric_state": "completed", "fabric_bandwidth_degraded": True},
            "fabric-degraded",
            "warn",
        ),
        ({"fabric_route_unhealthy": True}, "fabric-unhealthy", "critical"),
        ({"fabric_incorrect_configuration": "no-partition"}, "fabric-unhealthy", "critical"),
        ({"fabric_incorrect_configuration": "something-new"}, "fabric-unhealthy", "critical"),
        ({"fabric_health": "unhealthy"}, "fabric-unhealthy", "critical"),
        (
            {"fabric_health": "unhealthy", "fabric_bandwidth_degraded": True},
            "fabric-unhealthy",
            "critical",
        ),
        ({"fabric_health": "limited-capacity"}, "fabric-degraded", "warn"),
        ({"fabric_route_recovering": True}, "fabric-degraded", "warn"),
        ({"fabric_access_timeout_recovering": True}, "fabric-degraded", "warn"),
        ({"pending_ecc_mode": False}, "mode-change-pending", "info"),
        ({"pending_mig_mode": True}, "mode-change-pending", "info"),
        ({"recovery_action": "node-reboot"}, "recovery-needed", "critical"),
        ({"reset_required": True}, "recovery-needed", "critical"),
        ({"drain_and_reset_recommended": True}, "recovery-needed", "critical"),
        ({"unified_memory": True}, "unified-memory", "info"),
        ({"state": "lost"}, "lost", "critical"),
        ({"state": "reset-required"}, "reset-required", "critical"),
        ({"state": "failed"}, "failed", "critical"),
        ({"state": "not-answering"}, "not-answering", "critical"),
        ({"state": "asleep"}, "asleep", "info"),
    ],
)
def test_trouble_is_found(overrides: dict[str, Any], rule: str, level: str) -> None:
    snapshot = of_device(**overrides)
    assert rules(snapshot) == {rule: level}
    finding = found(snapshot, rule)
    assert finding.sentence.startswith("GPU 0")
    assert finding.advice
    assert (finding.uuids, finding.indices) == ((gpu_uuid(0),), (0,))
    assert finding.held_seconds is None


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"clocks_event_reasons": ("gpu-idle",), "sm_clock_mhz": 210, "gpu_utilization_percent": 0},
        {"clocks_event_reasons": ("applications-clocks-setting",), "sm_clock_mhz": 600},
        {"clocks_event_reasons": ("display-clock-setting",), "sm_clock_mhz": 600},
        {"clocks_event_reasons": None, "sm_clock_mhz": 600},
        CAPPED | {"gpu_utilization_percent": 0, "sm_clock_mhz": 210},
        {"sm_clock_mhz": 600, "performance_state": 8},
        {"sm_clock_mhz": 600, "throttled_board_limit_percent": 80.0},
        {"throttled_hw_thermal_percent": 1.0, "throttled_sw_power_cap_percent": 90.0},
        {"sm_clock_mhz": 900, "gpu_utilization_percent": 20},
        {"max_sm_clock_mhz": None, "sm_clock_mhz": 900},
        {"pcie_link_generation": 1, "gpu_utilization_percent": 0},
        {"pcie_link_generation": 1, "performance_state": 8},
        {"pcie_link_generation": 2, "performance_state": 5, "gpu_utilization_percent": 35},
        {"pcie_link_generation": 1, "pcie_link_width": 1, "max_pcie_link_generation": None}
        | {"max_pcie_link_width": None},
        {"memory_used_bytes": 75 * GIB, "memory_free_bytes": 4 * GIB + GIB // 2},
        {"memory_used_bytes": None, "memory_free_bytes": None},
        {"memory_unaccounted_bytes": GIB // 2},
        {"ecc_corrected_volatile_count": 12},
        {"ecc_uncorrected_aggregate_count": 2},
        {"sram_errors": SramErrors(threshold_exceeded=False, secded_aggregate_count=9)},
        {"sram_errors": SramErrors(secded_aggregate_count=9)},
        {"nvlink_count": 4, "nvlink_total_count": 6, "nvlink_inactive_links": (4, 5)},
        {"fabric_state": "completed", "fabric_status_code": 0},
        {"fabric_state": None},
        {
            "fabric_state": "completed",
            "fabric_health": "healthy",
            "fabric_incorrect_configuration": "none",
            "fabric_route_unhealthy": False,
        },
        {"pending_ecc_mode": True, "pending_mig_mode": False},
        {"ecc_mode": None, "pending_ecc_mode": True},
        {"recovery_action": "none"},
        {"recovery_action": "none", "reset_required": True},
        {"reset_required": False, "drain_and_reset_recommended": False},
        {"recovery_action": "something-new"},
        {"unified_memory": False},
        {"xid_events": ()},
    ],
)
def test_what_is_no_problem_is_not_found(overrides: dict[str, Any]) -> None:
    assert rules(of_device(**overrides)) == {}


def test_gpus_in_the_same_trouble_share_a_sentence() -> None:
    capped = {"clocks_event_reasons": ("sw-power-cap",)}
    devices = tuple(make_device(index=i, **(capped if i != 2 else {})) for i in range(5))
    finding = found(host(devices=devices), "power-capped")
    assert finding.sentence == "GPU 0-1,3-4 are at their 700 W power limits"
    assert finding.indices == (0, 1, 3, 4)
    assert {proof.of for proof in finding.evidence} == {"GPU 0", "GPU 1", "GPU 3", "GPU 4"}


def test_evidence_carries_names_values_and_units() -> None:
    finding = found(of_device(clocks_event_reasons=("sw-power-cap",)), "power-capped")
    told = {(proof.name, proof.value, proof.unit) for proof in finding.evidence}
    assert ("power_usage_mw", 412_300, "mW") in told
    assert ("sm_clock_mhz", 1755, "MHz") in told


@pytest.mark.parametrize(
    ("power", "advice"),
    [
        ({}, "Normal under full load; only a higher limit would make it faster."),
        (
            {"default_power_limit_mw": 800_000},
            "If that is not intended: sudo nvidia-smi -i 0 -pl 800",
        ),
        ({"power_limit_mw": 800_000}, "It is set to 800 W: the board, the server or a battery"),
        ({"sm_clock_mhz": 300}, "check its power cables and supply"),
    ],
)
def test_what_to_do_about_a_power_limit(power: dict[str, int], advice: str) -> None:
    assert advice in found(of_device(**CAPPED, **power), "power-capped").advice


def test_advice_names_the_gpus_as_nvidia_smi_takes_them() -> None:
    worn = {"remapped_rows_pending": True}
    devices = tuple(make_device(index=i, **(worn if i != 1 else {})) for i in range(4))
    finding = found(host(devices=devices), "row-remap-pending")
    assert finding.advice.endswith("sudo nvidia-smi --gpu-reset -i 0,2,3")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"recovery_action": "gpu-reset"}, "needs a reset"),
        ({"recovery_action": "bus-reset"}, "needs a reset of its PCI bus"),
        ({"recovery_action": "node-reboot"}, "needs a reboot of the host"),
        ({"recovery_action": "system-reboot"}, "needs a reboot of the host"),
        ({"recovery_action": "drain-p2p"}, "should stop P2P traffic with other GPUs"),
        (
            {"recovery_action": "drain-and-reset"},
            "needs a reset once idle, and no new jobs until then",
        ),
        ({"recovery_action": "recover-imex-domain"}, "is cut off from its NVLink domain"),
        # Of a driver that has no such action.
        ({"reset_required": True}, "needs a reset"),
        (
            {"reset_required": False, "drain_and_reset_recommended": True},
            "needs a reset once idle, and no new jobs until then",
        ),
    ],
)
def test_what_the_driver_asks_for_is_a_sentence(asked: dict[str, Any], words: str) -> None:
    finding = found(of_device(**asked), "recovery-needed")
    assert finding.sentence == f"GPU 0 {words}, according to the driver"


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("NVIDIA GeForce RTX 4070 Laptop GPU", "warn"),
        ("NVIDIA RTX 5000 Ada Generation Laptop GPU", "warn"),
        ("GeForce GTX 1650 with Max-Q Design", "warn"),
        ("NVIDIA GeForce MX450", "warn"),
        ("Quadro M2000M", "warn"),
        ("Tesla M60", "critical"),
        ("NVIDIA GeForce RTX 4070", "critical"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "critical"),
        ("NVIDIA H100 80GB HBM3", "critical"),
        (None, "critical"),
    ],
)
def test_power_brake_of_a_laptop_is_its_charger(name: str | None, level: str) -> None:
    brake = {"clocks_event_reasons": ("hw-power-brake-slowdown",)}
    finding = found(of_device(name=name, **brake), "power-brake")
    assert finding.level == level
    assert ("charger" in finding.advice) is (level == "warn")
    assert ("power supplies" in finding.advice) is (level == "critical")


def test_mode_that_is_set_and_not_in_force_is_named() -> None:
    changed = of_device(pending_ecc_mode=False, pending_mig_mode=True)
    sentences = {each.sentence for each in findings(changed)}
    assert sentences == {
        "GPU 0 has ECC off after the next reset",
        "GPU 0 has MIG on after the next reset",
    }


def test_brake_and_heat_of_one_gpu_are_both_reported() -> None:
    reasons = ("hw-slowdown", "hw-thermal-slowdown", "hw-power-brake-slowdown")
    assert rules(of_device(clocks_event_reasons=reasons)) == {
        "power-brake": "critical",
        "thermal-slowdown-hardware": "critical",
    }


def test_worst_finding_comes_first() -> None:
    devices = (
        make_device(index=0, unified_memory=True),
        make_device(index=1, remapped_rows_pending=True),
        make_device(index=2, ecc_uncorrected_volatile_count=4),
    )
    assert [*rules(host(devices=devices)).values()] == ["critical", "warn", "info"]


def test_failed_gpu_tells_what_its_driver_said() -> None:
    fault = Fault(source="nvml", code=999, message="GPU 0 does not answer: unknown error")
    finding = found(of_device(state="failed", fault=fault), "failed")
    assert finding.sentence == fault.message
    assert ("code", 999) in {(proof.name, proof.value) for proof in finding.evidence}


def test_removed_gpu_is_reported_by_the_number_that_it_had() -> None:
    fault = Fault(source="nvml", message=clean("GPU 1 was removed: the driver has it no longer"))
    devices = (make_device(index=0), make_device(index=2, state="lost", fault=fault))
    assert found(host(devices=devices), "lost").sentence == fault.message


def test_lost_gpu_without_a_uuid_is_known_by_its_index() -> None:
    devices = (make_device(index=0), make_device(index=3, uuid=None, state="lost"))
    finding = found(host(devices=devices), "lost")
    assert finding.sentence == "GPU 3 fell off the bus"
    assert (finding.uuids, finding.indices) == ((), (3,))


def test_link_with_fewer_lanes_than_its_like_is_down() -> None:
    devices = tuple(make_device(index=i, nvlink_count=18 - 2 * (i == 1)) for i in range(3))
    finding = found(host(devices=devices), "nvlink-down")
    assert finding.sentence == "GPU 1 has 16 of 18 NVLinks up"


def linked(count: int, cell: str) -> Topology:
    """GPUs each of which reaches every other that way."""
    return make_topology(
        count,
        links=tuple(tuple("X" if a == b else cell for b in range(count)) for a in range(count)),
    )


@pytest.mark.parametrize("cell", ["NV11", "NV12"])
def test_links_behind_nvswitches_that_are_down_since_boot_are_found(cell: str) -> None:
    short = tuple(make_device(index=i, nvlink_count=11, nvlink_total_count=12) for i in range(4))
    switched = host(devices=short, topology=linked(4, cell))
    assert found(switched, "nvlink-down").sentence == "GPU 0-3 have 11 of 12 NVLinks up"
    joined = replace(short[0], fabric_state="completed")
    assert found(host(devices=(joined,)), "nvlink-down").sentence == "GPU 0 has 11 of 12 NVLinks up"


def test_links_that_a_board_leaves_unused_are_not_down() -> None:
    direct = tuple(make_device(index=i, nvlink_count=12, nvlink_total_count=18) for i in range(3))
    assert rules(host(devices=direct, topology=linked(3, "NV6"))) == {}
    assert rules(host(devices=direct[:2], topology=linked(2, "NV12"))) == {}
    assert rules(host(devices=direct, topology=linked(3, "NVsome"))) == {}
    assert rules(host(devices=direct, topology=None)) == {}


def test_gpu_without_a_bridge_has_no_links_that_are_down() -> None:
    pairs = make_topology(
        4,
        links=tuple(
            tuple("X" if a == b else "NV4" if {a, b} == {0, 1} else "SYS" for b in range(4))
            for a in range(4)
        ),
    )
    devices = tuple(make_device(index=i, nvlink_count=4 * (i < 2)) for i in range(4))
    assert rules(host(devices=devices, topology=pairs)) == {}
    mesh = make_topology(
        4,
        links=tuple(
            tuple("X" if a == b else "SYS" if 3 in (a, b) else "NV4" for b in range(4))
            for a in range(4)
        ),
    )
    devices = tuple(make_device(index=i, nvlink_count=12 * (i < 3)) for i in range(4))
    finding = found(host(devices=devices, topology=mesh), "nvlink-down")
    assert finding.sentence == "GPU 3 has 0 of 12 NVLinks up"


def test_fewer_lanes_on_all_of_a_kind_are_how_the_host_is_built() -> None:
    both = tuple(make_device(index=i, pcie_link_width=8) for i in range(2))
    assert rules(host(devices=both)) == {"pcie-link-reduced": "info"}
    one = (make_device(index=0, pcie_link_width=8), make_device(index=1))
    assert rules(host(devices=one)) == {"pcie-link-reduced": "warn"}
    slow = tuple(make_device(index=i, pcie_link_width=8, pcie_link_generation=1) for i in range(2))
    finding = found(host(devices=slow), "pcie-link-reduced")
    assert finding.level == "warn"
    assert finding.sentence == "GPU 0-1 work on 8 of 16 PCIe lanes and at PCIe generation 1 of 5"


def test_xid_tells_how_often_it_came_and_which_instance_it_hit() -> None:
    event = XidEvent(code=94, seen_at=host().taken_at.timestamp(), count=3, gpu_instance_id=2)
    finding = found(of_device(xid_events=(event,)), "xid")
    told = {(proof.name, proof.value) for proof in finding.evidence}
    assert {("xid_code", 94), ("count", 3), ("gpu_instance_id", 2)} <= told


def test_gpus_of_other_kinds_are_not_compared() -> None:
    devices = (
        make_device(index=0, nvlink_count=18),
        make_device(index=1, nvlink_count=4, name="NVIDIA A30"),
    )
    assert rules(host(devices=devices)) == {}


def test_holders_of_memory_that_no_listed_process_owns_are_named() -> None:
    holder = Holder(pid=812, username="bob", command_line=("/usr/bin/python", "a.py"))
    device = make_device(memory_unaccounted_bytes=12 * GIB, holder_pids=(812,), minor_number=3)
    snapshot = host(devices=(device,), holders=(holder,))
    finding = found(snapshot, "memory-unaccounted")
    assert finding.sentence == (
        "GPU 0: 12.0 GiB held by no listed process; its device node is open in "
        "bob's python (PID 812)"
    )


def test_the_command_that_ends_all_holders_names_them_or_none() -> None:
    few = 812, 813
    assert found(of_device(**ORPHAN, holder_pids=few), "memory-unaccounted").advice.endswith(
        "end them too: kill 812 813"
    )
    known = of_device(**ORPHAN, holder_pids=few, holder_count=9)
    assert found(known, "memory-unaccounted").advice.endswith(" lists them")


def test_many_holders_are_counted_and_what_is_not_known_is_left_out() -> None:
    pids = tuple(range(1, 21))
    finding = found(of_device(**ORPHAN, holder_pids=pids), "memory-unaccounted")
    assert "open in process (PID 1), process (PID 2), " in finding.sentence
    assert finding.sentence.endswith("process (PID 4) and 16 more")
    finding = found(of_device(**ORPHAN, holder_pids=pids, holder_count=500), "memory-unaccounted")
    assert finding.sentence.endswith("process (PID 4) and 496 more")


def test_unowned_memory_names_the_node_to_ask_unless_all_were_asked() -> None:
    advices = [
        found(of_device(**ORPHAN, **known), "memory-unaccounted").advice
        for known in (
            {},
            {"holder_pids": (), "holders_complete": False},
            {"holder_pids": (), "holders_complete": True},
        )
    ]
    assert [("fuser -v /dev/nvidia3" in each) for each in advices] == [True, True, False]
    assert [("other users" in each) for each in advices] == [False, True, False]
    assert [("reset" in each) for each in advices] == [False, False, True]


def test_unowned_memory_is_to_be_expected_where_processes_are_hidden() -> None:
    hidden = Fault(source="processes", message=clean("processes outside are hidden"))
    orphaned = make_device(**ORPHAN, holder_pids=(), holders_complete=False)
    finding = found(host(devices=(orphaned,), errors=(hidden,)), "memory-unaccounted")
    assert finding.level == "info"
    assert finding.advice.endswith("look on the host.")
    one = make_device(**ORPHAN, holder_pids=(812,))
    assert found(host(devices=(one,), errors=(hidden,)), "memory-unaccounted").level == "warn"
    elsewhere = Fault(source="processes", code=4, uuid=clean(gpu_uuid(7)), message=clean("x"))
    assert found(host(devices=(orphaned,), errors=(elsewhere,)), "memory-unaccounted").level == (
        "warn"
    )


@pytest.mark.parametrize("known", [{"addressing_mode": "ats"}, {"c2c_mode": True}])
@pytest.mark.parametrize("holders", [(), (812,)])
def test_memory_that_is_a_part_of_the_hosts_may_be_in_use_by_anything(
    known: dict[str, Any], holders: tuple[int, ...]
) -> None:
    searched = {"holder_pids": holders, "holders_complete": True}
    finding = found(of_device(**ORPHAN, **known, **searched), "memory-unaccounted")
    assert finding.level == "info"
    assert finding.sentence.startswith("GPU 0: 12.0 GiB used by no listed process")
    assert "reset" not in finding.advice
    assert ("host's memory" in finding.advice) is not bool(holders)


def test_memory_beside_a_cpu_that_the_driver_keeps_apart_is_the_gpus_own() -> None:
    finding = found(
        of_device(**ORPHAN, c2c_mode=True, addressing_mode="none"), "memory-unaccounted"
    )
    assert finding.level == "warn"


@pytest.mark.parametrize(("count", "advice"), [(1, "it is left over"), (2, "they are left over")])
def test_holders_are_ended_by_hand(count: int, advice: str) -> None:
    pids = tuple(range(812, 812 + count))
    finding = found(of_device(**ORPHAN, holder_pids=pids), "memory-unaccounted")
    assert advice in finding.advice


@pytest.mark.parametrize(
    ("code", "level", "word", "advice"),
    [
        (79, "critical", "fell off the bus", ""),
        (31, "warn", "illegal memory access", ""),
        (48, "critical", "uncorrectable memory error", ""),
        (4711, "warn", "catalogue", ""),
        (None, "warn", "unknown", ""),
        (94, "warn", "no other was affected", "needs no reset now"),
        (63, "info", "at the next reset", "Nothing needs to be done now"),
        (110, "critical", "security fault", "cycle the power"),
        (137, "warn", "over NVLink", "fault of the program"),
        (155, "warn", "on purpose", "gpudash nvlink"),
        (156, "critical", "taken out of use", "--gpu-reset -i 0"),
        (157, "warn", "no spare is left", "have the board checked"),
        (158, "critical", "fatal timeout", "--gpu-reset -i 0"),
        (160, "info", "repaired at the next reset", "Nothing needs to be done now"),
        (171, "info", "XID 48 was in its DRAM", "XID 48"),
        (172, "info", "XID 48 was in its SRAM", "XID 48"),
    ],
)
def test_an_xid_is_reported_in_plain_words_with_the_advice_of_the_catalogue(
    code: int | None, level: str, word: str, advice: str
) -> None:
    # What a program did is over by then.
    age = 5000 if level == "critical" else 60
    event = XidEvent(code=code, seen_at=host().taken_at.timestamp() - age)
    finding = found(of_device(xid_events=(event,)), "xid")
    assert finding.level == level
    assert word in finding.sentence
    assert advice in finding.advice


@pytest.mark.parametrize(
    ("code", "lasts"), [(31, False), (94, False), (137, False), (48, True), (95, True), (160, True)]
)
def test_xid_that_ended_with_its_program_passes(code: int, lasts: bool) -> None:
    event = XidEvent(code=code, seen_at=host().taken_at.timestamp() - 3600)
    assert bool(rules(of_device(xid_events=(event,)))) is lasts


def test_pages_are_retired_by_a_reset_or_a_reload_of_the_driver() -> None:
    finding = found(of_device(retired_pages_pending=True), "page-retirement-pending")
    assert finding.sentence == "GPU 0 needs a reset to retire bad memory pages"
    assert "--gpu-reset -i 0" in finding.advice
    assert "reload of the driver" in finding.advice


def test_silence_of_a_gpu_is_counted_from_its_last_answer() -> None:
    silent = of_device(state="not-answering", last_read=LastRead(age_seconds=21.0))
    assert Watched().see(silent, 2)["not-answering"].held_seconds == 21.0


@pytest.mark.parametrize("state", ["lost", "reset-required", "not-answering", "failed", "asleep"])
def test_xids_of_a_gpu_that_cannot_be_read_are_reported(state: str) -> None:
    event = XidEvent(code=79, seen_at=host().taken_at.timestamp() - 60)
    finding = found(of_device(state=state, xid_events=(event,)), "xid")
    assert finding.sentence == "GPU 0 reported XID 79: it fell off the bus"
    assert finding.level == "critical"


def test_xid_of_a_gpu_that_was_removed_is_reported_by_its_address() -> None:
    fault = Fault(source="nvml", message=clean("GPU 1 was removed: the driver has it no longer"))
    event = XidEvent(code=48, seen_at=host().taken_at.timestamp() - 60)
    gone = make_device(index=2, state="lost", fault=fault, xid_events=(event,))
    finding = found(host(devices=(make_device(index=0), gone)), "xid")
    assert finding.sentence == (
        "The GPU at 00000000:12:00.0, since removed, reported XID 48: "
        "it had an uncorrectable memory error"
    )
    assert "reset" not in finding.advice


def test_xid_of_before_a_reset_is_over() -> None:
    seen_at = host().taken_at.timestamp() - 60
    before = XidEvent(code=79, seen_at=seen_at, before_reset=True)
    assert rules(of_device(xid_events=(before,))) == {}
    again = XidEvent(code=79, seen_at=seen_at)
    assert rules(of_device(xid_events=(before, again))) == {"xid": "critical"}


def test_mig_gpu_is_not_full_because_its_instances_are() -> None:
    parent = make_device(mig_mode=True, memory_free_bytes=0)
    instance = make_device(index=1, uuid="MIG-1", parent_uuid=parent.uuid, memory_free_bytes=0)
    finding = found(host(devices=(parent, instance)), "memory-almost-full")
    assert finding.sentence == "GPU 0:1 has less than 1% of its memory left"
    assert (finding.uuids, finding.indices) == (("MIG-1",), (0,))


def test_each_rule_says_what_it_finds() -> None:
    assert all(rule.help and rule.id == rule.id.lower() for rule in RULES)


def test_no_two_rules_have_one_id_or_one_rank() -> None:
    registry: Registry[object] = Registry()
    registry.rule(10, "lost", "fell off the bus")
    with pytest.raises(ValueError, match="two rules are called lost"):
        registry.rule(20, "lost", "is gone")
    with pytest.raises(ValueError, match="hot has the rank of lost: 10"):
        registry.rule(10, "hot", "is slowed down by heat")


def test_each_rule_that_a_family_declares_is_in_the_table() -> None:
    declared = {
        each for family in FAMILIES for each in vars(family).values() if isinstance(each, Rule)
    }
    assert declared == set(RULES)


@pytest.mark.parametrize("state", [state.id for state in STATES if state.is_unreadable])
def test_every_state_in_which_a_gpu_cannot_be_read_is_a_finding_with_advice(state: str) -> None:
    of_gpu = findings(of_device(state=state))
    assert of_gpu
    assert all(finding.advice for finding in of_gpu)


def test_a_gpu_that_was_only_started_to_be_read_does_not_work() -> None:
    started = {
        "gpu_utilization_percent": 100,
        "memory_used_bytes": 3 << 20,
        "persistence_mode": False,
        "sm_active_percent": None,
        "display_active": False,
        "sm_clock_mhz": 300,
        "pcie_link_generation": 1,
        "clocks_event_reasons": (),
    }
    assert rules(host(devices=(make_device(**started),), processes=())) == {}
    capped = {**started, "clocks_event_reasons": ("sw-power-cap",)}
    assert rules(host(devices=(make_device(**capped),), processes=())) == {}
    works = {"clocks-low", "pcie-link-reduced"}
    kept = {**started, "persistence_mode": True}
    assert rules(host(devices=(make_device(**kept),), processes=())).keys() == works


def test_every_check_that_is_written_examines_a_host() -> None:
    written = {
        each
        for family in FAMILIES
        for name, each in vars(family).items()
        if isgeneratorfunction(each) and each.__module__ == family.__name__ and name[0] != "_"
    }
    assert written
    assert written <= set(checks())


def test_every_state_in_which_a_gpu_cannot_be_read_has_a_rule() -> None:
    assert {each for each in STATES if each.is_unreadable} <= {rule.status for rule in RULES}
