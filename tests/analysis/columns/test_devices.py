import pytest
from hypothesis import given

from gpudash.analysis.columns.devices import DEVICE_COLUMNS
from gpudash.analysis.table import device_rows, fit
from gpudash.model.device import Device
from gpudash.model.snapshot import Snapshot
from tests.factories import make_device, make_snapshot
from tests.strategies import snapshots

GIB = 1 << 30


def texts(device: Device) -> dict[str, str]:
    (row,) = device_rows(make_snapshot(devices=(device,)))
    return {column.key: column.text(row) for column in DEVICE_COLUMNS}


def test_they_read_like_a_sentence() -> None:
    assert texts(make_device(fan_speed_percent=35)) == {
        "index": "0",
        "name": "H100 80GB HBM3",
        "utilization": "87%",
        "sm_active": "-",
        "memory": "40.0G/80.0G",
        "memory_percent": "50%",
        "temperature": "62C",
        "memory_temperature": "70C",
        "fan": "35%",
        "power": "412/700W",
        "sm_clock": "1755/1980MHz",
        "memory_clock": "2619/2619MHz",
        "performance_state": "P0",
        "pcie_link": "gen5 x16",
        "compute_mode": "-",
        "pcie": "-",
        "nvlink": "-",
        "encoder": "-",
        "decoder": "-",
        "ecc": "-",
        "status": "busy",
    }


def shown(*devices: Device) -> set[str]:
    rows = device_rows(make_snapshot(devices=devices))
    return {place.column.key for place in fit(DEVICE_COLUMNS, rows, 300)}


def test_what_the_sms_did_stands_beside_the_time_in_which_any_kernel_ran() -> None:
    told = texts(make_device(gpu_utilization_percent=100, sm_active_percent=12.4))
    assert (told["utilization"], told["sm_active"]) == ("100%", "12%")


def test_device_that_tells_nothing_shows_no_zeros() -> None:
    told = texts(Device(index=3))
    assert told.pop("index") == "3"
    assert told.pop("status") == "unknown"
    assert set(told.values()) == {"-"}


def test_limits_are_left_out_where_there_are_none() -> None:
    told = texts(
        make_device(memory_total_bytes=None, enforced_power_limit_mw=None, max_sm_clock_mhz=None)
    )
    assert (told["memory"], told["power"], told["sm_clock"]) == ("40.0G", "412W", "1755MHz")


@pytest.mark.parametrize(
    ("generation", "lanes", "text"),
    [(4, 16, "gen4 x16"), (None, 16, "gen? x16"), (4, None, "gen4 x?"), (None, None, "-")],
)
def test_what_is_not_known_of_a_pcie_link_is_a_question_mark(
    generation: int | None, lanes: int | None, text: str
) -> None:
    device = make_device(pcie_link_generation=generation, pcie_link_width=lanes)
    assert texts(device)["pcie_link"] == text


def test_slashes_of_the_traffic_stand_in_one_column() -> None:
    some = make_device(pcie_tx_bytes_per_second=3 * GIB, pcie_rx_bytes_per_second=0)
    half = make_device(pcie_tx_bytes_per_second=None, pcie_rx_bytes_per_second=340 << 20)
    assert texts(some)["pcie"] == " 3.0G/0    "
    assert texts(half)["pcie"] == "    -/340M "


def test_encoder_and_memory_errors_appear_only_when_there_are_any() -> None:
    quiet = make_device(encoder_utilization_percent=0, ecc_corrected_volatile_count=0)
    busy = make_device(encoder_utilization_percent=40, decoder_utilization_percent=0)
    failing = make_device(ecc_corrected_volatile_count=3, ecc_uncorrected_volatile_count=1)
    assert {"encoder", "decoder", "ecc"}.isdisjoint(shown(quiet, make_device(index=1)))
    assert {"encoder", "decoder"} & shown(quiet, busy) == {"encoder"}
    assert "ecc" in shown(quiet, failing)
    assert (texts(quiet)["encoder"], texts(quiet)["ecc"]) == ("0%", "0")
    assert (texts(busy)["encoder"], texts(failing)["ecc"]) == ("40%", "3+1")
    (ecc,) = (column for column in DEVICE_COLUMNS if column.key == "ecc")
    (row,) = device_rows(make_snapshot(devices=(failing,)))
    assert ecc.level(row) == "critical"


def test_keys_are_unique() -> None:
    keys = [column.key for column in DEVICE_COLUMNS]
    assert len(keys) == len(set(keys))


def test_absent_values_sort_below_zero() -> None:
    devices = (Device(index=0), make_device(index=1, gpu_utilization_percent=0))
    (column,) = (column for column in DEVICE_COLUMNS if column.key == "utilization")
    absent, zero = (column.sort_key(row) for row in device_rows(make_snapshot(devices=devices)))
    assert absent < zero


@given(snapshots())
def test_every_column_sorts_any_snapshot(snapshot: Snapshot) -> None:
    for column in DEVICE_COLUMNS:
        sorted(device_rows(snapshot), key=column.sort_key)
