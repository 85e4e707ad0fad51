"""The functions of `import gpudash`, in this interpreter, on the stand-in library."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

import gpudash
from gpudash.model.errors import GpudashError
from tests.factories import make_snapshot, received
from tests.fakenvml.build import environment
from tests.waiting import all_end


@pytest.fixture
def driver(fakenvml: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the stand-in that children of this process find."""

    def use(**settings: object) -> None:
        for name, value in environment(fakenvml, **settings).items():
            monkeypatch.setenv(name, value)

    return use


class AlarmError(Exception):
    """What the handler of a signal raises."""


@pytest.fixture
def interrupting_alarm() -> Iterator[None]:
    """SIGALRM raises while it lasts."""

    def interrupt(*_: object) -> None:
        raise AlarmError

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.signal(signal.SIGALRM, before)


def test_a_snapshot_is_what_once_prints(driver: Callable[..., None]) -> None:
    driver(DEVICES=3)
    taken = gpudash.snapshot()
    assert [device.index for device in taken.devices] == [0, 1, 2]
    assert taken.devices[0].memory_used_bytes
    assert [device.index for device in gpudash.snapshot(gpus=[0, 2]).devices] == [0, 2]
    assert len(gpudash.snapshot(gpus="1").devices) == 1
    assert [device.index for device in gpudash.snapshot(gpus=0).devices] == [0]


def test_a_prometheus_does_not_stand_for_this_host(
    driver: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(DEVICES=1)
    monkeypatch.setenv("GPUDASH_PROMETHEUS", "http://127.0.0.1:9")
    assert len(gpudash.snapshot().devices) == 1
    with closing(gpudash.stream()) as stream:
        assert len(next(stream).devices) == 1
    assert len(gpudash.pick(demo="dgx-h100")) == 1


def test_a_demo_needs_no_driver() -> None:
    assert gpudash.snapshot(demo="pcie-1080ti").host.simulated


def test_a_driver_that_hangs_is_an_error_and_a_gpu_that_hangs_a_state(
    driver: Callable[..., None],
) -> None:
    driver(DEVICES=2, HANG="nvmlInitWithFlags:*:inf")
    with pytest.raises(GpudashError, match="answer") as caught:
        gpudash.snapshot(timeout=0.5)
    assert caught.value.exit_status == 10
    driver(DEVICES=2, HANG="nvmlDeviceGetPowerUsage:1:inf")
    for seconds in (0.5, 5, 50):
        states = [device.state for device in gpudash.snapshot(timeout=seconds).devices]
        if states[0] == "ok":  # else the machine is too busy for that
            break
    assert states == ["ok", "not-answering"]


def test_a_driver_that_is_not_loaded_is_one_error(driver: Callable[..., None]) -> None:
    driver(INIT_ERR=9)
    with pytest.raises(GpudashError, match=r"^the NVIDIA driver is not loaded") as caught:
        gpudash.snapshot()
    assert caught.value.exit_status == 9
    with pytest.raises(GpudashError, match="not loaded"):
        next(gpudash.stream())


def test_a_snapshot_that_a_signal_interrupts_leaves_no_child(
    driver: Callable[..., None], interrupting_alarm: None
) -> None:
    driver(DEVICES=1, HANG="nvmlInitWithFlags:*:inf")
    # No import is interrupted: it leaves its file open.
    take = gpudash.snapshot
    # What other tests have killed may die later.
    before = set(psutil.Process().children())
    # While it is waited for.
    for milliseconds in (100, 200, 300):
        with suppress(AlarmError):
            signal.setitimer(signal.ITIMER_REAL, milliseconds / 1000)
            take(timeout=10)
        assert set(psutil.Process().children()) <= before, milliseconds


def test_a_stream_ends_with_its_collector(driver: Callable[..., None]) -> None:
    driver(DEVICES=1)
    before = psutil.Process().children()
    stream = gpudash.stream(interval=0.1)
    first, second = next(stream), next(stream)
    assert first.taken_at < second.taken_at
    collectors = [each for each in psutil.Process().children() if each not in before]
    assert collectors
    stream.close()
    assert all_end(collectors)


def test_free_gpus_are_picked_and_who_holds_the_others_is_said(driver: Callable[..., None]) -> None:
    driver(DEVICES=2, LOAD="idle")
    free = {device.uuid for device in gpudash.snapshot().devices}
    assert set(gpudash.pick(2, min_free="1GiB")) == free
    with pytest.raises(GpudashError, match="3 GPUs wanted, this host has 2") as caught:
        gpudash.pick(3, min_free=1 << 30)
    assert caught.value.exit_status == 75
    with pytest.raises(ValueError, match="count: 0"):
        gpudash.pick(0)
    with pytest.raises(ValueError, match="min_free"):
        gpudash.pick(min_free="much")


def test_a_recording_is_read_in_order(tmp_path: Path) -> None:
    file = tmp_path / "two.jsonl"
    lines = [received(make_snapshot(count))[1] for count in (1, 2)]
    file.write_bytes(b"\n".join(lines) + b"\n")
    assert [len(each.devices) for each in gpudash.load(file)] == [1, 2]
    with pytest.raises(GpudashError):
        next(gpudash.load(tmp_path / "none"))


def test_the_import_loads_nothing() -> None:
    code = "import sys; old = set(sys.modules); import gpudash; print(set(sys.modules) - old)"
    shown = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": str(Path(gpudash.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "{'gpudash'}\n"


def test_only_the_functions_are_public() -> None:
    names = ["GpudashError", "Snapshot", "load", "pick", "snapshot", "stream"]
    assert dir(gpudash) == sorted([*names, "__version__"])
    assert all(hasattr(gpudash, name) for name in names)
    with pytest.raises(AttributeError):
        gpudash.cells  # type: ignore[attr-defined] # noqa: B018
