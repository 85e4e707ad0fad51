from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import pytest
from msgspec.structs import replace

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.xids import XidWatch
from gpudash.model import xid_handover
from gpudash.model.device import Device
from gpudash.model.fault import XidEvent
from tests.collect.nvml.tampering import Machine
from tests.factories import make_snapshot

WAIT = "nvmlEventSetWait_v2"
NO_INSTANCE = 0xFFFFFFFF


def event(code: int, instance: int = NO_INSTANCE, device: object = ANY) -> SimpleNamespace:
    return SimpleNamespace(eventType=8, eventData=code, gpuInstanceId=instance, device=device)


def raising(machine: Machine) -> list[SimpleNamespace]:
    """Return a list of events that the driver reports, in turn, of whichever GPU asks."""
    pending: list[SimpleNamespace] = []
    timeout: Callable[..., None] = machine.driver.error(codes.TIMEOUT)
    machine.driver.replaced[WAIT] = lambda *_: pending.pop(0) if pending else timeout()
    return pending


def events(machine: Machine) -> tuple[XidEvent, ...] | None:
    return machine.read().devices[0].xid_events


def test_a_gpu_is_watched_from_the_second_tick_on(single: Machine) -> None:
    assert events(single) is None
    assert events(single) == ()
    assert single.driver.asked.count("nvmlEventSetCreate") == 1


def test_an_xid_is_kept_with_its_time(single: Machine) -> None:
    single.read()
    raising(single).append(event(31))
    assert events(single) == (XidEvent(code=31, seen_at=single.now),)
    seen_at = single.now
    assert events(single) == (XidEvent(code=31, seen_at=seen_at),)


def test_the_same_one_again_counts_up(single: Machine) -> None:
    single.read()
    raising(single).extend([event(13), event(94, 2), event(94, 2), event(94, 3)])
    found = events(single) or ()
    assert [(each.code, each.gpu_instance_id, each.count) for each in found] == [
        (13, None, 1),
        (94, 2, 2),
        (94, 3, 1),
    ]


def test_failing_programs_do_not_push_out_what_failed_before() -> None:
    machine = Reported(48)
    machine.pending.extend([event(31), event(43)] * 20)
    found = events(machine) or ()
    assert [(each.code, each.count) for each in found] == [(48, 1), (31, 20), (43, 20)]
    machine.pending.append(event(31))
    found = events(machine) or ()
    assert [(each.code, each.count) for each in found] == [(48, 1), (43, 20), (31, 21)]
    assert found[-1].seen_at == machine.now


def test_the_last_ones_are_kept(single: Machine) -> None:
    single.read()
    raising(single).extend(event(code) for code in range(1, 41))
    assert [each.code for each in events(single) or ()] == list(range(25, 41))


def test_a_storm_does_not_hold_up_a_tick(single: Machine) -> None:
    single.read()
    single.driver.replaced[WAIT] = lambda *_: event(63)
    found = events(single) or ()
    assert [(each.code, each.count) for each in found] == [(63, 64)]


def test_one_that_the_driver_does_not_know_has_no_number(single: Machine) -> None:
    single.read()
    raising(single).append(event(999))
    found = events(single) or ()
    assert found[0].code is None
    assert str(found[0]).startswith("unknown at ")


def test_the_xid_by_which_a_gpu_was_lost_stays_with_it(single: Machine) -> None:
    single.read()
    single.read()
    raising(single).append(event(79))
    lost = single.driver.error(codes.GPU_IS_LOST)
    single.driver.replaced["nvmlDeviceGetTemperatureV"] = lost
    device = single.read().devices[0]
    assert device.state == "lost"
    assert [each.code for each in device.xid_events or ()] == [79]
    assert single.driver.asked.count("nvmlEventSetFree") == 1
    for _ in range(30):
        assert over(single) == [(79, False)]


def over(machine: Machine) -> list[tuple[int | None, bool]]:
    """The XIDs of the first GPU, and whether each was before a reset."""
    return [(each.code, each.before_reset) for each in events(machine) or ()]


class Reported(Machine):
    """A GPU that has reported an XID, and which the test then treats."""

    def __init__(self, code: int, **replaced: Callable[..., object]) -> None:
        super().__init__("single")
        self.load = 1
        self.driver.replaced.update(replaced)
        self.read()
        self.read()
        self.pending = raising(self)
        self.pending.append(event(code))
        assert over(self) == [(code, False)]

    def let_go(self) -> None:
        self.reader.close()


