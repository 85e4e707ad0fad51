from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.library import FieldAnswer, FieldAnswers, Library, Scoped
from gpudash.collect.nvml.rates import COUNTERS, REASONS, ByteCounters, RateTracker, Throttling
from gpudash.collect.nvml.reader import NvmlReader
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


@pytest.fixture
def board() -> Boards:
    return Boards()


def test_a_rate_is_over_the_time_between_the_entries_stamps(board: Boards) -> None:
    assert board.read(0, f197=1000)["pcie_tx_bytes_per_second"] is None
    assert board.read(SECOND // 2, f197=2000)["pcie_tx_bytes_per_second"] == 2000


def test_nvlink_counts_kibibytes() -> None:
    board = Boards(0, 1)
    board.read(0, f138_all=5)
    assert board.read(SECOND, f138_all=15)["nvlink_tx_bytes_per_second"] == 10 * 1024


def test_a_counter_that_falls_back_drops_the_interval(board: Boards) -> None:
    board.read(0, f197=5000)
    assert board.read(SECOND, f197=100)["pcie_tx_bytes_per_second"] is None
    assert board.read(2 * SECOND, f197=400)["pcie_tx_bytes_per_second"] == 300


def test_a_counter_of_32_bits_goes_round(board: Boards) -> None:
    board.read(0, f197=2**32 - 100)
    assert board.read(SECOND, f197=500)["pcie_tx_bytes_per_second"] == 600


@pytest.mark.parametrize("ceiling", [4e9, 31.5e9, None])
def test_a_counter_that_may_have_gone_round_twice_has_no_rate(
    ceiling: float | None, board: Boards
) -> None:
    board.counters.max_pcie_bytes_per_second = ceiling
    board.read(0, f197=1000, f198=2**32 - 100)
    rates = board.read(SECOND, f197=2000, f198=500)
    assert rates["pcie_tx_bytes_per_second"] is None
    assert rates["pcie_rx_bytes_per_second"] is None


def test_a_fast_link_has_its_rate_between_samples_that_are_near(board: Boards) -> None:
    board.counters.max_pcie_bytes_per_second = 31.5e9
    board.read(0, f197=2**32 - 1000)
    rate = board.read(SECOND // 10, f197=2**31)["pcie_tx_bytes_per_second"]
    assert rate == (2**31 + 1000) * 10


def test_a_counter_that_exceeds_32_bits_never_goes_round(board: Boards) -> None:
    board.counters.max_pcie_bytes_per_second = 31.5e9
    board.read(0, f197=2**32 - 100)
    assert board.read(SECOND, f197=2**33)["pcie_tx_bytes_per_second"] == 2**32 + 100
    assert board.read(2 * SECOND, f197=2**33 + 7)["pcie_tx_bytes_per_second"] == 7


def wrap(entry: Any) -> None:
    if entry.fieldId in (PCIE_TX, 198):
        entry.value.sllVal %= 2**32


def test_a_gpu_whose_counters_go_round_is_not_reported_what_its_link_may_exceed() -> None:
    machine, wide = Machine("pcie-1080ti"), Machine("pcie-1080ti")
    machine.change_fields(wrap)
    device, expected = machine.device_after(4), wide.device_after(4)
    assert (device.max_pcie_link_generation, device.max_pcie_link_width) == (3, 16)
    assert expected.pcie_rx_bytes_per_second is not None
    assert device.pcie_rx_bytes_per_second is None
    for _ in range(12):
        near = machine.read(after=0.1).devices[0]
        near_expected = wide.read(after=0.1).devices[0]
    assert near.pcie_rx_bytes_per_second == pytest.approx(
        near_expected.pcie_rx_bytes_per_second, rel=0.01
    )


def test_averages_go_for_counters_that_go_round(dgx: Machine) -> None:
    dgx.change_fields(wrap)
    assert dgx.device_after(4).pcie_rx_bytes_per_second is not None


def test_a_counter_that_misses_a_tick_starts_again(board: Boards) -> None:
    board.read(0, f197=0)
    assert board.read(SECOND)["pcie_tx_bytes_per_second"] is None
    assert board.read(2 * SECOND, f197=700)["pcie_tx_bytes_per_second"] is None


def test_all_ones_are_no_counter(board: Boards) -> None:
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


def test_a_counter_that_is_not_supported_is_not_asked_again(board: Boards) -> None:
    board.read(0, f197="no", f198=0)
    assert board.counters.wanted(board.now) == [(198, 0)]
    assert board.read(SECOND, f198=7)["pcie_rx_bytes_per_second"] == 7


def test_a_gpu_without_links_is_not_asked_for_them() -> None:
    assert {number for number, _ in Boards().counters.wanted(0.0)} == {PCIE_TX, 198}


def test_a_dgx_tells_its_traffic_from_the_second_sample_on(dgx: Machine) -> None:
    first = dgx.read().devices[0]
    assert first.nvlink_count == 18
    assert first.nvlink_tx_bytes_per_second is None
    assert first.pcie_rx_bytes_per_second is None
    busy = dgx.read().devices[0]
    assert busy.pcie_rx_bytes_per_second
    assert busy.pcie_tx_bytes_per_second == pytest.approx(
        0.8 * busy.pcie_rx_bytes_per_second, rel=0.01
    )
    assert busy.nvlink_rx_bytes_per_second
    assert busy.nvlink_rx_bytes_per_second > 1e9


def test_a_board_without_counters_tells_its_averages_instead() -> None:
    counting, averaging = Machine("dgx-h100"), Machine("dgx-h100")
    averaging.refuse_fields(PCIE_TX, 198, NVLINK_TX, NVLINK_RX)
    expected, device = counting.device_after(3), averaging.device_after(3)
    for field in (counter.field for counter in COUNTERS):
        assert getattr(device, field) == pytest.approx(getattr(expected, field), rel=0.001)


def test_a_driver_without_field_values_is_asked_once(dgx: Machine) -> None:
    missing = dgx.driver.error(codes.FUNCTION_NOT_FOUND)
    dgx.driver.replaced["nvmlDeviceGetFieldValues"] = missing
    rates = {dgx.read().devices[0].pcie_rx_bytes_per_second for _ in range(4)}
    assert len(rates) == 4
    asked = dgx.driver.asked.count("nvmlDeviceGetFieldValues")
    dgx.device_after(4)
    assert dgx.driver.asked.count("nvmlDeviceGetFieldValues") == asked


def test_a_board_without_nvlink_or_counters_has_none(single: Machine) -> None:
    single.refuse_fields(PCIE_TX, 198)
    device = single.device_after(3)
    assert device.nvlink_count is None
    assert device.nvlink_tx_bytes_per_second is None
    assert device.pcie_tx_bytes_per_second is None
    assert device.power_instant_mw is not None


def test_a_gpu_that_comes_back_shows_no_rate_over_its_absence(dgx: Machine) -> None:
    dgx.device_after(2)
    fail = dgx.driver.error(codes.GPU_IS_LOST)
    dgx.driver.replaced["nvmlDeviceGetUtilizationRates"] = fail
    assert dgx.read().devices[0].nvlink_rx_bytes_per_second is None
    del dgx.driver.replaced["nvmlDeviceGetUtilizationRates"]
    assert dgx.read(after=60.0).devices[0].pcie_rx_bytes_per_second is None
    assert dgx.read().devices[0].pcie_rx_bytes_per_second is not None


def test_links_are_counted_rarely(single: Machine) -> None:
    single.device_after(20)
    asked = [name for name in single.driver.asked if name == "nvmlDeviceGetNvLinkState"]
    assert len(asked) == 1


READINGS = st.lists(
    st.none()
    | st.builds(
        FieldAnswer,
        st.integers(0, 2**64 - 1) | st.sampled_from([0, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF]),
        st.integers(0, 2**53),
    ),
    max_size=12,
)


@given(READINGS)
def test_no_reading_makes_a_negative_slope(readings: list[FieldAnswer | None]) -> None:
    slopes = RateTracker()
    told = [slopes.per_second("any", reading, now) for now, reading in enumerate(readings)]
    assert all(slope is None or slope >= 0 for slope in told)
    assert not told or told[0] is None


def test_a_counter_that_is_renewed_seldom_keeps_its_slope_for_a_moment() -> None:
    slopes = RateTracker()
    slopes.per_second("one", FieldAnswer(10, 0), 0.0)
    renewed = FieldAnswer(30, 1_000_000)
    assert [slopes.per_second("one", renewed, now) for now in (1.0, 2.0, 3.5)] == [20, 20, 20]


def test_a_counter_whose_time_stands_still_tells_nothing_of_now() -> None:
    slopes = RateTracker()
    slopes.per_second("one", FieldAnswer(10, 0), 0.0)
    standing = FieldAnswer(30, 1_000_000)
    slopes.per_second("one", standing, 1.0)
    assert [slopes.per_second("one", standing, now) for now in (4.5, 10.0, 3600.0)] == [None] * 3
    assert slopes.per_second("one", FieldAnswer(50, 11_000_000), 3601.0) == 2


CALL = "nvmlDeviceGetPcieThroughput"
PCIE_COUNTERS = (197, 198)


def machine(*, asked: bool, counts: bool = False) -> Machine:
    """A single GPU whose PCIe counters the driver lacks, unless it counts."""
    tampered = Machine("single")
    tampered.refuse_fields(*(() if counts else PCIE_COUNTERS))
    library = Library(tampered.driver, pcie_throughput=asked)
    tampered.reader = NvmlReader(library, tampered.host, lambda: tampered.now, lambda: tampered.now)
    return tampered


def test_no_caller_is_held_up_who_did_not_ask() -> None:
    tampered = machine(asked=False)
    device = tampered.device_after(8)
    assert device.pcie_rx_bytes_per_second is None
    assert CALL not in tampered.driver.asked


def test_who_asks_is_reported_in_the_first_tick_and_every_five_seconds() -> None:
    tampered = machine(asked=True)
    tampered.driver.replaced[CALL] = lambda _, which: 1500 if which else 700
    for _ in range(8):
        device = tampered.read().devices[0]
        assert device.pcie_tx_bytes_per_second == 700_000
        assert device.pcie_rx_bytes_per_second == 1_500_000
    assert tampered.driver.asked.count(CALL) == 2 * 2


def test_counters_go_before_the_call() -> None:
    tampered = machine(asked=True, counts=True)
    tampered.read()
    device = tampered.device_after(12)
    assert device.pcie_rx_bytes_per_second is not None
    assert tampered.driver.asked.count(CALL) == 2


@pytest.mark.parametrize("garbage", [0xFFFFFFFF, 4 * 10**9])
def test_garbage_is_no_rate(garbage: int) -> None:
    tampered = machine(asked=True)
    tampered.driver.replaced[CALL] = lambda *_: garbage
    assert tampered.read().devices[0].pcie_tx_bytes_per_second is None


def test_a_gpu_that_cannot_is_asked_once() -> None:
    tampered = machine(asked=True)
    tampered.driver.replaced[CALL] = tampered.driver.error(codes.NOT_SUPPORTED)
    for _ in range(12):
        assert tampered.read().devices[0].pcie_tx_bytes_per_second is None
    assert tampered.driver.asked.count(CALL) == 2


def test_one_that_says_it_is_gone_is_believed() -> None:
    tampered = machine(asked=True)
    tampered.driver.replaced[CALL] = tampered.driver.error(codes.GPU_IS_LOST)
    assert tampered.read().devices[0].state == "lost"


POWER, BRAKE = 74, 271
NANOSECONDS = 1_000_000_000


def read(
    throttling: Throttling, now: float, values: dict[int, int], refused: tuple[int, ...] = ()
) -> dict[str, float | None]:
    wanted = throttling.wanted(now)
    answers: dict[Scoped, FieldAnswer] = {
        scope: FieldAnswer(values[scope[0]], int(now * 1e6))
        for scope in wanted
        if scope[0] in values
    }
    turned_down = frozenset(scope for scope in wanted if scope[0] in refused)
    return throttling.values(FieldAnswers(answers, turned_down, 0), now)


def test_a_share_is_over_the_time_between_two_readings() -> None:
    throttling = Throttling()
    assert read(throttling, 1.0, {POWER: 5})["throttled_sw_power_cap_percent"] is None
    facts = read(throttling, 3.0, {POWER: NANOSECONDS // 2 + 5})
    assert facts["throttled_sw_power_cap_percent"] == 25.0
    assert facts["throttled_board_limit_percent"] is None


@pytest.mark.parametrize(
    ("counted", "share"),
    [
        (0, 0.0),
        (NANOSECONDS * 21 // 10, 100.0),
        (NANOSECONDS * 50, None),
        (-NANOSECONDS, None),
        (0xFFFFFFFFFFFFFFFF, None),
    ],
)
def test_a_share_is_possible_or_none(counted: int, share: float | None) -> None:
    throttling = Throttling()
    read(throttling, 1.0, {POWER: 2 * NANOSECONDS})
    after = counted if counted > 100 * NANOSECONDS else 2 * NANOSECONDS + counted
    facts = read(throttling, 3.0, {POWER: after})
    assert facts["throttled_sw_power_cap_percent"] == share


def test_what_is_refused_is_asked_once() -> None:
    throttling = Throttling()
    read(throttling, 1.0, {POWER: 0}, refused=(BRAKE,))
    assert {number for number, _ in throttling.wanted(6.0)} == set(REASONS) - {BRAKE}


def test_what_holds_the_driver_for_long_is_asked_less_often() -> None:
    throttling = Throttling()
    counts = {POWER: 0, BRAKE: 0}
    asked = [set(read(throttling, float(now), counts)) for now in range(10)]
    power, brake = REASONS[POWER], REASONS[BRAKE]
    assert [now for now in range(10) if power in asked[now]] == [0, 1, 2, 4, 6, 8]
    assert [now for now in range(10) if brake in asked[now]] == [0, 5]


def test_a_capped_card_says_so_and_a_cool_one_too(dgx: Machine) -> None:
    for _ in range(5):
        devices = dgx.read().devices
    assert devices[2].throttled_sw_power_cap_percent == 100.0
    assert devices[0].throttled_sw_power_cap_percent == 0.0
