from __future__ import annotations

import pytest

from gpudash.analysis.labels import (
    command,
    device_labels,
    gpu_ranges,
    short_command,
    short_name,
    whose,
)
from tests.factories import gpu_uuid, make_device, make_process, make_process_device


@pytest.mark.parametrize(
    ("indices", "text"),
    [
        (range(8), "0-7"),
        ((0, 2, 3), "0,2-3"),
        ((5,), "5"),
        ((3, 1, 1), "1,3"),
        ((), "-"),
    ],
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
