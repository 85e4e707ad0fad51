"""GPUs that come and go: NVML counts them when it is initialised, the kernel knows at once."""

from pathlib import Path
from types import SimpleNamespace
from unittest.mock import ANY

import pytest

from gpudash.collect.nvml import codes
from gpudash.model.device import Device
from gpudash.model.errors import DriverError
from tests.collect.nvml.tampering import HotplugMachine
from tests.fakenvml.asking import ask


def live(devices: tuple[Device, ...]) -> list[str | None]:
    return [device.uuid for device in devices if device.state == "ok"]


@pytest.fixture
def machine() -> HotplugMachine:
    return HotplugMachine("dgx-h100")


def test_a_gpu_plugged_in_later_appears() -> None:
    machine = HotplugMachine("dgx-h100", unplugged=(7,))
    assert len(machine.read().devices) == 7
    machine.unplugged.clear()
    reading = machine.read()
    assert len(reading.devices) == 8
    assert [device.state for device in reading.devices] == ["ok"] * 8
    assert len(reading.topology.uuids) == 8


def test_the_first_gpu_of_a_host_appears() -> None:
    machine = HotplugMachine("single", unplugged=(0,))
    assert [fault.message for fault in machine.read().faults] == ["no GPU was found"]
    machine.unplugged.clear()
    assert [device.state for device in machine.read().devices] == ["ok"]


def test_a_gpu_that_was_removed_keeps_its_row(machine: HotplugMachine) -> None:
    before = machine.read().devices
    machine.unplugged.add(2)
    after = machine.read().devices
    assert live(after) == [d.uuid for d in before if d.index != 2]
    (removed,) = (device for device in after if device.state == "lost")
    assert (removed.uuid, removed.name) == (before[2].uuid, before[2].name)
    assert removed.gpu_utilization_percent is None
    assert removed.fault is not None
    # The driver counts the others anew: there is another GPU 2.
    assert "the former GPU 2 was removed" in removed.fault.message
    assert len({device.index for device in after}) == 8


def test_the_last_gpu_keeps_its_number_when_it_is_removed(machine: HotplugMachine) -> None:
    machine.read()
    machine.unplugged.add(7)
    (removed,) = (device for device in machine.read().devices if device.state == "lost")
    assert removed.index == 7
    assert removed.fault.message.startswith("GPU 7 was removed")


def test_the_xid_by_which_a_gpu_went_stays_with_its_row(machine: HotplugMachine) -> None:
    machine.read()
    reported = [SimpleNamespace(eventType=8, eventData=79, gpuInstanceId=0xFFFFFFFF, device=ANY)]
    timeout = machine.driver.error(codes.TIMEOUT)
    machine.driver.replaced["nvmlEventSetWait_v2"] = lambda *_: (
        reported.pop() if reported else timeout()
    )
    machine.read()
    machine.unplugged.add(0)
    (removed,) = (device for device in machine.read().devices if device.state == "lost")
    assert [event.code for event in removed.xid_events or ()] == [79]


def test_gpus_keep_their_facts_under_their_new_numbers(machine: HotplugMachine) -> None:
    before = machine.read().devices
    machine.unplugged.add(0)
    after = machine.read().devices
    assert [(d.index, d.uuid, d.pci_bus_id) for d in after[:7]] == [
        (d.index - 1, d.uuid, d.pci_bus_id) for d in before[1:]
    ]


def test_nvml_is_opened_again_only_when_the_gpus_change(machine: HotplugMachine) -> None:
    machine.device_after(30)
    assert machine.driver.asked.count("nvmlInitWithFlags") == 1
    machine.unplugged.add(2)
    machine.device_after(30)
    assert machine.driver.asked.count("nvmlInitWithFlags") == 2
    assert machine.driver.asked.count("nvmlShutdown") == 1


def test_gpus_that_sysfs_does_not_show_are_matched_by_their_addresses() -> None:
    machine = HotplugMachine("dgx-h100", hidden_from_nvml=(0, 1))
    before = machine.read().devices
    assert len(before) == 6
    machine.unplugged.add(4)
    after = machine.read().devices
    assert live(after) == [d.uuid for d in before if d.index != 2]
    (removed,) = (device for device in after if device.state == "lost")
    assert removed.uuid == before[2].uuid


def test_a_gpu_lost_while_another_is_removed_keeps_its_identity(machine: HotplugMachine) -> None:
    before = machine.read().devices
    genuine = machine.driver.replaced["nvmlDeviceGetHandleByIndex"]

    def lost(index: int) -> object:
        return machine.driver.error(codes.GPU_IS_LOST)() if index == 4 else genuine(index)

    machine.unplugged.add(2)
    machine.driver.replaced["nvmlDeviceGetHandleByIndex"] = lost
    after = machine.read().devices
    assert len(after) == 8
    assert {device.uuid for device in after if device.state == "lost"} == {
        before[2].uuid,
        before[5].uuid,
    }


def test_a_removed_gpu_does_not_keep_a_reloaded_driver_from_opening(
    machine: HotplugMachine,
) -> None:
    machine.read()
    machine.unplugged.add(7)
    machine.read()
    names = machine.fail(codes.UNINITIALIZED)
    machine.read()
    for call in names:
        del machine.driver.replaced[call]
    states = [device.state for device in machine.read().devices]
    assert states == ["ok"] * 7 + ["lost"]


