from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.analysis.labels import VisibleDevices, visible_devices
from gpudash.model.device import Device
from tests.factories import gpu_uuid, make_device

FOUR = [make_device(index=index) for index in range(4)]
MIXED = [*FOUR[:2], make_device(index=2, name="NVIDIA A10"), FOUR[3]]
PARENT = make_device(index=0, mig_mode=True)
INSTANCES = [
    make_device(
        index=number,
        uuid=f"MIG-{number}f",
        parent_uuid=PARENT.uuid,
        gpu_instance_id=number + 7,
        compute_instance_id=0,
    )
    for number in range(2)
]
MIG = [PARENT, *INSTANCES, FOUR[1]]


def seen(value: str | None, devices: Sequence[Device] = FOUR, **others: str) -> VisibleDevices:
    variables = {} if value is None else {"CUDA_VISIBLE_DEVICES": value}
    return visible_devices({**variables, **others}, devices)


@pytest.mark.parametrize(
    ("value", "indices"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        (" ", []),
        ("2", [2]),
        ("3, 1", [3, 1]),
        ("-1", []),
        ("0,9,1", [0]),
        ("0,x,1", [0]),
        ("1,,2", [1]),
        ("0,0", [0]),
        ("NoDevFiles", []),
        ("GPU-00000003,GPU-00000001", [3, 1]),
        ("gpu-00000002", [2]),
        ("GPU-0000000", []),
        (gpu_uuid(2), [2]),
        ("99999999999999999999", []),
    ],
)
def test_the_list_is_read_as_cuda_reads_it(value: str | None, indices: list[int]) -> None:
    visible = seen(value)
    assert [device.index for device in visible.devices] == indices
    assert not visible.is_guess
    assert visible.value == value


def test_what_cut_the_list_is_named() -> None:
    assert seen("0,9,1").remarks == ("CUDA stops at '9': no device",)
    assert seen("0,0").remarks == ("CUDA stops at '0': named twice",)
    assert seen("").remarks == ("it is empty: CUDA sees no device",)
    assert seen("0,\x1b[2J").remarks == (r"CUDA stops at '\\x1b[2J': no device",)


@pytest.mark.parametrize("value", ["0,2", None])
def test_an_index_is_a_guess_when_models_differ(value: str | None) -> None:
    guess = seen(value, MIXED)
    assert guess.is_guess
    assert "CUDA_DEVICE_ORDER is not PCI_BUS_ID" in guess.remarks[0]
    assert seen(value, MIXED, CUDA_DEVICE_ORDER="FASTEST_FIRST").is_guess
    assert not seen(value, MIXED, CUDA_DEVICE_ORDER="PCI_BUS_ID").is_guess


def test_models_that_are_not_known_do_not_differ() -> None:
    assert not seen(None, [*FOUR[:3], make_device(index=3, name=None)]).is_guess


def test_a_uuid_is_never_a_guess() -> None:
    assert not seen("GPU-00000002", MIXED).is_guess
    assert not seen("", MIXED).is_guess


def test_indices_of_a_container_are_doubted() -> None:
    assert seen("0", NVIDIA_VISIBLE_DEVICES="4,5").is_guess
    assert not seen("0", NVIDIA_VISIBLE_DEVICES="all").is_guess


@pytest.mark.parametrize("value", ["MIG-1f", "mig-1", f"MIG-{PARENT.uuid}/8/0", "MIG-1f,MIG-0f"])
def test_one_mig_instance_is_found_by_both_names(value: str) -> None:
    assert seen(value, MIG).devices == (INSTANCES[1],)


def test_mig_and_whole_gpus_do_not_mix() -> None:
    visible = seen("1,MIG-0f", MIG)
    assert [device.uuid for device in visible.devices] == [gpu_uuid(1)]
    assert "one MIG instance" in visible.remarks[0]


@given(st.text() | st.lists(st.sampled_from(["0", "1", "GPU-0", "MIG-", "/", " "])).map(",".join))
def test_any_value_gives_distinct_devices_and_printable_words(value: str) -> None:
    visible = seen(value, MIG)
    keys = [device.key for device in visible.devices]
    assert len(keys) == len(set(keys))
    assert all(remark.isprintable() for remark in visible.remarks)
