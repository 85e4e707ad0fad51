import pytest
from msgspec.structs import replace

from gpudash.analysis.selection import select, selectors
from gpudash.model.device import Device
from gpudash.model.errors import UsageError
from gpudash.model.fault import Fault
from gpudash.model.process import ProcessDevice
from gpudash.model.snapshot import Finding, Snapshot, Topology
from tests.factories import make_device, make_process, make_snapshot

UUIDS = ("GPU-aaaa0000-1", "GPU-aaab0000-2", "GPU-cccc0000-3")


def make_host_of_three() -> Snapshot:
    devices = tuple(
        make_device(index=i, uuid=uuid, pci_bus_id=f"00000000:0{i + 1}:00.0")
        for i, uuid in enumerate(UUIDS)
    )
    instance = make_device(index=0, uuid="MIG-1", parent_uuid=UUIDS[2])
    everywhere = make_process(
        pid=10, devices=tuple(ProcessDevice(index=i, uuid=u) for i, u in enumerate(UUIDS))
    )
    on_last = make_process(pid=11, devices=(ProcessDevice(index=2, uuid="MIG-1"),))
    square = tuple(tuple(f"{row}{column}" for column in range(3)) for row in range(3))
    topology = Topology(
        uuids=UUIDS,
        indices=(0, 1, 2),
        links=square,
        p2p_read=((None,) * 3,) * 3,
        p2p_write=((None,) * 3,) * 3,
        p2p_atomics=((None,) * 3,) * 3,
        cpu_affinity=("0", "1", "2"),
        numa_affinity=("0", "0", "1"),
    )
    errors = (
        Fault(source="host", message="everyone's"),
        Fault(source="nvml", message="second's", uuid=UUIDS[1]),
    )
    return make_snapshot(
        devices=(*devices, instance),
        processes=(everywhere, on_last),
        topology=topology,
        errors=errors,
    )


def test_no_selector_keeps_everything() -> None:
    snapshot = make_host_of_three()
    assert select(snapshot, []) is snapshot


@pytest.mark.parametrize(
    "selector",
    [
        *("1", "GPU-aaab", "gpu-AAAB0000-2", "aaab", "1-1"),
        *("00000000:02:00.0", "0000:02:00.0", "02:00.0"),
    ],
)
def test_a_gpu_is_found_by_index_uuid_prefix_or_bus_id(selector: str) -> None:
    assert [d.uuid for d in select(make_host_of_three(), [selector]).devices] == [UUIDS[1]]


def test_processes_keep_only_the_selected_devices() -> None:
    chosen = select(make_host_of_three(), ["0", "1"])
    assert [(p.pid, [d.index for d in p.devices]) for p in chosen.processes] == [(10, [0, 1])]


def test_mig_instances_follow_their_parent() -> None:
    chosen = select(make_host_of_three(), ["2"])
    assert [d.uuid for d in chosen.devices] == [UUIDS[2], "MIG-1"]
    assert [p.pid for p in chosen.processes] == [10, 11]


def test_topology_and_errors_shrink_with_the_devices() -> None:
    chosen = select(make_host_of_three(), ["0", "2"])
    assert chosen.topology.links == (("00", "02"), ("20", "22"))
    assert chosen.topology.cpu_affinity == ("0", "2")
    assert [error.message for error in chosen.errors] == ["everyone's"]


@pytest.mark.parametrize(
    "selector",
    ["3", "GPU-zzz", "x", "²", "-1", "1-3", "2-1", "0:7", "9:00.0", "9" * 5000, f"0-{'9' * 5000}"],
)
def test_an_unknown_gpu_is_one_line_that_names_the_valid_ones(selector: str) -> None:
    with pytest.raises(UsageError, match=r"is no GPU of this host: choose from 0, 1, 2") as caught:
        select(make_host_of_three(), [selector])
    assert "\n" not in str(caught.value)


def test_a_prefix_of_several_uuids_is_refused() -> None:
    with pytest.raises(UsageError, match="matches several GPUs"):
        select(make_host_of_three(), ["GPU-aaa"])


def test_a_gpu_lost_before_its_uuid_was_known_is_selected_alone() -> None:
    devices = (make_device(index=0), make_device(index=1, uuid=None, state="lost"))
    chosen = select(make_snapshot(devices=devices), ["1"])
    assert [device.index for device in chosen.devices] == [1]
    assert chosen.processes == ()


def test_a_range_of_indices_names_all_of_them() -> None:
    chosen = select(make_host_of_three(), ["0-1"])
    assert [device.index for device in chosen.devices] == [0, 1]


@pytest.mark.parametrize("selector", ["2:0", "MIG-1"])
def test_a_mig_instance_is_kept_with_its_gpu(selector: str) -> None:
    chosen = select(make_host_of_three(), [selector])
    assert [device.uuid for device in chosen.devices] == [UUIDS[2], "MIG-1"]


@pytest.mark.parametrize("text", ["", " ", ",", "0,,1", "0,"])
def test_an_empty_word_is_no_gpu(text: str) -> None:
    with pytest.raises(UsageError, match="names no GPU"):
        selectors(text)


def test_words_are_parted_by_commas() -> None:
    assert selectors("0, 2-3,GPU-1") == ("0", "2-3", "GPU-1")


def test_findings_on_the_selected_gpus_and_on_the_host_stay() -> None:
    findings = (
        Finding(rule="a", level="warn", sentence="two", uuids=UUIDS[:2], indices=(0, 1)),
        Finding(rule="b", level="info", sentence="last", uuids=UUIDS[2:], indices=(2,)),
        Finding(rule="c", level="info", sentence="host"),
    )
    snapshot = replace(make_host_of_three(), findings=findings)
    assert select(snapshot, ["1"]).findings == (findings[0], findings[2])
    assert select(make_host_of_three(), ["1"]).findings is None


def test_finding_on_a_gpu_without_a_uuid_is_known_by_its_index() -> None:
    lost = Finding(rule="lost", level="critical", sentence="gone", indices=(7,))
    devices = (make_device(index=0), Device(index=7, state="lost"))
    snapshot = make_snapshot(devices=devices, processes=(), topology=None, findings=(lost,))
    assert select(snapshot, ["7"]).findings == (lost,)
    assert select(snapshot, ["0"]).findings == ()
