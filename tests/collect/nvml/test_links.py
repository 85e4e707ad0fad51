from collections.abc import Callable
from typing import Any

import pytest

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.links import FABRIC_FIELDS, KINDS, MAX_LINKS
from tests.collect.nvml.tampering import Machine

FABRIC_CALL = "nvmlDeviceGetGpuFabricInfoV"


def machine_with(**members: Any) -> Machine:
    machine = Machine("dgx-h100")

    def fill(handle: Any, info: Any) -> None:
        for name, value in members.items():
            setattr(info, name, value)

    machine.driver.replaced[FABRIC_CALL] = fill
    return machine


def test_a_gpu_in_a_fabric_tells_where_it_is() -> None:
    device = Machine("dgx-h100").read().devices[0]
    assert device.fabric_state == "completed"
    assert (device.fabric_status_code, device.fabric_bandwidth_degraded) == (0, False)
    assert device.fabric_clique_id == 0
    assert [len(part) for part in (device.fabric_cluster_uuid or "").split("-")] == [8, 4, 4, 4, 12]


@pytest.mark.parametrize(("state", "word"), [(1, "not-started"), (2, "in-progress")])
def test_one_that_has_not_joined_yet_has_no_status(state: int, word: str) -> None:
    device = machine_with(state=state, status=codes.UNKNOWN).read().devices[0]
    assert (device.fabric_state, device.fabric_status_code) == (word, None)
    assert device.fabric_cluster_uuid is None


def test_one_that_failed_to_join_says_how() -> None:
    device = machine_with(state=3, status=codes.UNKNOWN, healthMask=1).read().devices[0]
    assert (device.fabric_state, device.fabric_status_code) == ("completed", codes.UNKNOWN)
    assert device.fabric_bandwidth_degraded is True


def test_what_the_fabric_says_of_its_routes() -> None:
    mask = 0b01_10_00_10 | 2 << 12
    device = machine_with(state=3, status=0, healthMask=mask).read().devices[0]
    assert device.fabric_bandwidth_degraded is False
    assert device.fabric_route_recovering is None
    assert device.fabric_route_unhealthy is False
    assert device.fabric_access_timeout_recovering is True
    assert device.fabric_partition_assigned is False


@pytest.mark.parametrize(
    ("configuration", "word"), [(0, None), (1, "none"), (4, "no-partition"), (15, None)]
)
def test_the_fabric_in_a_word(configuration: int, word: str | None) -> None:
    machine = machine_with(state=3, status=0, healthMask=configuration << 8, healthSummary=2)
    device = machine.read().devices[0]
    assert (device.fabric_health, device.fabric_incorrect_configuration) == ("unhealthy", word)


@pytest.mark.parametrize("code", [codes.ARGUMENT_VERSION_MISMATCH, codes.INVALID_ARGUMENT])
def test_an_older_driver_reports_its_fabric_without_that_word(code: int, dgx: Machine) -> None:
    fail, genuine = dgx.driver.error(code), dgx.host.library.nvmlDeviceGetGpuFabricInfoV

    def second_version(handle: Any, info: Any) -> Any:
        return fail() if hasattr(info, "healthSummary") else genuine(handle, info)

    dgx.driver.replaced[FABRIC_CALL] = second_version
    device = dgx.device_after(25)
    assert (device.fabric_state, device.fabric_bandwidth_degraded) == ("completed", False)
    # Once for all of the eight GPUs, and then every ten seconds.
    assert dgx.driver.asked.count(FABRIC_CALL) == 8 * 4


@pytest.mark.parametrize("code", [None, codes.NOT_SUPPORTED, codes.FUNCTION_NOT_FOUND])
def test_one_outside_of_any_or_without_part_in_it_is_asked_once(code: int | None) -> None:
    machine = machine_with(state=0)
    if code is not None:
        machine.driver.replaced[FABRIC_CALL] = machine.driver.error(code)
    device = machine.device_after(25)
    assert all(getattr(device, field) is None for field in FABRIC_FIELDS)
    assert machine.driver.asked.count(FABRIC_CALL) == 8


def test_a_look_that_failed_is_repeated(dgx: Machine) -> None:
    dgx.driver.replaced[FABRIC_CALL] = dgx.driver.error(codes.UNKNOWN)
    assert dgx.read().devices[0].fabric_state is None
    del dgx.driver.replaced[FABRIC_CALL]
    device = dgx.device_after(12)
    assert device.fabric_state == "completed"


