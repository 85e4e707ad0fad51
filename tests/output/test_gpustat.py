import json

from hypothesis import given

from gpudash.model.fault import Fault
from gpudash.model.snapshot import Snapshot
from gpudash.output.gpustat import render
from tests.factories import gpu_uuid, make_device, make_process, make_snapshot
from tests.strategies import snapshots


def test_the_shape() -> None:
    document = json.loads(render(make_snapshot(1)))
    (gpu,) = document.pop("gpus")
    assert list(document) == ["hostname", "driver_version", "query_time"]
    (process,) = gpu.pop("processes")
    assert gpu == {
        "index": 0,
        "uuid": gpu_uuid(0),
        "name": "NVIDIA H100 80GB HBM3",
        "temperature.gpu": 62,
        "fan.speed": None,
        "utilization.gpu": 87,
        "utilization.enc": None,
        "utilization.dec": None,
        "power.draw": 412,
        "enforced.power.limit": 700,
        "memory.used": 40960,
        "memory.total": 81920,
    }
    assert process == {
        "username": "alice",
        "command": "python",
        "full_command": ["python", "train.py", "--batch", "32"],
        "gpu_memory_usage": 40960,
        "cpu_percent": 99.5,
        "cpu_memory_usage": 6 << 30,
        "pid": 4242,
    }


def test_a_lost_gpu() -> None:
    document = json.loads(render(make_snapshot(devices=(make_device(state="lost"),))))
    assert document["gpus"] == [{"index": 0, "name": "((GPU is lost))", "processes": None}]


def test_processes_that_cannot_be_listed_are_null() -> None:
    fault = Fault(source="processes", message="not supported", uuid=gpu_uuid(0))
    document = json.loads(render(make_snapshot(1, processes=(), errors=(fault,))))
    assert document["gpus"][0]["processes"] is None


def test_a_process_that_has_exited_is_left_out() -> None:
    gone = make_process(name=None, command_line=None, hidden_reason="exited")
    document = json.loads(render(make_snapshot(1, processes=(gone,))))
    assert document["gpus"][0]["processes"] == []


@given(snapshots())
def test_any_snapshot_is_a_document(snapshot: Snapshot) -> None:
    gpus = json.loads(render(snapshot))["gpus"]
    assert len(gpus) == sum(not device.is_mig for device in snapshot.devices)