@pytest.mark.parametrize("code", [codes.GPU_IS_LOST, codes.RESET_REQUIRED, codes.UNINITIALIZED])
def test_a_gpu_that_came_back_has_its_xids_behind_it(code: int) -> None:
    machine = Reported(79)
    genuine = dict(machine.driver.replaced)
    machine.fail(code)
    for _ in range(25):
        assert over(machine) == [(79, False)]
    machine.driver.replaced.clear()
    machine.driver.replaced.update(genuine)
    assert machine.read(after=60.0).devices[0].state == "ok"
    assert over(machine) == [(79, True)]
    machine.pending.append(event(79))
    assert over(machine) == [(79, True), (79, False)]


@pytest.mark.parametrize("code", [48, 63, 64, 74, 94, 95, 119])
def test_an_xid_outlasts_a_failure_that_no_reset_mended(code: int) -> None:
    machine = Reported(code)
    genuine = dict(machine.driver.replaced)
    machine.fail(codes.UNKNOWN)
    machine.read()
    machine.driver.replaced.clear()
    machine.driver.replaced.update(genuine)
    assert machine.read(after=60.0).devices[0].state == "ok"
    assert over(machine) == [(code, False)]


@pytest.mark.parametrize(
    ("call", "before", "after"),
    [
        ("nvmlDeviceGetPcieReplayCounter", 7, 0),
        ("nvmlDeviceGetRemappedRows", (0, 1, 1, 0), (0, 1, 0, 0)),
        ("nvmlDeviceGetRetiredPagesPendingStatus", 1, 0),
    ],
)
def test_a_reset_while_gpudash_has_let_go_puts_xids_behind(
    call: str, before: object, after: object
) -> None:
    machine = Reported(63, **{call: lambda *_: before})
    machine.let_go()
    machine.driver.replaced[call] = lambda *_: after
    assert over(machine) == [(63, True)]


def test_energy_that_begins_again_tells_of_a_reset() -> None:
    machine = Reported(119)
    used = (machine.read().devices[0].total_energy_mj or 0) - 1
    machine.let_go()

    def anew(entry: Any) -> None:
        if entry.fieldId == 83:
            entry.value.sllVal -= used

    machine.change_fields(anew)
    assert over(machine) == [(119, True)]


def test_counters_that_fall_while_it_is_read_are_no_reset() -> None:
    machine = Reported(48, nvmlDeviceGetPcieReplayCounter=lambda *_: 7)
    machine.driver.replaced["nvmlDeviceGetPcieReplayCounter"] = lambda *_: 0
    for _ in range(25):
        assert over(machine) == [(48, False)]


def test_a_driver_that_was_loaded_again_has_xids_behind_it() -> None:
    machine = Reported(62)
    machine.let_go()
    machine.load = 2
    assert over(machine) == [(62, True)]


def handed_over(machine: Machine, **changed: object) -> dict[str, Device]:
    """What the next collector is given."""
    (device,) = machine.read().devices
    assert device.uuid is not None
    return {device.uuid: replace(device, **changed)}


def test_another_collector_goes_on_with_the_xids_of_the_one_before() -> None:
    before = Reported(48)
    seen = events(before)
    after = Machine("single", handed_over=handed_over(before))
    after.now = before.now
    assert events(after) == seen
    raising(after).append(event(48))
    assert [each.count for each in events(after) or ()] == [2]


@pytest.mark.parametrize(
    "changed", [{"total_energy_mj": 2**60}, {"pcie_replay_count": 99}, {"recovery_action": "x"}]
)
def test_another_collector_notices_a_reset_in_between(changed: dict[str, object]) -> None:
    before = Reported(48, nvmlDeviceGetPcieReplayCounter=lambda *_: 0)
    after = Machine("single", handed_over=handed_over(before, **changed))
    after.now = before.now
    after.driver.replaced["nvmlDeviceGetPcieReplayCounter"] = lambda *_: 0
    assert over(after) == [(48, "recovery_action" not in changed)]


@pytest.mark.parametrize(
    ("state", "is_over"),
    [
        ("lost", True),
        ("reset-required", True),
        ("failed", False),
        ("not-answering", False),
        ("asleep", False),
    ],
)
def test_a_gpu_that_was_out_until_another_collector_came_has_its_xids_behind_it(
    state: str, is_over: bool
) -> None:
    before = Reported(79)
    (device,) = handed_over(before).values()
    out = Device(index=0, uuid=device.uuid, state=state, xid_events=device.xid_events)  # type: ignore[arg-type]
    found = xid_handover.decode_handover(
        xid_handover.encode_handover(make_snapshot(devices=(out,)))
    )
    after = Machine("single", handed_over=found)
    after.now = before.now
    assert over(after) == [(79, is_over)]
    raising(after).append(event(48))
    after.read()
    after.reader.close()
    assert over(after) == [(79, is_over), (48, False)]


