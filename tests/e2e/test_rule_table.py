"""Every rule of one host: a state in which it finds something, and a healthy one close to it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpudash.analysis.health.rules import RULES_BY_ID
from gpudash.model.process import EXITED
from gpudash.model.snapshot import Finding, FindingLevel
from tests.e2e.examining import Examine, Stage, examiner

IDLE = {"DEVICES": 4, "LOAD": "idle"}
BUSY = {"DEVICES": 4, "LOAD": "busy", "ANSWER": "nvmlDeviceGetCurrentClocksEventReasons:*:0"}
SWITCHED = {**IDLE, "TOPO": "nvswitch"}
HELD = {**IDLE, "DEVICES": 1, "PROCS_PER_DEVICE": 1}


class Row(NamedTuple):
    """What a rule finds, and what it does not although it is close to it."""

    rule: str
    level: FindingLevel
    fires: list[Stage]
    silent: list[Stage]


def told(base: Mapping[str, Any], **more: Any) -> list[Stage]:
    """A host that is as told from the start, and seen once."""
    return [Stage(told={**base, **more})]


def lasting(seconds: int, base: Mapping[str, Any], **more: Any) -> list[Stage]:
    """A host that is as told for a while."""
    return [Stage(told={**base, **more}, seconds=seconds, stride=5)]


def answer(call: str, *numbers: int | str, base: Mapping[str, Any] = IDLE) -> list[Stage]:
    """A host on whose GPU 1 a call answers these numbers."""
    others = [base["ANSWER"]] if "ANSWER" in base else []
    mine = f"{call}:1:{'/'.join(map(str, numbers))}"
    return told(base, ANSWER=",".join([mine, *others]))


def answers(*those: str) -> list[Stage]:
    """A host whose calls answer like that."""
    return told(IDLE, ANSWER=",".join(those))


def in_fabric(shift: int, health: int, summary: int = 0) -> list[Stage]:
    """A host that has joined a fabric, which says so of its health."""
    return told(IDLE, FABRIC=f"3:0:{health << shift}:{summary}")


def get(metric: str, *numbers: int | str, base: Mapping[str, Any] = IDLE) -> list[Stage]:
    """A host on whose GPU 1 the call that gets a metric answers these numbers."""
    return answer(f"nvmlDeviceGet{metric}", *numbers, base=base)


def slowed(bits: int, **more: Any) -> list[Stage]:
    """A busy host whose GPU 1 names reasons for its clocks."""
    return get("CurrentClocksEventReasons", bits, base={**BUSY, **more})


def reported(code: int) -> list[Stage]:
    """A host whose GPU 1 reports an XID while it is watched."""
    # The driver reports only what comes after events were registered, in the second sample.
    return [Stage(told=IDLE, seconds=2), Stage(told={**IDLE, "XID": f"1:{code}"})]


def process(base: Mapping[str, Any], seconds: int = 1, **facts: Any) -> list[Stage]:
    """A host with a process of which the operating system says that."""
    return [Stage(told=base, process=facts, seconds=seconds, stride=min(5, seconds))]


def powered(status: str, seconds: int, *, on_battery: bool) -> list[Stage]:
    """A laptop whose GPU is so, and does nothing."""
    laptop = {**IDLE, "DEVICES": 1, "MODEL": "geforce"}
    return [Stage(told=laptop, power=status, on_battery=on_battery, seconds=seconds, stride=5)]


LOADED = {**BUSY, "ANSWER": f"{BUSY['ANSWER']},nvmlDeviceGetClockInfo:1:300/300"}
STARVING = {**HELD, "LOAD": "busy"}

TABLE = [
    Row("lost", "critical", told(IDLE, LOST=1), told(IDLE, LOST="1:1000000")),
    Row(
        "reset-required",
        "critical",
        told(IDLE, FAIL="*:1:16"),
        told(IDLE, FAIL="nvmlDeviceGetPowerUsage:1:3"),
    ),
    Row(
        "not-answering",
        "critical",
        told(IDLE, HANG="nvmlDeviceGetMinorNumber:1:inf"),
        told(IDLE, HANG="nvmlDeviceGetMinorNumber:1:0.1"),
    ),
    Row(
        "failed",
        "critical",
        told(IDLE, FAIL="nvmlDeviceGetHandleByIndex:1:8"),
        told(IDLE, FAIL="nvmlDeviceGetComputeRunningProcesses:1:999"),
    ),
    Row("recovery-needed", "critical", answer("field230", 4), answer("field230", 0)),
    Row(
        "recovery-needed",
        "critical",
        answers("field230:1:-", "field226:1:1"),
        answers("field230:1:-", "field226:1:0", "field227:1:0"),
    ),
    Row(
        "recovery-needed",
        "critical",
        answers("field230:1:-", "field227:1:1"),
        answers("field230:1:0", "field227:1:1"),
    ),
    Row(
        "xid", "critical", reported(48), [*reported(31), Stage(told=IDLE, seconds=700, stride=350)]
    ),
    Row(
        "ecc-uncorrected",
        "critical",
        get("TotalEccErrors", 0, 3),
        get("TotalEccErrors", 7, 0, 9, 3),
    ),
    Row(
        "sram-threshold-exceeded",
        "critical",
        get("SramEccErrorStatus", 1),
        get("SramEccErrorStatus", 0),
    ),
    Row("row-remap-failed", "critical", get("RemappedRows", 9, 9, 0, 1), get("RemappedRows", 9, 9)),
    Row("row-remap-pending", "warn", get("RemappedRows", 0, 1, 1), get("RemappedRows", 0, 1)),
    Row(
        "page-retirement-pending",
        "warn",
        get("RetiredPagesPendingStatus", 1),
        get("RetiredPagesPendingStatus", 0),
    ),
    Row("fabric-not-ready", "critical", told(IDLE, FABRIC=2), told(IDLE, FABRIC=3)),
    Row("fabric-unhealthy", "critical", in_fabric(4, 1), in_fabric(4, 2)),
    Row("fabric-unhealthy", "critical", in_fabric(8, 4), in_fabric(8, 1)),
    Row("fabric-unhealthy", "critical", in_fabric(0, 0, 2), in_fabric(0, 0, 1)),
    Row("fabric-degraded", "warn", in_fabric(0, 1), in_fabric(0, 2, 1)),
    Row("fabric-degraded", "warn", in_fabric(2, 1), in_fabric(2, 2)),
    Row("fabric-degraded", "warn", in_fabric(6, 1), in_fabric(6, 2)),
    Row("fabric-degraded", "warn", in_fabric(0, 0, 3), in_fabric(0, 0, 0)),
    Row("mode-change-pending", "info", get("EccMode", 1, 0), get("EccMode", 1, 1)),
    Row("mode-change-pending", "info", get("MigMode", 0, 1), get("MigMode", 0, 0)),
    Row("power-brake", "critical", slowed(0x88), slowed(0x8)),
    Row(
        "power-brake",
        "warn",
        slowed(0x80, NAME="NVIDIA GeForce RTX 4070 Laptop GPU"),
        slowed(0x1, NAME="NVIDIA GeForce RTX 4070 Laptop GPU"),
    ),
    Row("thermal-slowdown-hardware", "critical", slowed(0x48), slowed(0x20)),
    Row("hardware-slowdown", "critical", slowed(0x8), slowed(0x48)),
    Row("thermal-slowdown-software", "warn", slowed(0x20), slowed(0x60)),
    Row("power-capped", "info", slowed(0x4), slowed(0x4, LOAD="idle")),
    Row(
        "clocks-low",
        "warn",
        told(LOADED),
        told(LOADED, ANSWER=LOADED["ANSWER"].replace("Reasons:*:0", "Reasons:*:2")),
    ),
    Row("few-sms", "info", lasting(30, BUSY, GPM=2), lasting(30, BUSY, GPM=1)),
    Row(
        "pcie-link-reduced",
        "warn",
        get("CurrPcieLinkWidth", 8, base=BUSY),
        get("CurrPcieLinkWidth", 8),
    ),
    Row(
        "pcie-replays",
        "warn",
        lasting(45, IDLE, RISE="1:94:12"),
        lasting(45, IDLE, RISE="1:94:0.5"),
    ),
    Row("nvlink-down", "warn", told(SWITCHED, LINK_DOWN="1:3"), told(IDLE, DEVICES=3)),
    Row("nvlink-down", "warn", told(SWITCHED, LINK_DOWN="0:3,1:3,2:3,3:3"), told(SWITCHED)),
    Row(
        "nvlink-errors",
        "warn",
        lasting(45, IDLE, RISE="1:163.3:5"),
        lasting(45, IDLE, RISE="1:163.3:0"),
    ),
    Row(
        "p2p-missing",
        "info",
        told(IDLE, DEVICES=2, MODEL="geforce", PROCS_PER_DEVICE=1),
        told(IDLE, DEVICES=2, PROCS_PER_DEVICE=1),
    ),
    Row(
        "memory-almost-full",
        "warn",
        get("MemoryInfo", 24564, 300, 0, 24264),
        get("MemoryInfo", 24564, 300, 1500, 22764),
    ),
    Row("memory-unaccounted", "warn", told(IDLE, ORPHANED="1:9000"), told(IDLE, ORPHANED="1:200")),
    Row(
        "memory-unaccounted",
        "info",
        told(IDLE, ORPHANED="1:20000", ANSWER="nvmlDeviceGetC2cModeInfoV:*:1"),
        told(IDLE, ORPHANED="1:200", ANSWER="nvmlDeviceGetC2cModeInfoV:*:1"),
    ),
    Row(
        "holds-many-works-on-few",
        "warn",
        told(IDLE, LOAD="first", PROCS_PER_DEVICE=1),
        told(BUSY, PROCS_PER_DEVICE=1),
    ),
    Row(
        "exited-holds",
        "warn",
        process(HELD, 20, hidden_reason=EXITED),
        process(HELD, 20, hidden_reason="not shown by /proc"),
    ),
    Row("held-idle", "info", told(HELD), told(HELD, LOAD="busy")),
    Row(
        "cpu-bound",
        "info",
        process(HELD, cpu_percent=99.0, status="running"),
        process(HELD, cpu_percent=5.0),
    ),
    Row(
        "disk-bound",
        "info",
        process(HELD, status="disk-sleep"),
        process({**HELD, "LOAD": "busy"}, status="disk-sleep"),
    ),
    Row("leased-unused", "info", [Stage(told=IDLE, leased=False)], [Stage(told=IDLE, leased=True)]),
    Row(
        "host-bound",
        "warn",
        process(
            {**STARVING, "ANSWER": "nvmlDeviceGetUtilizationRates:0:30/9"}, 70, cpu_percent=100.0
        ),
        process(
            {**STARVING, "ANSWER": "nvmlDeviceGetUtilizationRates:0:60/9"}, 70, cpu_percent=100.0
        ),
    ),
    Row(
        "asleep",
        "info",
        powered("suspended", 1, on_battery=False),
        powered("active", 1, on_battery=False),
    ),
    Row(
        "resting",
        "info",
        powered("active", 40, on_battery=True),
        powered("active", 40, on_battery=False),
    ),
    Row(
        "unified-memory",
        "info",
        told(IDLE, NAME="NVIDIA GB10", FAIL="nvmlDeviceGetMemoryInfo:*:3"),
        told(IDLE, NAME="NVIDIA GB10"),
    ),
]


def found(rule: str, findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.rule == rule]


@pytest.fixture(scope="module")
def examine(fakenvml: Path) -> Iterator[Examine]:
    with examiner(fakenvml) as found:
        yield found


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.rule)
def test_each_rule_finds_its_fault_and_nothing_close_to_it(examine: Examine, row: Row) -> None:
    (finding,) = found(row.rule, examine(row.fires))
    assert finding.level == row.level
    assert finding.sentence
    assert finding.advice
    assert found(row.rule, examine(row.silent)) == []


def test_every_rule_has_a_row() -> None:
    assert {row.rule for row in TABLE} == set(RULES_BY_ID)
