from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.library import FieldAnswer, FieldAnswers
from gpudash.collect.nvml.rates import COUNTERS, ByteCounters
from gpudash.model.device import Device
from tests.collect.nvml.tampering import Machine

ALL_LINKS = 0xFFFFFFFF
PCIE_TX, NVLINK_TX, NVLINK_RX = 197, 138, 139
SECOND = 1_000_000


class Boards:
    """ByteCounters of one GPU, read from a table that the test fills."""

    def __init__(self, *links: int) -> None:
        self.counters = ByteCounters()
        self.counters.links = links
        self.counters.max_pcie_bytes_per_second = 1e9
        self.now = 100.0

    def read(self, timestamp_us: int, **values: int | str | None) -> dict[str, int | None]:
        """Answer what is wanted: `f138` for every scope, `f138_2` for link 2; "no" refuses it."""
        self.now += 1.0
        answers = {}
        refused = set()
        for number, scope in self.counters.wanted(self.now):
            named = f"f{number}_{'all' if scope == ALL_LINKS else scope}"
            value = values.get(named, values.get(f"f{number}"))
            if isinstance(value, int):
                answers[number, scope] = FieldAnswer(value, timestamp_us)
            elif value is not None:
                refused.add((number, scope))
        return self.counters.values(FieldAnswers(answers, frozenset(refused)), self.now)


def device_after(machine: Machine, ticks: int = 2) -> Device:
    for _ in range(ticks):
        reading = machine.read()
    return reading.devices[0]


def changed(machine: Machine, change: Callable[[Any], None]) -> None:
    """Let a test change each entry that the driver answers in a batch of field values."""
    genuine = machine.host.library.nvmlDeviceGetFieldValues

    def answer(handle: Any, ids: Any) -> Any:
        entries = genuine(handle, ids)
        for entry in entries:
            change(entry)
        return entries

    machine.driver.replaced["nvmlDeviceGetFieldValues"] = answer