def test_a_fabric_call_that_says_the_gpu_is_gone_is_believed(dgx: Machine) -> None:
    dgx.driver.replaced[FABRIC_CALL] = dgx.driver.error(codes.GPU_IS_LOST)
    assert dgx.read().devices[0].state == "lost"


FIELDS = "nvmlDeviceGetFieldValues"
ERROR_CALL = "nvmlDeviceGetNvLinkErrorCounter"
CRC, REPLAY, RECOVERY, RECEIVE, EVENTS = 163, 161, 162, 208, 215
ERRORS = (CRC, REPLAY, RECOVERY, RECEIVE, EVENTS)


def tampered(change: Callable[[Any, float], None]) -> Machine:
    """A machine whose field values a test changes, told the seconds that have passed."""
    machine = Machine("dgx-h100")
    started = machine.now
    machine.change_fields(lambda entry: change(entry, machine.now - started))
    return machine


def erring(number: int, link: int, per_second: int) -> Callable[[Any, float], None]:
    def change(entry: Any, passed: float) -> None:
        if entry.fieldId == number and entry.scopeId == link:
            entry.value.sllVal = 100 + round(passed * per_second)

    return change


def test_a_one_shot_does_not_ask(dgx: Machine) -> None:
    asked = dgx.change_fields()
    assert dgx.read().devices[0].nvlink_crc_error_count is None
    assert not {*ERRORS} & set().union(*asked)
    assert "nvmlEventSetCreate" not in dgx.driver.asked


def test_healthy_links_have_no_errors() -> None:
    device = Machine("dgx-h100").device_after(14)
    assert device.nvlink_crc_error_count == 0
    assert device.nvlink_replays_per_second == 0
    assert device.nvlink_erring_links == ()
    assert device.nvlink_receive_error_count is None


def test_the_link_that_errs_is_named() -> None:
    device = tampered(erring(CRC, 7, per_second=3)).device_after(14)
    assert device.nvlink_crc_errors_per_second == pytest.approx(3)
    assert (device.nvlink_crc_error_count or 0) > 100
    assert device.nvlink_erring_links == (7,)
    assert device.nvlink_replays_per_second == 0


def test_a_counter_that_falls_back_is_no_negative_rate() -> None:
    def change(entry: Any, passed: float) -> None:
        if entry.fieldId == CRC:
            entry.value.sllVal = 5000 if passed < 5 else 1

    device = tampered(change).device_after(14)
    assert device.nvlink_crc_error_count == 18
    assert device.nvlink_crc_errors_per_second is None
    assert device.nvlink_erring_links == ()


def test_a_newer_chip_counts_recoveries_and_receive_errors_elsewhere() -> None:
    def change(entry: Any, passed: float) -> None:
        if entry.fieldId in (CRC, REPLAY, RECOVERY):
            entry.nvmlReturn = codes.NOT_SUPPORTED
        if entry.fieldId in (RECEIVE, EVENTS):
            entry.nvmlReturn, entry.value.sllVal = 0, 2

    machine = tampered(change)
    machine.driver.replaced[ERROR_CALL] = machine.driver.error(codes.NOT_SUPPORTED)
    device = machine.device_after(24)
    assert device.nvlink_crc_error_count is None
    assert device.nvlink_recovery_count == 36
    assert device.nvlink_receive_error_count == 36
    assert device.nvlink_receive_errors_per_second == 0
    asked = machine.driver.asked.count(ERROR_CALL)
    assert asked == 8


def test_an_older_driver_is_asked_link_by_link() -> None:
    def change(entry: Any, passed: float) -> None:
        if entry.fieldId in ERRORS:
            entry.nvmlReturn = codes.INVALID_ARGUMENT

    machine = tampered(change)
    started = machine.now
    machine.driver.replaced[ERROR_CALL] = lambda _, link, kind: (
        (kind == 2 and link == 3) * round(machine.now - started)
    )
    device = machine.device_after(24)
    assert device.nvlink_crc_errors_per_second == pytest.approx(1, rel=0.05)
    assert device.nvlink_erring_links == (3,)
    assert device.nvlink_replay_count == 0


def test_links_that_are_down_are_named(dgx: Machine) -> None:
    genuine = dgx.host.library.nvmlDeviceGetNvLinkState
    dgx.driver.replaced["nvmlDeviceGetNvLinkState"] = lambda handle, link: (
        0 if link in (4, 11) else genuine(handle, link)
    )
    device = dgx.device_after(14)
    assert (device.nvlink_count, device.nvlink_total_count) == (16, 18)
    assert device.nvlink_inactive_links == (4, 11)
    assert device.nvlink_version == "4.0"
    assert device.nvlink_crc_error_count == 0


