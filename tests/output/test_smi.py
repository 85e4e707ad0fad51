from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given

from gpudash.model import wire
from gpudash.model.device import device_fields
from gpudash.model.errors import UsageError
from gpudash.model.fault import Fault
from gpudash.model.records import (
    AccountedProcess,
    EccLocation,
    RetiredPage,
    SramErrors,
    SupportedClocks,
)
from gpudash.model.snapshot import Snapshot
from gpudash.output.queries import QUERIES, query
from gpudash.output.smi import GPU_FIELDS, NOT_READ
from gpudash.output.smi_table import listing
from tests.factories import make_device, make_host, make_process, make_process_device, make_snapshot
from tests.strategies import snapshots

CSV = "csv,noheader"


def rows(snapshot: Snapshot, names: str, format: str = CSV, *, of: str = "gpu") -> Sequence[str]:
    return list(query(QUERIES[of], names, format).rows(snapshot))


def test_units_may_be_left_out() -> None:
    names = "power.draw,memory.used,fan.speed"
    snapshot = make_snapshot(1)
    assert rows(snapshot, names) == ["412.30 W, 40960 MiB, [N/A]"]
    assert rows(snapshot, names, "csv,nounits") == ["412.30, 40960, [N/A]"]


@pytest.mark.parametrize(
    ("name", "overrides", "cell"),
    [
        ("memory.used", {"memory_used_bytes": None}, "[N/A]"),
        # As driver 580 on an H200: the GPU's memory is rounded up.
        ("memory.used", {"memory_used_bytes": 29_616_308_224}, "28245 MiB"),
        ("memory.reserved", {"memory_reserved_bytes": 644_939_776}, "616 MiB"),
        ("memory.free", {"memory_free_bytes": 150_109_880_320}, "143156 MiB"),
        ("temperature.memory", {"memory_temperature_celsius": None}, "N/A"),
        ("pstate", {"performance_state": 8}, "P8"),
        # nvidia-smi divides in single precision: 50.014999 and 348.575012.
        ("power.draw", {"power_usage_mw": 50_015}, "50.01 W"),
        ("power.draw", {"power_usage_mw": 348_575}, "348.58 W"),
        ("compute_mode", {"compute_mode": "exclusive-process"}, "Exclusive_Process"),
        ("pci.bus", {"pci_bus_id": "00000001:AF:00.0"}, "0xAF"),
        ("pci.domain", {"pci_bus_id": "00000001:AF:00.0"}, "0x0001"),
        ("mig.mode.current", {"mig_mode": None}, "[N/A]"),
        ("retired_pages.pending", {"retired_pages_pending": True}, "Yes"),
        (
            "clocks_throttle_reasons.active",
            {"clocks_event_reasons": ("sw-power-cap", "hw-slowdown", "0x400")},
            "0x000000000000040C",
        ),
        (
            "clocks_throttle_reasons.hw_slowdown",
            {"clocks_event_reasons": ("hw-slowdown",)},
            "Active",
        ),
        ("clocks_event_reasons.gpu_idle", {"clocks_event_reasons": None}, "[N/A]"),
        ("gom.current", {"gpu_operation_mode": "low-double-precision"}, "Low Double Precision"),
        ("addressing_mode", {"addressing_mode": "hmm"}, "HMM"),
        ("reset_status.reset_required", {"reset_required": True}, "Yes"),
        ("fabric.state", {"fabric_state": "in-progress"}, "In Progress"),
        ("fabric.status", {"fabric_status_code": 0}, "Success"),
        # The slot limits the GPU; else it may be capable of more.
        (
            "pcie.link.gen.hostmax",
            {"max_pcie_link_generation": 3, "max_gpu_pcie_link_generation": 4},
            "3",
        ),
        (
            "pcie.link.gen.hostmax",
            {"max_pcie_link_generation": 4, "max_gpu_pcie_link_generation": 4},
            "[N/A]",
        ),
        (
            "ecc.errors.uncorrected.volatile.dram",
            {"ecc_locations": (EccLocation(name="device-memory", uncorrected_volatile_count=3),)},
            "3",
        ),
        ("ecc.errors.uncorrected.volatile.sram", {"ecc_locations": ()}, "[N/A]"),
        (
            "ecc.errors.uncorrected.aggregate.sram.secded",
            {"sram_errors": SramErrors(secded_aggregate_count=0)},
            "0",
        ),
        (
            "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded",
            {"sram_errors": SramErrors(threshold_exceeded=True)},
            "Yes",
        ),
        ("ecc.errors.uncorrected.aggregate.sram.l2", {"sram_errors": None}, "[N/A]"),
        ("remapped_rows.histogram.low", {"remapped_rows_banks": (3072, 0, 0, 5, 0)}, "5"),
        ("remapped_rows.pending", {"remapped_rows_pending": True}, "Yes"),
        ("gpu_recovery_action", {"recovery_action": "drain-and-reset"}, "Drain and Reset"),
        ("gpu_recovery_action", {"recovery_action": "none"}, "None"),
        ("display_attached", {"display_attached": True}, "Yes"),
        ("module.power.limit", {}, "[N/A]"),
        ("module.power.limit", {"module_power_limit_mw": 2_900_000}, "2900.00 W"),
        ("platform.peer_type", {"chassis_peer_type": "direct-connected"}, "Direct Connected"),
        ("pci.baseClass", {"pci_base_class": "0x3"}, "0x3"),
        ("dramEncryption.mode.current", {"dram_encryption_mode": False}, "Disabled"),
        ("edpp_multiplier", {}, "[N/A]"),
        ("fabric.health.summary", {"fabric_health": "limited-capacity"}, "Limited Capacity"),
        (
            "fabric.health.incorrect_configuration",
            {"fabric_incorrect_configuration": "no-partition"},
            "No Partition",
        ),
        ("fabric.health.route_unhealthy", {"fabric_route_unhealthy": False}, "False"),
        (
            "clocks_event_reasons_counters.sw_power_cap",
            {"sw_power_cap_seconds": 711320.123456},
            "711320123456 us",
        ),
        ("name", {"name": "GPU, 4242"}, r"GPU\x2c 4242"),
        ("display_mode", {"display_attached": False}, "Disabled"),
        ("fabric.state", {}, "[N/A]"),
        ("inforom.pwr", {}, "N/A"),
        ("inforom.checksum_validation", {}, "[N/A]"),
        ("inforom.checksum_validation", {"inforom_valid": False}, "invalid"),
        ("fabric.health.bandwidth", {}, "N/A"),
        ("fabric.health.partition_assigned", {"fabric_partition_assigned": True}, "True"),
        ("remapped_rows.sbe", {"remapped_rows_corrected_count": 2}, "2"),
        ("platform.slot_number", {}, "[N/A]"),
        ("platform.slot_number", {"chassis_slot_number": 3, "chassis_host_id": 1}, "3"),
    ],
)
def test_cells(name: str, overrides: dict[str, Any], cell: str) -> None:
    assert rows(make_snapshot(devices=(make_device(**overrides),)), name) == [cell]


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("display_mode", "[Requested functionality has been deprecated]"),
        ("display_attached", "Yes"),
        ("inforom.pwr", "[N/A]"),
        ("inforom.checksum_validation", "valid"),
        ("power_smoothing.window_multiplier", "[N/A]"),
        ("remapped_rows.correctable_inactive", "0"),
        ("fabric.state", "N/A"),
        ("fabric.cliqueId", "N/A"),
        ("fabric.health.partition_assigned", "N/A"),
        ("platform.chassis_serial_number", ""),
        ("platform.slot_number", "0"),
        ("platform.tray_index", "0"),
        ("platform.host_id", "1"),
        ("platform.gpu_fabric_guid", "0x0000000000000000"),
        ("hostname", "[N/A]"),
    ],
)
def test_cells_of_an_h200_under_driver_580(name: str, cell: str) -> None:
    device = make_device(
        display_attached=True,
        inforom_valid=True,
        remapped_rows_corrected_inactive_count=0,
        chassis_host_id=1,
    )
    host = make_host(driver_version="580.159.04")
    assert rows(make_snapshot(devices=(device,), host=host), name) == [cell]


