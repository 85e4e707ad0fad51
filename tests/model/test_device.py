from typing import get_args, get_type_hints

from gpudash.model.device import Device, chart_fields, device_fields
from gpudash.model.fields import Group
from gpudash.model.units import Unit


def test_every_field_of_a_device_is_there_in_its_order() -> None:
    assert tuple(field.name for field in device_fields().values()) == Device.__struct_fields__
    assert len({field.label for field in device_fields().values()}) == len(device_fields())


def test_fields_carry_what_they_declare() -> None:
    power = device_fields()["power_usage_mw"]
    assert (power.label, power.group, power.unit) == ("Power usage", Group.POWER, Unit.MILLIWATT)
    assert power.help.startswith("Board power")


def test_those_with_a_chart_are_known_without_evaluating_the_others() -> None:
    charted = {field.name: field for field in device_fields().values() if field.chart}
    assert dict(chart_fields()) == charted


def test_labels_leave_the_unit_out_and_spell_short_words() -> None:
    named = {
        "gpu_utilization_percent": "GPU utilization",
        "nvlink_tx_bytes_per_second": "NVLink TX",
        "nvlink_count": "NVLinks",
        "core_count": "Cores",
        "throttled_sw_power_cap_percent": "Throttled SW power cap",
        "nvlink_crc_error_count": "NVLink CRC errors",
        "nvlink_recovery_count": "NVLink recoveries",
        "pcie_replays_per_second": "PCIe replay rate",
        "ecc_corrected_volatile_count": "ECC corrected volatile",
        "max_operating_tlimit_celsius": "Max operating T-limit",
        "pcie_replay_count": "PCIe replays",
        "pci_bus_id": "PCI bus ID",
    }
    assert {name: device_fields()[name].label for name in named} == named


def test_the_names_elsewhere_are_unique() -> None:
    fields = device_fields().values()
    smi = [name for field in fields for name in field.smi]
    dcgm = [name for field in fields for name in field.dcgm]
    assert len(set(smi)) == len(smi)
    assert len(set(dcgm)) == len(dcgm)


def test_a_limit_is_a_number_or_a_field_of_the_same_unit_and_only_charts_have_one() -> None:
    for field in device_fields().values():
        if field.limit is not None:
            assert field.chart
        if isinstance(field.limit, str):
            assert device_fields()[field.limit].unit is field.unit


def test_what_is_charted_or_counted_is_a_number() -> None:
    types = get_type_hints(Device)
    for field in device_fields().values():
        if field.chart or field.counter or field.dcgm:
            assert set(get_args(types[field.name])) & {int, float, bool}, field.name