def take_down(machine: Machine) -> None:
    """Let all links be down from now on, those that there are."""
    genuine = machine.host.library.nvmlDeviceGetNvLinkState
    machine.driver.replaced["nvmlDeviceGetNvLinkState"] = lambda *link: 0 * genuine(*link)


def test_what_was_known_of_links_that_all_went_down_is_taken_back() -> None:
    machine = tampered(erring(CRC, 7, per_second=3))
    before = machine.device_after(14)
    assert (before.nvlink_crc_error_count, before.nvlink_erring_links) != (None, None)
    take_down(machine)
    after = machine.device_after(31)
    assert (after.nvlink_count, after.nvlink_total_count) == (0, 18)
    told = {kind.total for kind in KINDS} | {kind.rate for kind in KINDS} | {"nvlink_erring_links"}
    assert {field: getattr(after, field) for field in told} == dict.fromkeys(told)


def test_links_that_come_up_again_have_errors_only_of_since_then() -> None:
    machine = tampered(erring(CRC, 7, per_second=3))
    machine.device_after(14)
    take_down(machine)
    machine.device_after(31)
    del machine.driver.replaced["nvmlDeviceGetNvLinkState"]
    seen = [machine.device_after(1) for _ in range(31)]
    told = [d for d in seen if d.nvlink_crc_errors_per_second is not None]
    assert told
    assert all(d.nvlink_crc_errors_per_second == pytest.approx(3) for d in told)


def test_a_board_without_links_tells_nothing_of_them() -> None:
    device = Machine("single").device_after(14)
    assert device.nvlink_total_count is None
    assert device.nvlink_inactive_links is None
    assert device.nvlink_crc_error_count is None
    assert device.nvlink_erring_links is None


def counting(machine: Machine, count: int, up: frozenset[int]) -> Machine:
    """Return a machine whose boards have so many NVLinks, of a chip that has 18."""

    def change(entry: Any) -> None:
        if entry.fieldId == 91:
            entry.value.sllVal = count

    machine.change_fields(change)
    machine.driver.replaced["nvmlDeviceGetNvLinkState"] = lambda _, link: int(link in up)
    return machine


@pytest.mark.parametrize(
    ("count", "up", "inactive"),
    [
        (12, frozenset(range(12)), ()),
        (12, frozenset(range(12)) - {4}, (4,)),
        (8, frozenset(range(0, 16, 2)), ()),
        (4, frozenset(), (0, 1, 2, 3)),
    ],
)
def test_links_that_the_board_does_not_have_are_not_inactive(
    count: int, up: frozenset[int], inactive: tuple[int, ...]
) -> None:
    device = counting(Machine("dgx-h100"), count, up).read().devices[0]
    assert (device.nvlink_count, device.nvlink_total_count) == (len(up), count)
    assert device.nvlink_inactive_links == inactive


def test_a_board_without_links_has_none_although_its_chip_has() -> None:
    device = counting(Machine("dgx-h100"), 0, frozenset()).read().devices[0]
    assert device.nvlink_total_count is None
    assert device.nvlink_inactive_links is None


def test_a_count_of_links_that_failed_is_asked_again() -> None:
    machine = counting(Machine("dgx-h100"), 4, frozenset(range(4)))
    answer = machine.driver.replaced[FIELDS]
    machine.driver.replaced[FIELDS] = machine.driver.error(codes.UNKNOWN)
    device = machine.read().devices[0]
    assert (device.nvlink_count, device.nvlink_total_count) == (4, None)
    assert device.nvlink_inactive_links is None
    machine.driver.replaced[FIELDS] = answer
    device = machine.device_after(31)
    assert (device.nvlink_count, device.nvlink_total_count) == (4, 4)
    assert device.nvlink_inactive_links == ()


def test_a_driver_without_a_count_of_links_is_believed_about_each() -> None:
    machine = counting(Machine("dgx-h100"), 4, frozenset(range(4)))
    machine.driver.replaced[FIELDS] = machine.driver.error(codes.FUNCTION_NOT_FOUND)
    device = machine.read().devices[0]
    assert (device.nvlink_count, device.nvlink_total_count) == (4, MAX_LINKS)
    assert device.nvlink_inactive_links == tuple(range(4, MAX_LINKS))
