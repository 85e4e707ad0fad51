"""A GPU that is unplugged and plugged in again: each is known by its UUID, whatever its number."""

import json
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gpudash.model.device import Device
from gpudash.model.snapshot import Snapshot
from tests.e2e import leasing
from tests.e2e.forking import GPUDASH, run
from tests.e2e.run import complete, tell
from tests.e2e.stream import Stream
from tests.fakenvml.build import environment
from tests.holders import Holder, pid_list

ADDRESSES = ("0000:07:00.0", "0000:16:00.0", "0000:25:00.0")
"""Where the stand-in says that its GPUs are."""


class Slots:
    """The bus as the kernel shows it to whoever is started `inside`, and the driver's view of it.

    Skips where no namespace for mounts may be made.
    """

    def __init__(self, folder: Path) -> None:
        self._drivers = folder / "drivers"
        self._drivers.mkdir()
        self.control = folder / "control"
        self.control.touch()
        self._show(range(len(ADDRESSES)))
        mount = f'mount --bind "{self._drivers}" /sys/bus/pci/drivers && exec "$@"'
        self._inside = ["unshare", "--mount", "sh", "-c", mount, "sh"]
        rights = subprocess.run([*self._inside, "true"], capture_output=True).returncode == 0
        if os.geteuid() or not rights:
            pytest.skip("may not make a mount namespace")

    def inside(self, *argv: str) -> list[str]:
        """Return a command that sees this bus in the place of the machine's."""
        return [*self._inside, *argv]

    def unplug(self, *places: int) -> None:
        """Take GPUs away, all others are there: the driver loses them, then the kernel."""
        tell(self.control, **({"REMOVED": ",".join(map(str, places))} if places else {}))
        self._show(place for place in range(len(ADDRESSES)) if place not in places)

    def suspend(self, place: int) -> None:
        """Let the kernel say that a GPU is powered down."""
        gpu = self._drivers / "nvidia" / ADDRESSES[place]
        (gpu / "power/runtime_status").write_text("suspended\n")

    def _show(self, places: Iterable[int]) -> None:
        """Replace the folder of the driver at once, as its listing is read at once."""
        fresh = self._drivers / f"nvidia.{len(list(self._drivers.iterdir()))}"
        for place in places:
            gpu = fresh / ADDRESSES[place]
            (gpu / "power").mkdir(parents=True)
            (gpu / "class").write_text("0x030200\n")
            (gpu / "power/runtime_status").write_text("active\n")
        link = self._drivers / "link"
        link.symlink_to(fresh.name)
        link.replace(self._drivers / "nvidia")


@pytest.fixture
def slots(tmp_path: Path) -> Slots:
    return Slots(tmp_path)


@pytest.mark.parametrize("words", [("--once",), ("-L",), ("topo",), ("doctor",)])
def test_a_suspended_gpu_is_reported_and_never_called(
    fakenvml: Path, slots: Slots, words: tuple[str, ...]
) -> None:
    slots.suspend(1)
    env = environment(fakenvml, DEVICES=3, CONTROL=slots.control, TRACE=1)
    done = run(slots.inside(*GPUDASH, *words), env)
    assert done.returncode == 0
    called = set(re.findall(r"(?m)^fakenvml \w+\((\d)", done.stderr))
    assert called == {"0", "2"}
    if words in (("--once",), ("-L",)):
        assert re.search("(?m)^(GPU )?1.*asleep", done.stdout)


KNOWN = 'mount -t tmpfs none /proc/driver && cp -r "$0" /proc/driver/nvidia && exec "$@"'
"""Runs a command where the kernel module knows the GPUs, whatever the driver says."""


def test_the_lease_of_a_gpu_that_was_never_read_is_reported(
    fakenvml: Path, slots: Slots, tmp_path: Path
) -> None:
    with leasing.places(fakenvml, 3) as environ:
        uuids = sorted(os.listdir(environ["GPUDASH_LOCK_DIR"]))
        for address, uuid in zip(ADDRESSES, uuids, strict=True):
            gpu = tmp_path / "nvidia/gpus" / address
            gpu.mkdir(parents=True)
            (gpu / "information").write_text(f"Model: \t A100\nGPU UUID: \t {uuid}\n")
        script = ("sh", "-c", "echo; exec sleep 600")
        holder = leasing.start(environ, "run", "-n", "3", "--for", "0", "--", *script)
        holder.stdout.readline()
        try:
            known = ("sh", "-c", KNOWN, str(tmp_path / "nvidia"))
            env = {**environ, "FAKENVML_CONTROL": str(slots.control), "FAKENVML_LOST": "1"}
            done = run(slots.inside(*known, *GPUDASH, "leases", "--json"), env)
        finally:
            holder.kill()
            holder.communicate()
    leases = {lease["uuid"]: lease["is_used"] for lease in json.loads(done.stdout)}
    assert leases == {uuids[0]: False, uuids[1]: None, uuids[2]: False}


def told(slots: Slots, held: list[Holder]) -> dict[str, Any]:
    pids = pid_list(held)
    return {"DEVICES": 3, "CONTROL": slots.control, "PROCS_PER_DEVICE": 1, "PIDS": pids}


def states(snapshot: Snapshot) -> dict[str | None, str]:
    return {device.uuid: device.state for device in snapshot.devices}


def live(snapshot: Snapshot) -> list[Device]:
    return [device for device in snapshot.devices if device.state == "ok"]


def places(snapshot: Snapshot) -> dict[int, str | None]:
    return {process.pid: process.devices[0].uuid for process in snapshot.processes}


def test_stream_tells_them_by_their_uuids(fakenvml: Path, slots: Slots, holders: Any) -> None:
    held = holders(3)
    argv = slots.inside(*GPUDASH, "--json", "--interval", "0.1")
    with subprocess.Popen(
        argv,
        env=environment(fakenvml, **told(slots, held)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        stream = Stream(process)
        before = stream.next()
        uuids = [device.uuid for device in before.devices]
        assert places(before) == {h.pid: u for h, u in zip(held, uuids, strict=True)}

        slots.unplug(1)
        gone = dict.fromkeys(uuids, "ok") | {uuids[1]: "lost"}
        left = {held[0].pid: uuids[0], held[2].pid: uuids[2]}
        places_now = [(0, uuids[0]), (1, uuids[2])]
        after = stream.until(
            lambda s: (
                states(s) == gone
                and places(s) == left
                and all(map(complete, live(s)))
                and [(gpu.index, gpu.uuid) for gpu in live(s)] == places_now
            )
        )
        (removed,) = (device for device in after.devices if device.state == "lost")
        assert removed.memory_used_bytes is None
        assert removed.fault is not None

        slots.unplug()
        back = stream.until(lambda s: states(s) == dict.fromkeys(uuids, "ok"))
        assert [(device.index, device.uuid) for device in back.devices] == [*enumerate(uuids)]
        stream.until(lambda s: places(s) == places(before))
        process.kill()