def test_a_rate_is_over_the_time_between_the_entries_stamps() -> None:
    board = Boards()
    assert board.read(0, f197=1000)["pcie_tx_bytes_per_second"] is None
    assert board.read(SECOND // 2, f197=2000)["pcie_tx_bytes_per_second"] == 2000


def test_nvlink_counts_kibibytes() -> None:
    board = Boards(0, 1)
    board.read(0, f138_all=5)
    assert board.read(SECOND, f138_all=15)["nvlink_tx_bytes_per_second"] == 10 * 1024


def test_a_counter_that_falls_back_drops_the_interval() -> None:
    board = Boards()
    board.read(0, f197=5000)
    assert board.read(SECOND, f197=100)["pcie_tx_bytes_per_second"] is None
    assert board.read(2 * SECOND, f197=400)["pcie_tx_bytes_per_second"] == 300


def test_a_counter_of_32_bits_goes_round() -> None:
    board = Boards()
    board.read(0, f197=2**32 - 100)
    assert board.read(SECOND, f197=500)["pcie_tx_bytes_per_second"] == 600


@pytest.mark.parametrize("ceiling", [4e9, 31.5e9, None])
def test_a_counter_that_may_have_gone_round_twice_has_no_rate(ceiling: float | None) -> None:
    board = Boards()
    board.counters.max_pcie_bytes_per_second = ceiling
    board.read(0, f197=1000, f198=2**32 - 100)
    rates = board.read(SECOND, f197=2000, f198=500)
    assert rates["pcie_tx_bytes_per_second"] is None
    assert rates["pcie_rx_bytes_per_second"] is None


def test_a_fast_link_has_its_rate_between_samples_that_are_near() -> None:
    board = Boards()
    board.counters.max_pcie_bytes_per_second = 31.5e9
    board.read(0, f197=2**32 - 1000)
    rate = board.read(SECOND // 10, f197=2**31)["pcie_tx_bytes_per_second"]
    assert rate == (2**31 + 1000) * 10


def test_a_counter_that_exceeds_32_bits_never_goes_round() -> None:
    board = Boards()
    board.counters.max_pcie_bytes_per_second = 31.5e9
    board.read(0, f197=2**32 - 100)
    assert board.read(SECOND, f197=2**33)["pcie_tx_bytes_per_second"] == 2**32 + 100
    assert board.read(2 * SECOND, f197=2**33 + 7)["pcie_tx_bytes_per_second"] == 7


def wrap(entry: Any) -> None:
    if entry.fieldId in (PCIE_TX, 198):
        entry.value.ullVal %= 2**32


def test_a_gpu_whose_counters_go_round_is_not_told_what_its_link_may_exceed() -> None:
    machine, wide = Machine("pcie-1080ti"), Machine("pcie-1080ti")
    changed(machine, wrap)
    device, expected = device_after(machine, 4), device_after(wide, 4)
    assert (device.max_pcie_link_generation, device.max_pcie_link_width) == (3, 16)
    assert expected.pcie_rx_bytes_per_second is not None
    assert device.pcie_rx_bytes_per_second is None
    for _ in range(3):
        near = machine.read(after=0.1).devices[0]
        near_expected = wide.read(after=0.1).devices[0]
    assert near.pcie_rx_bytes_per_second == near_expected.pcie_rx_bytes_per_second


def test_averages_go_for_counters_that_go_round() -> None:
    machine = Machine("dgx-h100")
    changed(machine, wrap)
    assert device_after(machine, 4).pcie_rx_bytes_per_second is not None


def test_a_counter_that_was_not_renewed_keeps_its_rate() -> None:
    board = Boards()
    board.read(0, f197=0)
    board.read(SECOND, f197=700)
    assert board.read(SECOND, f197=700)["pcie_tx_bytes_per_second"] == 700


def test_a_counter_that_stands_still_has_no_rate_of_now() -> None:
    machine = Machine("lost")
    device_after(machine, ticks=3)
    standing = int(machine.now * 1e6)
    changed(machine, lambda entry: setattr(entry, "timestamp", standing))
    rates = [device_after(machine, ticks=1).pcie_tx_bytes_per_second for _ in range(8)]
    assert rates[0] is not None
    assert rates[4:] == [None] * 4


def test_a_counter_that_misses_a_tick_starts_anew() -> None:
    board = Boards()
    board.read(0, f197=0)
    assert board.read(SECOND)["pcie_tx_bytes_per_second"] is None
    assert board.read(2 * SECOND, f197=700)["pcie_tx_bytes_per_second"] is None


def test_all_ones_are_no_counter() -> None:
    board = Boards()
    board.read(0, f197=2**64 - 1)
    assert board.read(SECOND, f197=2**64 - 1)["pcie_tx_bytes_per_second"] is None


@pytest.mark.parametrize("aggregate", [0, None, "no"])
def test_links_are_added_up_where_the_driver_does_not(aggregate: int | str | None) -> None:
    board = Boards(0, 2)
    board.read(0, f197=1, f138_all=aggregate)
    assert board.read(SECOND, f138_0=10, f138_2=10)["nvlink_tx_bytes_per_second"] is None
    rates = board.read(2 * SECOND, f138_0=13, f138_2=14)
    assert rates["nvlink_tx_bytes_per_second"] == 7 * 1024


def test_links_that_are_not_supported_are_not_asked_again() -> None:
    board = Boards(0, 1)
    for tick in range(4):
        board.read(tick * SECOND, f197=tick, f138="no", f139="no")
    assert {number for number, _ in board.counters.wanted(board.now)} == {PCIE_TX, 198}


def test_links_that_failed_for_a_while_are_asked_again() -> None:
    board = Boards(0, 1)
    for tick in range(4):
        board.read(tick * SECOND, f197=tick)
    board.read(4 * SECOND, f138=0)
    assert board.read(5 * SECOND, f138=5)["nvlink_tx_bytes_per_second"] == 10 * 1024


def test_a_counter_that_is_not_supported_is_not_asked_again() -> None:
    board = Boards()
    board.read(0, f197="no", f198=0)
    assert board.counters.wanted(board.now) == [(198, 0)]
    assert board.read(SECOND, f198=7)["pcie_rx_bytes_per_second"] == 7


def test_a_gpu_without_links_is_not_asked_for_them() -> None:
    assert {number for number, _ in Boards().counters.wanted(0.0)} == {PCIE_TX, 198}


def test_a_dgx_tells_its_traffic_from_the_second_sample_on() -> None:
    machine = Machine("dgx-h100")
    first = machine.read().devices[0]
    assert first.nvlink_count == 18
    assert first.nvlink_tx_bytes_per_second is None
    assert first.pcie_rx_bytes_per_second is None
    busy = machine.read().devices[0]
    assert busy.pcie_rx_bytes_per_second
    assert busy.pcie_tx_bytes_per_second == pytest.approx(
        0.8 * busy.pcie_rx_bytes_per_second, rel=0.01
    )
    assert busy.nvlink_rx_bytes_per_second
    assert busy.nvlink_rx_bytes_per_second > 1e9


def test_a_sum_that_is_missing_is_made_from_the_links() -> None:
    whole, parts = Machine("dgx-h100"), Machine("dgx-h100")

    def refuse_sums(entry: Any) -> None:
        if entry.scopeId == ALL_LINKS:
            entry.nvmlReturn = codes.NOT_SUPPORTED

    changed(parts, refuse_sums)
    expected = device_after(whole, 4).nvlink_rx_bytes_per_second
    assert device_after(parts, 4).nvlink_rx_bytes_per_second == pytest.approx(expected, rel=0.001)


def test_a_board_without_counters_tells_its_averages_instead() -> None:
    counting, averaging = Machine("dgx-h100"), Machine("dgx-h100")

    def refuse(entry: Any) -> None:
        if entry.fieldId in (PCIE_TX, 198, NVLINK_TX, NVLINK_RX):
            entry.nvmlReturn = codes.NOT_SUPPORTED

    changed(averaging, refuse)
    expected, device = device_after(counting, 4), device_after(averaging, 4)
    for field in (counter.field for counter in COUNTERS):
        assert getattr(device, field) == pytest.approx(getattr(expected, field), rel=0.001)


def test_a_driver_without_field_values_is_asked_once() -> None:
    machine = Machine("dgx-h100")
    missing = machine.driver.error(codes.FUNCTION_NOT_FOUND)
    machine.driver.replaced["nvmlDeviceGetFieldValues"] = missing
    rates = {machine.read().devices[0].pcie_rx_bytes_per_second for _ in range(4)}
    assert len(rates) == 4
    asked = machine.driver.asked.count("nvmlDeviceGetFieldValues")
    device_after(machine, 4)
    assert machine.driver.asked.count("nvmlDeviceGetFieldValues") == asked


def test_a_board_without_nvlink_or_counters_has_none() -> None:
    machine = Machine("single")

    def refuse(entry: Any) -> None:
        if entry.fieldId in (PCIE_TX, 198):
            entry.nvmlReturn = codes.NOT_SUPPORTED

    changed(machine, refuse)
    device = device_after(machine, 3)
    assert device.nvlink_count is None
    assert device.nvlink_tx_bytes_per_second is None
    assert device.pcie_tx_bytes_per_second is None
    assert device.power_instant_mw is not None


def test_a_gpu_that_comes_back_shows_no_rate_over_its_absence() -> None:
    machine = Machine("dgx-h100")
    device_after(machine)
    fail = machine.driver.error(codes.GPU_IS_LOST)
    machine.driver.replaced["nvmlDeviceGetUtilizationRates"] = fail
    assert machine.read().devices[0].nvlink_rx_bytes_per_second is None
    del machine.driver.replaced["nvmlDeviceGetUtilizationRates"]
    assert machine.read(after=60.0).devices[0].pcie_rx_bytes_per_second is None
    assert machine.read().devices[0].pcie_rx_bytes_per_second is not None


def test_links_are_counted_rarely() -> None:
    machine = Machine("single")
    for _ in range(20):
        machine.read()
    asked = [name for name in machine.driver.asked if name == "nvmlDeviceGetNvLinkState"]
    without_topology = len(asked) - 1
    assert without_topology == 1