def test_hostile_names_of_a_document_cannot_break_a_row() -> None:
    told = make_snapshot(devices=(make_device(name="evil\x1b[2J\nGPU"),))
    assert rows(wire.decode(wire.encode(told)), "name") == ["evil\\x1b[2J\\nGPU"]


def test_local_time() -> None:
    moment = datetime(2026, 11, 21, 10, 53, 41, 983_900, tzinfo=timezone.utc)
    (cell,) = rows(make_snapshot(1, taken_at=moment), "timestamp")
    assert cell == f"{moment.astimezone():%Y/%m/%d %H:%M:%S}.983"


def test_a_lost_gpu_is_never_an_idle_one() -> None:
    fault = Fault(source="nvml", message="GPU 0 fell off the bus", code=15)
    lost = make_device(
        state="lost", fault=fault, memory_used_bytes=None, gpu_utilization_percent=None
    )
    snapshot = make_snapshot(devices=(lost, make_device(index=1)))
    assert rows(snapshot, "index,memory.used,utilization.gpu") == [
        "0, [GPU is lost], [GPU is lost]",
        "1, 40960 MiB, 87 %",
    ]


def test_compute_processes_in_the_order_of_the_gpus() -> None:
    shares = tuple(make_process_device(index=index) for index in (0, 1))
    window = make_process(pid=9, name="Xorg", devices=(make_process_device(type="G"),))
    gone = make_process(pid=7, name=None, command_line=None)
    both = make_process(devices=shares, command_line=("/usr/bin/python3", "train.py"))
    snapshot = make_snapshot(2, processes=(both, window, gone))
    assert rows(snapshot, "pid,name,used_memory", of="compute-apps") == [
        "4242, /usr/bin/python3, 40960 MiB",
        "7, [Not Found], 40960 MiB",
        "4242, /usr/bin/python3, 40960 MiB",
    ]