@pytest.mark.parametrize("call", ["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID"])
def test_another_collector_that_finds_it_lost_tells_its_xids_and_who_it_is(call: str) -> None:
    before = Reported(79)
    left = handed_over(before)
    (device,) = left.values()
    after = Machine("single", handed_over=left)
    after.now = before.now
    after.driver.replaced[call] = after.driver.error(codes.GPU_IS_LOST)
    for _ in range(3):
        (lost,) = after.read().devices
        assert (lost.state, lost.uuid, lost.name) == ("lost", device.uuid, device.name)
        assert lost.fault.uuid == device.uuid
        assert lost.xid_events == device.xid_events
    del after.driver.replaced[call]
    after.read(after=60.0)
    assert over(after) == [(79, True)]


def test_what_was_reported_of_another_gpu_is_not_taken() -> None:
    (device,) = handed_over(Reported(48)).values()
    after = Machine("single", handed_over={"GPU-other": device})
    assert events(after) is None
    assert events(after) == ()


def test_an_xid_of_before_says_so_in_words() -> None:
    past = XidEvent(code=79, seen_at=1_800_000_000.0, before_reset=True)
    assert str(past) == "79 at 08:00:00 UTC, before its reset"


@pytest.mark.parametrize(
    "call", ["nvmlDeviceGetSupportedEventTypes", "nvmlEventSetCreate", "nvmlDeviceRegisterEvents"]
)
def test_a_driver_that_reports_none_is_asked_once(call: str, single: Machine) -> None:
    single.driver.replaced[call] = single.driver.error(codes.NOT_SUPPORTED)
    for _ in range(30):
        assert events(single) is None
    assert single.driver.asked.count(call) == 1
    made = single.driver.asked.count("nvmlEventSetCreate")
    assert single.driver.asked.count("nvmlEventSetFree") == (
        made if call == "nvmlDeviceRegisterEvents" else 0
    )


def test_a_set_that_fails_is_made_again(single: Machine) -> None:
    single.read()
    single.read()
    single.driver.replaced[WAIT] = single.driver.error(codes.UNKNOWN)
    single.read()
    del single.driver.replaced[WAIT]
    single.device_after(12)
    assert single.driver.asked.count("nvmlEventSetCreate") == 2
    assert events(single) == ()


def test_letting_go_of_the_driver_gives_the_set_back(dgx: Machine) -> None:
    dgx.read()
    dgx.read()
    dgx.reader.close()
    assert dgx.driver.asked.count("nvmlEventSetFree") == 8


def test_a_simulated_card_reports_in_its_time() -> None:
    machine = Machine("lost")
    machine.device_after(3)
    machine.read(after=900.0)
    watched = machine.read().devices[3].xid_events or ()
    assert [each.code for each in watched] == [45]


class Sets(Machine):
    """Eight GPUs, each with a set of its own in which the test lets events arrive."""

    def __init__(self) -> None:
        super().__init__("pcie-1080ti")
        self.arriving: dict[int, list[SimpleNamespace]] = {}
        """By the set: those of the GPUs, in their order, then those that are made again."""
        self.sets: list[object] = []
        timeout = self.driver.error(codes.TIMEOUT)

        def wait(events: object, _milliseconds: int) -> SimpleNamespace:
            if events not in self.sets:
                self.sets.append(events)
            pending = self.arriving.get(self.sets.index(events))
            return pending.pop(0) if pending else timeout()  # type: ignore[return-value]

        self.driver.replaced[WAIT] = wait
        self.read()
        self.read()

    def xid(self, code: int, of: int) -> SimpleNamespace:
        return event(code, device=self.host.library.nvmlDeviceGetHandleByIndex(of))

    def counts(self) -> list[dict[int | None, int]]:
        """How often each GPU is shown to have reported each XID, after two ticks."""
        self.read()
        devices = self.read().devices
        return [{each.code: each.count for each in one.xid_events or ()} for one in devices]


NONE: dict[int | None, int] = {}


@pytest.mark.parametrize("arrives_with", [0, 2, 7])
def test_an_xid_is_that_of_its_gpu_whichever_set_it_arrives_in(arrives_with: int) -> None:
    machine = Sets()
    machine.arriving[arrives_with] = [machine.xid(79, of=2), machine.xid(31, of=5)]
    assert machine.counts() == [NONE, NONE, {79: 1}, NONE, NONE, {31: 1}, NONE, NONE]


def test_an_xid_that_arrives_in_every_set_is_one() -> None:
    machine = Sets()
    for number in range(8):
        machine.arriving[number] = [machine.xid(79, of=2), machine.xid(79, of=2)]
    assert machine.counts() == [NONE, NONE, {79: 2}, NONE, NONE, NONE, NONE, NONE]
    for number in (0, 6):
        machine.arriving[number] = [machine.xid(79, of=2)]
    assert machine.counts()[2] == {79: 3}


