from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from gpudash.analysis.health.engine import Diagnosis
from gpudash.analysis.health.findings import findings
from gpudash.analysis.selection import select
from gpudash.analysis.table import device_rows
from gpudash.collect.host import LinuxReader
from gpudash.collect.local import LocalSource, explain_memory, open_simulated
from gpudash.collect.simulated import SimulatedHost
from gpudash.collect.source import Holders
from gpudash.model import wire
from gpudash.model.device import Device
from gpudash.model.process import Holder, Process
from gpudash.model.snapshot import Host
from tests.collect.nvml.tampering import Machine
from tests.factories import GIB, make_device, make_host

INSTANT = 1_800_000_000.0


@pytest.mark.parametrize("name", ["single", "dgx-h100"])
def test_a_simulated_host_has_the_same_past_whenever_it_is_watched(name: str) -> None:
    def watched() -> list[bytes]:
        now = [INSTANT]
        source = open_simulated(name, lambda: now[0])
        lines: list[bytes] = []
        for _ in range(4):
            lines.append(wire.encode(source.sample()))
            now[0] += 1.5
        return lines

    first = watched()
    assert first == watched()
    assert len(set(first)) == 4


def test_each_device_has_the_label_that_the_table_has_for_it() -> None:
    snapshot = open_simulated("mig", lambda: INSTANT).sample()
    labels = [device.label for device in snapshot.devices]
    assert labels == [row.label for row in device_rows(snapshot)]
    assert len(set(labels)) == len(labels) == 5
    for device in snapshot.devices:
        (*_, chosen) = select(snapshot, [str(device.label)]).devices
        assert chosen.key == device.key or chosen.parent_uuid == device.uuid


WORKER = Holder(pid=77, start_ticks=5, username="erin", command_line=("python", "w.py"))


class Reader:
    """A host whose holders a test declares, and which notes what it was asked for."""

    def __init__(self, holders: Mapping[int, Holders] = {}) -> None:
        self.asked: list[tuple[set[int], set[int]]] = []
        self._holders = holders
        self._host = SimulatedHost("single", lambda: INSTANT).reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def holders(self, minors: Collection[int], listed: Collection[int]) -> Mapping[int, Holders]:
        self.asked.append((set(minors), set(listed)))
        return self._holders


def seen(
    reader: Reader, *devices: Device, listed: Collection[int] = (), host: Host | None = None
) -> tuple[Device, ...]:
    return explain_memory(devices, listed, host or make_host(), reader)[0]


def test_holders_are_looked_for_where_memory_has_no_owner() -> None:
    reader = Reader({1: Holders((WORKER,), complete=True)})
    first = make_device(index=0, minor_number=0, memory_unaccounted_bytes=64 << 20)
    second = make_device(index=1, minor_number=1, memory_unaccounted_bytes=5 * GIB)
    (one, other), holders = explain_memory((first, second), {4}, make_host(), reader)
    assert reader.asked == [({1}, {4})]
    assert (one.holder_pids, one.holders_complete) == (None, None)
    assert (other.holder_pids, other.holders_complete) == ((WORKER.pid,), True)
    assert holders == (WORKER,)


def test_holders_are_looked_for_where_a_process_has_exited() -> None:
    reader = Reader({1: Holders((WORKER,), complete=True)})
    devices = tuple(make_device(index=index, minor_number=index) for index in range(2))
    one, other = explain_memory(devices, {4}, make_host(), reader, abandoned={1})[0]
    assert reader.asked == [({1}, {4})]
    assert one.holder_pids is None
    assert other.holder_pids == (WORKER.pid,)


def test_a_process_that_holds_several_gpus_is_described_once() -> None:
    found = Holders((WORKER,), complete=True)
    devices = [
        make_device(index=minor, minor_number=minor, memory_unaccounted_bytes=5 * GIB)
        for minor in range(2)
    ]
    reader = Reader({0: found, 1: found})
    held, holders = explain_memory(tuple(devices), (), make_host(), reader)
    assert [device.holder_pids for device in held] == [(WORKER.pid,)] * 2
    assert holders == (WORKER,)