def test_compute_processes_of_a_gpu_in_the_order_of_the_driver() -> None:
    positions = {7: (2, 0), 8: (0, 1), 9: (1, 2)}
    processes = tuple(
        make_process(
            pid=pid,
            devices=tuple(
                make_process_device(index=index, list_position=position)
                for index, position in enumerate(on)
            ),
        )
        for pid, on in positions.items()
    )
    snapshot = make_snapshot(2, processes=processes)
    assert rows(snapshot, "pid", of="compute-apps") == ["8", "9", "7", "7", "8", "9"]


def test_what_the_driver_keeps() -> None:
    page = RetiredPage(address=0x1000, cause="double-bit")
    process = AccountedProcess(pid=7, gpu_utilization_percent=71, active_seconds=61.234)
    device = make_device(retired_pages=(page,), accounted_processes=(process,))
    snapshot = make_snapshot(devices=(device,))
    assert rows(
        snapshot,
        "retired_pages.cause,retired_pages.address,retired_pages.timestamp",
        of="retired-pages",
    ) == ["Double Bit ECC, 0x0000000000001000, [N/A]"]
    assert rows(snapshot, "pid,gpu_util,max_memory_usage,time", of="accounted-apps") == [
        "7, 71 %, [N/A], 61234 ms"
    ]


@pytest.mark.parametrize(
    ("of", "field", "names", "unknown"),
    [
        (
            "retired-pages",
            "retired_pages",
            "retired_pages.cause,retired_pages.address",
            ["Single Bit ECC, [N/A]", "Double Bit ECC, [N/A]"],
        ),
        ("accounted-apps", "accounted_processes", "pid,time", ["[N/A], [N/A]"]),
    ],
)
def test_a_list_without_entries_has_no_rows_and_one_that_is_unknown_says_so(
    of: str, field: str, names: str, unknown: list[str]
) -> None:
    empty = make_snapshot(devices=(make_device(**{field: ()}),))
    assert rows(empty, names, of=of) == []
    absent = make_snapshot(devices=(make_device(**{field: None}),))
    assert rows(absent, names, of=of) == unknown