def test_a_count_that_fails_removes_no_gpu(machine: HotplugMachine) -> None:
    machine.read()
    machine.unplugged.add(7)
    genuine = machine.driver.replaced["nvmlDeviceGetCount"]
    machine.driver.replaced["nvmlDeviceGetCount"] = machine.driver.error(codes.UNKNOWN)
    with pytest.raises(DriverError):
        machine.read()
    machine.driver.replaced["nvmlDeviceGetCount"] = genuine
    assert [device.state for device in machine.read().devices] == ["ok"] * 7 + ["lost"]
    asked = machine.driver.asked.count
    assert asked("nvmlInitWithFlags") == asked("nvmlShutdown") + 1


def test_a_host_whose_bus_cannot_be_seen_is_read_all_the_same() -> None:
    machine = HotplugMachine("dgx-h100", bus_is_visible=False)
    for _ in range(3):
        assert len(live(machine.read().devices)) == 8
    assert machine.driver.asked.count("nvmlInitWithFlags") == 1


def test_a_gpu_that_returns_where_no_bus_can_be_seen_is_found_again() -> None:
    machine = HotplugMachine("dgx-h100", bus_is_visible=False)
    before = machine.read().devices
    machine.unplug(2)
    after = machine.read().devices
    assert live(after) == [d.uuid for d in before if d.index != 2]
    assert [d.uuid for d in after if d.state == "lost"] == [before[2].uuid]
    machine.unplug()
    back = [machine.read() for _ in range(30)][-1].devices
    assert live(back) == [device.uuid for device in before]
    opened = machine.driver.asked.count("nvmlInitWithFlags")
    for _ in range(20):
        machine.read(after=60.0)
    assert machine.driver.asked.count("nvmlInitWithFlags") == opened


def test_a_gpu_that_was_removed_where_no_bus_can_be_seen_returns_as_itself() -> None:
    machine = HotplugMachine("dgx-h100", bus_is_visible=False)
    before = machine.read().devices
    machine.unplug(2)
    removed = [machine.read() for _ in range(30)][-1].devices
    assert len(live(removed)) == 7
    (gone,) = (device for device in removed if device.state == "lost")
    assert gone.uuid == before[2].uuid
    machine.unplug()
    back = [machine.read() for _ in range(60)][-1].devices
    assert [(d.index, d.uuid, d.state) for d in back] == [(d.index, d.uuid, "ok") for d in before]


def test_one_that_never_returns_disturbs_the_others_ever_more_rarely() -> None:
    machine = HotplugMachine("dgx-h100", bus_is_visible=False)
    machine.read()
    machine.unplug(2)
    opened: list[int] = []
    for _ in range(60):
        machine.read(after=60.0)
        opened.append(machine.driver.asked.count("nvmlInitWithFlags"))
    assert 5 < opened[-1] < 15
    assert opened[-1] - opened[-20] <= 2
    assert machine.driver.asked.count("nvmlShutdown") == opened[-1] - 1


def test_a_sleeping_gpu_that_was_away_is_not_woken_when_it_returns() -> None:
    machine = HotplugMachine("laptop")
    assert [device.state for device in machine.read().devices] == ["asleep"]
    machine.unplugged.add(0)
    assert [device.state for device in machine.read().devices] == ["lost"]
    machine.unplugged.clear()
    assert [device.state for device in machine.read().devices] == ["asleep"]
    assert not machine.host.library.woken


WITHOUT_A_BUS = """
from gpudash.collect.nvml.bus import PciBus
from gpudash.collect.nvml.library import Library, load
from gpudash.collect.nvml.reader import NvmlReader

now = [0.0]
reader = NvmlReader(Library(load()), PciBus("/nowhere", "/nowhere", "/nowhere"), lambda: now[0])

def states(seconds=1.0):
    now[0] += seconds
    return [device.state for device in reader.read().devices]
"""


def test_a_gpu_that_returns_where_no_bus_can_be_seen_is_found_through_pynvml(
    fakenvml: Path, tmp_path: Path
) -> None:
    answers = ask(
        fakenvml,
        """
        states()
        !configure(REMOVED=1)
        states()
        !configure()
        states(1)
        states(10)
        !configure(REMOVED=1)
        states()
        states(60)
        !configure()
        states()
        states(60)
        """,
        prelude=WITHOUT_A_BUS,
        DEVICES=3,
        CONTROL=tmp_path / "control",
    )
    whole, without = ["ok"] * 3, ["ok", "lost", "ok"]
    assert [answers[place] for place in (0, 3, 7)] == [whole] * 3
    assert [sorted(answers[place]) for place in (1, 2, 4, 5, 6)] == [sorted(without)] * 5


@pytest.mark.parametrize("count", [1_000_000, 2**32 - 1])
def test_more_gpus_than_there_can_be_are_an_error(count: int, machine: HotplugMachine) -> None:
    machine.driver.replaced["nvmlDeviceGetCount"] = lambda: count
    with pytest.raises(DriverError, match=str(count)):
        machine.read()
