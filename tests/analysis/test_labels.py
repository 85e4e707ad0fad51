from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.analysis.labels import (
    VisibleDevices,
    command,
    gpu_ranges,
    short_command,
    short_name,
    told_apart,
    visible_devices,
    whose,
)
from gpudash.model.device import Device, device_labels
from tests.factories import gpu_uuid, make_device, make_process, make_process_device


@pytest.mark.parametrize(
    ("indices", "text"),
    [(range(8), "0-7"), ((0, 2, 3), "0,2-3"), ((5,), "5"), ((3, 1, 1), "1,3"), ((), "-")],
)
def test_gpu_ranges_join_neighbours(indices: range | tuple[int, ...], text: str) -> None:
    assert gpu_ranges([make_process_device(index=index) for index in indices], {}) == text


def test_mig_instances_stand_where_their_gpu_does() -> None:
    labels = {"a": "0:10", "b": "0:2", "c": "2:0", "d": "?:1"}
    shares = [make_process_device(index=index) for index in (4, 3, 1)]
    shares += [make_process_device(uuid=uuid) for uuid in ("d", "c", "a", "b")]
    assert gpu_ranges(shares, labels) == "0:2,0:10,1,2:0,3-4,?:1"


def test_mig_instances_are_labelled_within_their_gpu() -> None:
    devices = (
        make_device(index=0),
        make_device(index=1),
        make_device(index=2, uuid="MIG-a", parent_uuid=gpu_uuid(1)),
    )
    labels = device_labels(devices)
    assert list(labels.values()) == ["0", "1", "1:2"]
    shares = [make_process_device(index=1, uuid="MIG-a"), make_process_device(index=0)]
    assert gpu_ranges(shares, {"MIG-a": labels["MIG-a"]}) == "0,1:2"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 80GB HBM3"),
        ("NVIDIA GeForce GTX 1080 Ti", "GTX 1080 Ti"),
        ("GeForce GTX 1080 Ti", "GTX 1080 Ti"),
        ("Tesla V100-SXM2-16GB", "V100-SXM2-16GB"),
        ("NVIDIA GeForce RTX 4060 Laptop GPU", "RTX 4060 Laptop"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("Quadro RTX 6000", "Quadro RTX 6000"),
        (None, "-"),
    ],
)
def test_short_name_drops_what_all_share(name: str | None, short: str) -> None:
    assert short_name(make_device(name=name)) == short


def test_short_name_of_an_instance_is_its_profile() -> None:
    instance = make_device(parent_uuid="GPU-1", name="NVIDIA H100 80GB HBM3 MIG 1g.10gb")
    assert short_name(instance) == "MIG 1g.10gb"


def test_command_is_quoted_as_a_shell_would() -> None:
    process = make_process(command_line=("/usr/bin/python", "-c", "print('a b')", ""))
    assert command(process) == """/usr/bin/python -c 'print('"'"'a b'"'"')' ''"""
    assert short_command(process).startswith("python -c ")


def test_a_title_that_a_process_gave_itself_stands_as_it_is() -> None:
    process = make_process(command_line=("nginx: worker /etc/nginx",))
    assert command(process) == short_command(process) == "nginx: worker /etc/nginx"


def test_command_gives_the_reason_when_it_is_hidden() -> None:
    process = make_process(command_line=None, hidden_reason="exited", name="python")
    assert command(process) == short_command(process) == "(exited)"


def test_command_falls_back_to_the_name() -> None:
    assert command(make_process(command_line=(), name="kworker")) == "kworker"
    assert command(make_process(command_line=None, name=None)) == "-"


@pytest.mark.parametrize(
    ("name", "username", "pid", "text"),
    [
        ("python", "bob", 4242, "bob's python (PID 4242)"),
        (None, None, None, "process"),
        ("a" * 40, None, 7, f"{'a' * 29}... (PID 7)"),
    ],
)
def test_whose_leaves_out_what_is_not_known(
    name: str | None, username: str | None, pid: int | None, text: str
) -> None:
    assert whose(name, username, pid) == text


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


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"], ["A100", "H100"]),
        (["NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB"], ["A100-SXM4-80GB", "A100-SXM4-40GB"]),
        (["NVIDIA H100 NVL", "NVIDIA H100 80GB HBM3"], ["H100 NVL", "H100 80GB"]),
        (["NVIDIA RTX A6000", "NVIDIA RTX 6000 Ada Generation"], ["RTX A6000", "RTX 6000"]),
        (["NVIDIA TITAN V", "Tesla T4"], ["TITAN V", "T4"]),
        (["NVIDIA A100", "NVIDIA A100-SXM4-80GB"], ["A100", "A100-SXM4"]),
        ([], []),
    ],
)
def test_products_are_told_apart_in_few_words(names: list[str], short: list[str]) -> None:
    assert told_apart(names) == dict(zip(names, short, strict=True))