def test_a_search_that_saw_not_all_says_so() -> None:
    reader = Reader({0: Holders((), complete=False)})
    (device,) = seen(reader, make_device(minor_number=0, memory_unaccounted_bytes=GIB))
    assert (device.holder_pids, device.holders_complete) == ((), False)


def test_of_a_gpu_that_no_search_has_covered_nothing_is_said() -> None:
    reader = Reader({0: Holders((WORKER,), complete=True)})
    lacking = {"memory_unaccounted_bytes": 5 * GIB}
    one, other = seen(
        reader,
        make_device(index=0, minor_number=0, **lacking),
        make_device(index=1, minor_number=1, **lacking),
    )
    assert (one.holder_pids, one.holders_complete) == ((WORKER.pid,), True)
    assert (other.holder_pids, other.holders_complete) == (None, None)


def test_a_gpu_without_a_known_node_is_left_alone() -> None:
    reader = Reader()
    (device,) = seen(reader, make_device(minor_number=None, memory_unaccounted_bytes=GIB))
    assert reader.asked == [(set(), set())]
    assert device.holder_pids is None


def test_unified_memory_has_the_sizes_of_the_host() -> None:
    sizes = dict.fromkeys(
        ("memory_total_bytes", "memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes")
    )
    shared, own = make_device(unified_memory=True, **sizes), make_device(index=1)
    host = make_host(memory_total_bytes=128 * GIB, memory_used_bytes=31 * GIB)
    one, other = seen(Reader(), shared, own, host=host)
    assert (one.memory_total_bytes, one.memory_used_bytes) == (128 * GIB, 31 * GIB)
    assert one.memory_free_bytes == host.memory_available_bytes
    assert one.memory_reserved_bytes is None
    assert other == own


def test_a_brief_sample_says_that_it_is_one() -> None:
    source = open_simulated("dgx-h100", lambda: INSTANT)
    brief = source.sample(brief=True)
    assert (brief.brief, brief.findings, brief.topology) == (True, None, None)
    assert Diagnosis().examine(brief).findings is None
    assert findings(brief) == ()
    whole = source.sample()
    assert not whole.brief
    assert [process.pid for process in whole.processes] == [p.pid for p in brief.processes]


def test_the_load_of_the_machine_is_that_of_the_brief_sample_before() -> None:
    source = LocalSource(Machine("single").reader, LinuxReader())
    brief, whole = source.sample(brief=True), source.sample()
    assert None not in (whole.host.cpu_percent, whole.host.memory_total_bytes)
    assert brief.host == whole.host


class ManyProcesses:
    """An operating system that notes whose facts it was asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self._host = SimulatedHost("single", lambda: INSTANT).reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def processes(self, pids: Collection[int], listed_at: object) -> dict[int, Process]:
        self.asked.append(len(pids))
        # Each reading has other shares of the CPU.
        cpu = float(len(self.asked))
        return {pid: Process(pid=pid, devices=(), start_ticks=1, cpu_percent=cpu) for pid in pids}


def test_a_brief_sample_reads_a_screen_of_processes_and_the_whole_keeps_their_shares() -> None:
    machine, host = Machine("single"), ManyProcesses()
    listed = [
        SimpleNamespace(
            pid=pid, usedGpuMemory=pid << 20, gpuInstanceId=None, computeInstanceId=None
        )
        for pid in range(1, 101)
    ]
    machine.driver.replaced["nvmlDeviceGetComputeRunningProcesses_v3"] = lambda _: listed
    source = LocalSource(machine.reader, host, lambda: INSTANT)
    brief, whole, later = source.sample(brief=True), source.sample(), source.sample()
    shares = [[process.cpu_percent for process in each.processes] for each in (brief, whole, later)]
    count = len(whole.processes)
    assert count >= 100
    assert shares[0] == [1.0] * 64 + [None] * (count - 64)
    assert shares[1] == [1.0] * 64 + [2.0] * (count - 64)
    assert shares[2] == [3.0] * count
