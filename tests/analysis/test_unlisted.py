from __future__ import annotations

import pytest

from gpudash.analysis.usage import is_unlisted, nobody
from gpudash.model.device import Device, DeviceState
from gpudash.model.fault import Fault
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean
from tests.factories import gpu_uuid, make_device, make_snapshot


def blind(*indices: int) -> tuple[Fault, ...]:
    return tuple(
        Fault(source="processes", message=clean("processes unknown"), uuid=gpu_uuid(index))
        for index in indices
    )


def empty(*devices: Device, errors: tuple[Fault, ...] = ()) -> Snapshot:
    return make_snapshot(devices=devices, processes=(), errors=errors)


@pytest.mark.parametrize(
    ("indices", "words"),
    [
        ((), "No running processes found"),
        ((1, 2), "No running processes found; those on GPU 1-2 are not known"),
        ((0, 1, 2), "Which processes run is not known"),
    ],
)
def test_nobody_is_said_of_gpus_that_told(indices: tuple[int, ...], words: str) -> None:
    gpus = (make_device(index=index) for index in range(3))
    assert nobody(empty(*gpus, errors=blind(*indices))) == words


def test_nobody_is_not_said_where_the_driver_did_not_tell_its_gpus() -> None:
    fault = Fault(source="nvml", code=10, message=clean("driver not answering 3 s"))
    assert nobody(empty(errors=(fault,))) == "Which processes run is not known"


@pytest.mark.parametrize("state", ["lost", "not-answering", "failed", "reset-required"])
def test_one_that_is_out_of_order_lists_nobody(state: DeviceState) -> None:
    gpus = make_device(), make_device(index=1, state=state)
    assert nobody(empty(*gpus)).endswith("those on GPU 1 are not known")


@pytest.mark.parametrize("state", ["asleep", "resting"])
def test_nobody_is_on_one_that_sleeps(state: DeviceState) -> None:
    assert nobody(empty(make_device(state=state))) == "No running processes found"


def test_a_host_without_gpus_has_nobody() -> None:
    assert nobody(empty()) == "No running processes found"


def test_an_instance_is_listed_with_its_gpu() -> None:
    instance = make_device(uuid="MIG-1", parent_uuid=gpu_uuid(0))
    assert is_unlisted(instance, empty(instance, errors=blind(0)))
    assert not is_unlisted(instance, empty(instance, errors=blind(1)))