@pytest.mark.parametrize(("driver", "flags"), [("535.261.03", "0, 1"), ("580.159.04", "No, Yes")])
def test_flags_of_remapped_rows_are_numbers_to_older_drivers(driver: str, flags: str) -> None:
    device = make_device(remapped_rows_pending=False, remapped_rows_failed=True)
    snapshot = make_snapshot(devices=(device,), host=make_host(driver_version=driver))
    names = "remapped_rows.pending,remapped_rows.failure"
    assert list(rows(snapshot, names, of="remapped-rows")) == [flags]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("memory", ["3201", "2201"]),
        ("graphics", ["1980", "1965"]),
        ("graphics,memory", ["1980, 3201", "1965, 3201", "1980, 2201"]),
    ],
)
def test_clocks_that_can_be_set_are_listed_once(names: str, expected: list[str]) -> None:
    clocks = (
        SupportedClocks(memory_clock_mhz=3201, graphics_clocks_mhz=(1980, 1965)),
        SupportedClocks(memory_clock_mhz=2201, graphics_clocks_mhz=(1980,)),
    )
    snapshot = make_snapshot(devices=(make_device(supported_clocks=clocks),))
    found = rows(snapshot, names, "csv,noheader,nounits", of="supported-clocks")
    assert list(found) == expected


def test_accounting_that_is_off_keeps_no_processes() -> None:
    device = make_device(accounted_processes=None, accounting_mode=False)
    assert rows(make_snapshot(devices=(device,)), "pid", of="accounted-apps") == []


@pytest.mark.parametrize(
    ("of", "names", "format", "message"),
    [
        ("gpu", "memory.usd", "csv", "did you mean memory.used"),
        ("gpu", "name", None, "needs --format=csv"),
        ("gpu", "name", "json", "choose csv"),
        ("gpu", "name", "csv,nohead", "'nohead'"),
        ("compute-apps", "memory.used", "csv", "unknown query field"),
        ("compute-apps", "\x1b[2J", "csv", "unknown query field"),
    ],
)
def test_a_wrong_query_is_reported_in_a_line(
    of: str, names: str, format: str | None, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        query(QUERIES[of], names, format)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()


@given(snapshots())
def test_any_snapshot_has_as_many_cells_as_fields(snapshot: Snapshot) -> None:
    for of, kind in QUERIES.items():
        fields = kind.fields
        for found in rows(snapshot, ",".join(fields), of=of):
            assert found.isprintable()
            assert found.count(",") == len(fields) - 1
    assert all(line.isprintable() for line in listing(snapshot))


def test_every_declared_name_can_be_queried_under_its_heading() -> None:
    for field in device_fields().values():
        for name in field.smi:
            assert query(QUERIES["gpu"], name, "csv").heading().partition(" ")[0] == field.smi[0]


def test_headings_of_power_smoothing() -> None:
    power = [
        "secondary_power_floor",
        "min_primary_floor_activation_point",
        "curr_profile.primary_floor_act_offset",
        "admin_override.secondary_power_floor",
    ]
    units = {
        **dict.fromkeys(power, " [W]"),
        "window_multiplier": " [ms]",
        "delayed_power_smoothing_supported": "",
        "curr_profile.primary_floor_act_window_multiplier": "",
    }
    names = {f"power_smoothing.{name}": unit for name, unit in units.items()}
    heading = query(QUERIES["gpu"], ",".join(names), "csv").heading()
    # As on an H200 under driver 580.
    assert heading == ", ".join(f"{name}{unit}" for name, unit in names.items())


def test_a_metric_has_its_names_at_its_declaration_alone() -> None:
    computed = {name for name, field in GPU_FIELDS.items() if field.name not in _declared()}
    prefixes = (
        "pci.",
        "clocks_event_reasons.",
        "clocks_throttle_reasons.",
        "ecc.errors.",
        "remapped_rows.histogram.",
    )
    others = {name for name in computed if not name.startswith(prefixes)}
    assert others == {
        "timestamp",
        "driver_version",
        "count",
        "pcie.link.gen.gpucurrent",
        "pcie.link.gen.hostmax",
        "fabric.state",
        "fabric.status",
        "fabric.health.bandwidth",
        "display_attached",
        "display_mode",
        "inforom.checksum_validation",
        "platform.gpu_fabric_guid",
        *(name for name in NOT_READ if not name.startswith("pci.")),
    }


def _declared() -> set[str]:
    return {field.smi[0] for field in device_fields().values() if field.smi}
