"""Calls that are slow are asked more rarely, and what they told is not taken for what is now."""

import re
from typing import Any

import pynvml
import pytest

from gpudash.collect.nvml.calls import FIELD_VALUES, POLL_GROUPS, NvmlCall
from gpudash.collect.nvml.polling import LONG_SECONDS
from gpudash.model.details import DetailedDevice
from gpudash.model.device import device_fields
from gpudash.model.fields import declared_fields
from gpudash.model.units import HIGHEST, Unit
from tests.collect.nvml.tampering import Machine


def slow_down(machine: Machine, call: str, seconds: float = LONG_SECONDS * 1.2) -> None:
    """Let a call take so long from now on."""
    real = getattr(machine.host.library, call)

    def answer(*arguments: Any) -> Any:
        machine.seconds_in_calls += seconds
        return real(*arguments)

    machine.driver.replaced[call] = answer


def test_a_slow_call_is_asked_every_ten_seconds_until_it_is_quick_again(single: Machine) -> None:
    call = "nvmlDeviceGetPowerUsage"
    slow_down(single, call)
    single.read()
    single.read()
    assert single.driver.asked.count(call) == 2
    devices = [single.read().devices[0] for _ in range(9)]
    assert single.driver.asked.count(call) == 2
    assert all(device.temperature_celsius is not None for device in devices)
    del single.driver.replaced[call]
    single.read(2.0)
    single.read()
    assert single.driver.asked.count(call) == 4


@pytest.mark.parametrize(
    ("call", "field", "pace"),
    [
        ("nvmlDeviceGetPowerUsage", "power_usage_mw", 1),
        ("nvmlDeviceGetMemoryInfo", "memory_used_bytes", 1),
        ("nvmlDeviceGetEncoderUtilization", "encoder_utilization_percent", 2),
    ],
)
def test_what_is_not_asked_at_its_pace_is_unknown_in_between(
    single: Machine, call: str, field: str, pace: int
) -> None:
    slow_down(single, call)
    ages: list[int] = []
    for _ in range(30):
        asked = single.driver.asked.count(call)
        value = getattr(single.read().devices[0], field)
        is_new = single.driver.asked.count(call) > asked
        ages.append(0 if is_new else ages[-1] + 1)
        assert (value is not None) == (ages[-1] < pace)
    assert max(ages) >= 9


def test_an_instance_keeps_its_identity_however_slowly_it_is_given() -> None:
    machine = Machine("mig")
    slow_down(machine, "nvmlDeviceGetUUID")
    uuids = {
        tuple(device.uuid for device in machine.read().devices if device.parent_uuid)
        for _ in range(30)
    }
    assert len(uuids) == 1
    assert None not in next(iter(uuids))


def declared() -> list[NvmlCall]:
    """Every call of the table, with what is made in its place."""
    calls = [call for group in POLL_GROUPS for call in group[0]]
    for call in calls:
        if call.fallback is not None:
            calls.append(call.fallback)
    return calls


def test_every_call_is_one_of_nvmls() -> None:
    assert [call.name for call in declared() if not hasattr(pynvml, call.name)] == []


def test_every_source_that_a_field_names_is_one_of_nvmls() -> None:
    named = {
        name for each in device_fields().values() if each.nvml for name in each.nvml.split(", ")
    }
    # Of what gpudash calls with a structure of a later version, pynvml has the first name.
    assert {name for name in named if not hasattr(pynvml, name.removesuffix("_v2"))} == set()


def test_every_call_and_field_value_fills_fields_of_a_device() -> None:
    filled = {name for call in declared() for name, _ in call.fields}
    filled |= {value.field for value in FIELD_VALUES}
    assert filled - set(DetailedDevice.__struct_fields__) == set()


def test_every_field_value_has_the_number_of_its_documented_name() -> None:
    named = {each.name: each.nvml or "" for each in declared_fields(DetailedDevice)}
    others = {
        each.field for each in FIELD_VALUES if getattr(pynvml, named[each.field], None) != each.id
    }
    # Its documented name is that of the call which older drivers have.
    assert others == {"total_energy_mj"}


def test_the_unit_of_a_number_ends_its_name() -> None:
    ends = {
        Unit.BYTE: "bytes",
        Unit.PERCENT: "percents?",
        Unit.CELSIUS: "celsius",
        Unit.MILLIWATT: "mw",
        Unit.MEGAHERTZ: "mhz",
        Unit.MILLIJOULE: "mj",
    }
    for each in declared_fields(DetailedDevice):
        found = [unit for unit, end in ends.items() if re.search(rf"_{end}$", each.name)]
        assert found == [each.unit] * (each.unit in ends), each.name


class _Answer(int):
    """A number that is every member and item of itself, as of a structure or an array."""

    def __getattr__(self, _name: str) -> int:
        return int(self)

    def __getitem__(self, _index: int) -> int:
        return int(self)

    def __len__(self) -> int:
        return 8


def test_a_number_is_converted_as_one_of_the_unit_of_its_field() -> None:
    """It is not scaled, and one that no GPU reaches is none."""
    units = {each.name: each.unit for each in declared_fields(DetailedDevice)}
    filled = [pair for call in declared() for pair in call.fields]
    filled += [(value.field, value.convert) for value in FIELD_VALUES]
    of_unit = [(field, convert) for field, convert in filled if units[field] in HIGHEST]
    assert {units[field] for field, _ in of_unit} == HIGHEST.keys()
    for field, convert in of_unit:
        highest = HIGHEST[units[field]]
        known = 255 if field == "fan_speed_percent" else highest
        answers = [convert(_Answer(value)) for value in (1, known, known + 1)]
        assert answers == [1, known, None], field