def test_an_xid_that_arrives_in_the_other_sets_a_tick_later_is_the_same() -> None:
    machine = Sets()
    machine.arriving[6] = [machine.xid(79, of=2)]
    machine.read()
    for number in range(6):
        machine.arriving[number] = [machine.xid(79, of=2)]
    assert machine.counts()[2] == {79: 1}


@pytest.mark.parametrize("other", [0, 2, 7])
def test_an_xid_that_comes_again_in_another_set_alone_is_another_one(other: int) -> None:
    machine = Sets()
    machine.arriving[3] = [machine.xid(13, of=2)]
    assert machine.counts()[2] == {13: 1}
    machine.arriving[other] = [machine.xid(13, of=2)]
    assert machine.counts()[2] == {13: 2}


def test_an_xid_that_another_thread_brings_meanwhile_is_the_same() -> None:
    machine = Machine("pcie-1080ti")
    library, watches = Library(machine.driver), list[XidWatch]()
    library.open()
    slow, quick = (XidWatch(library, lambda: machine.now, watches) for _ in range(2))
    of_slow, of_quick = (machine.host.library.nvmlDeviceGetHandleByIndex(n) for n in range(2))
    timeout = machine.driver.error(codes.TIMEOUT)
    machine.driver.replaced[WAIT] = timeout
    slow.fetch(of_slow, machine.now)
    quick.fetch(of_quick, machine.now)
    pending = [event(79, device=of_slow), event(79, device=of_slow)]

    def wait(*_: object) -> SimpleNamespace:
        if len(pending) == 2:
            brought = pending.pop()
            quick.fetch(of_quick, machine.now)
            return brought
        return pending.pop() if pending else timeout()  # type: ignore[return-value]

    machine.driver.replaced[WAIT] = wait
    slow.fetch(of_slow, machine.now)
    assert [(each.code, each.count) for each in slow.events or ()] == [(79, 1)]
    assert quick.events == ()


def test_a_storm_in_every_set_is_counted_once() -> None:
    machine = Sets()
    machine.arriving[0] = [machine.xid(13, of=2) for _ in range(100)]
    for number in range(1, 8):
        machine.arriving[number] = [machine.xid(31, of=2) for _ in range(100)]
        machine.arriving[number] += [machine.xid(13, of=2) for _ in range(100)]
    machine.counts()
    assert machine.counts()[2] == {13: 100, 31: 100}


def test_nothing_of_before_is_expected_in_a_set_that_is_made_again() -> None:
    machine = Sets()
    wait = machine.driver.replaced[WAIT]
    failed = machine.driver.error(codes.UNKNOWN)
    fails = lambda events, _: failed() if events is machine.sets[0] else wait(events, 0)  # noqa: E731
    machine.driver.replaced[WAIT] = fails
    machine.arriving[7] = [machine.xid(13, of=2)]
    assert machine.counts()[2] == {13: 1}
    machine.arriving[8] = [machine.xid(13, of=2)]
    machine.read(after=60.0)
    assert machine.counts()[2] == {13: 2}


def test_the_xid_of_a_lost_gpu_arrives_with_another_one() -> None:
    machine = Sets()
    third = machine.host.library.nvmlDeviceGetHandleByIndex(2)
    temperature = machine.host.library.nvmlDeviceGetTemperatureV
    lost = machine.driver.error(codes.GPU_IS_LOST)
    machine.driver.replaced["nvmlDeviceGetTemperatureV"] = lambda handle, kind: (
        lost() if handle == third else temperature(handle, kind)
    )
    assert machine.read().devices[2].state == "lost"
    machine.arriving[5] = [machine.xid(79, of=2)]
    assert machine.counts() == [NONE, NONE, {79: 1}, NONE, NONE, NONE, NONE, NONE]


def test_xids_are_routed_again_after_the_driver_was_released() -> None:
    machine = Sets()
    machine.reader.close()
    machine.read()
    machine.arriving[8] = [machine.xid(79, of=2)]
    assert machine.counts()[2] == {79: 1}


def test_a_handle_of_before_the_driver_was_released_is_no_gpus() -> None:
    machine = Sets()
    late = machine.xid(79, of=2)
    machine.reader.close()
    # In the first new set, so that it is fetched before the GPU has a handle again.
    machine.arriving[8] = [late]
    assert machine.counts() == [NONE] * 8


def test_an_xid_of_no_gpu_that_is_there_is_left_out() -> None:
    machine = Sets()
    machine.arriving[3] = [event(79, device=None)]
    assert machine.counts() == [NONE] * 8
