"""The findings of a host on the stand-in library, in processes whose clock is moved.

What takes a minute to be found is found at once: the collector, the diagnosis and the stand-in
have the same clock, which no one waits for.
"""

import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from gpudash.analysis.health.engine import Diagnosis
from gpudash.collect.local import LocalSource, open_simulated
from gpudash.collect.nvml.bus import IdlePolicy, PciBus
from gpudash.collect.nvml.library import Library, load
from gpudash.collect.nvml.reader import NvmlReader
from gpudash.collect.nvml.worker import DriverWorker, ignore_answer, one_shot_timeouts
from gpudash.collect.source import Holders
from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.process import Lease, Process
from gpudash.model.snapshot import Finding, Host, Snapshot
from tests.e2e.run import tell
from tests.factories import make_host, make_process
from tests.fakenvml.build import environment

PID = 4242
"""The process that the stand-in lists, on as many GPUs as PROCS_PER_DEVICE says."""
ADDRESS = "0000:07:00.0"
"""Where the stand-in has its first GPU."""


class Stage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A host for some seconds."""

    told: Mapping[str, str | int] = {}
    """Settings of the stand-in."""
    seconds: int = 1
    stride: int = 1
    """Seconds from sample to sample."""
    process: Mapping[str, Any] = {}
    """What the operating system says of the process; at rest unless told otherwise."""
    leased: bool | None = None
    """Whether the process uses the GPU that it leased, None without a lease."""
    power: str = ""
    """What the kernel says of the first GPU's power, empty where no bus can be seen."""
    on_battery: bool = False


Examine = Callable[[Sequence[Stage]], list[Finding]]
"""Return what is found in the last sample of the last stage."""


@contextmanager
def examiner(library: Path) -> Iterator[Examine]:
    """Yield what examines hosts, each in a process that one with all imports forks."""
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.examining", folder],
            env=environment(library, CONTROL=Path(folder, "control")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process,
    ):
        stdin, stdout = process.stdin, process.stdout

        def examine(stages: Sequence[Stage]) -> list[Finding]:
            stdin.write(msgspec.json.encode(stages) + b"\n")
            stdin.flush()
            return msgspec.json.decode(stdout.readline(), type=list[Finding])

        yield examine


class Machine:
    """The operating system's half of the host, and its clock."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_700_000_000.0
        self.stage = Stage()
        self.folder = folder

    def clock(self) -> float:
        return self.now

    def host(self) -> Host:
        return make_host(uptime_seconds=self.now - 1_600_000_000)

    def processes(
        self, pids: Collection[int], listed_at: Mapping[int, float] | None = None
    ) -> dict[int, Process]:
        facts = {"cpu_percent": 0.0, "status": "sleeping", **self.stage.process}
        return {pid: make_process(pid=pid, devices=(), **facts) for pid in pids}

    def holders(self, minors: Collection[int], listed: Collection[int]) -> Mapping[int, Holders]:
        return {minor: Holders((), complete=True) for minor in minors}

    def begin(self) -> None:
        pass

    def leases(
        self, devices: Sequence[Device], processes: Sequence[Process], unlisted: Set[str]
    ) -> tuple[Lease, ...]:
        if self.stage.leased is None:
            return ()
        first = devices[0]
        return (
            Lease(
                uuid=first.uuid or "", index=0, pid=PID, start_ticks=1, is_used=self.stage.leased
            ),
        )

    def faults(self) -> tuple[Fault, ...]:
        return ()

    def enter(self, stage: Stage) -> None:
        """Show the files of sysfs as they are in a stage."""
        self.stage = stage
        if not stage.power:
            return
        gpu, supply = self.folder / "driver" / ADDRESS, self.folder / "supplies" / "BAT0"
        (gpu / "power").mkdir(parents=True, exist_ok=True)
        supply.mkdir(parents=True, exist_ok=True)
        (gpu / "class").write_text("0x030000\n")
        (gpu / "power" / "runtime_status").write_text(f"{stage.power}\n")
        (gpu / "power" / "control").write_text("auto\n")
        (supply / "type").write_text("Battery\n")
        (supply / "status").write_text("Discharging\n" if stage.on_battery else "Charging\n")


def watched(machine: Machine, stages: Sequence[Stage]) -> Snapshot:
    """Return the last sample with its findings."""
    folder = machine.folder
    hangs = any("HANG" in stage.told for stage in stages)
    worker = DriverWorker(one_shot_timeouts(2.0, ignore_answer) if hangs else None)
    bus = PciBus(str(folder / "driver"), str(folder / "procfs"), str(folder))
    policy = IdlePolicy(str(folder / "supplies"), str(folder / "driver"))
    reader = NvmlReader(Library(load()), bus, machine.clock, machine.clock, worker, policy)
    source, diagnosis = LocalSource(reader, machine, machine.clock), Diagnosis()
    seen = None
    for stage in stages:
        machine.enter(stage)
        for _ in range(0, stage.seconds, stage.stride):
            machine.now += stage.stride
            tell(folder / "control", **{"PIDS": PID, **stage.told, "TIME": machine.now})
            seen = diagnosis.examine(source.sample())
    return seen


def _answer(folder: Path, stages: bytes) -> None:
    found = watched(Machine(folder), msgspec.json.decode(stages, type=list[Stage])).findings or ()
    os.write(1, msgspec.json.encode(found) + b"\n")


def _serve(folder: Path) -> None:
    """Answer each line of stages in a child of its own: the driver's state is the process's."""
    # What a first sample imports and makes, each child has from here.
    load()
    msgspec.json.encode(Diagnosis().examine(open_simulated("dgx-h100").sample()))
    gc.disable()
    for number, stages in enumerate(sys.stdin.buffer):
        child = os.fork()
        if not child:
            own = folder / str(number)
            own.mkdir()
            tell(own / "control")
            os.environ["FAKENVML_CONTROL"] = str(own / "control")
            # A call that hangs keeps its thread.
            try:
                _answer(own, stages)
            finally:
                os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
