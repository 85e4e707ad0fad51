"""Fixtures that more than one folder of tests stands on."""

import fcntl
import gc
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.strategies import text

from gpudash.system import processes
from tests import strategies
from tests.fakenvml.build import CompilerError, build
from tests.holders import Holder, Holders, hold, open_device

# A caller that ignores them (nohup, a job in the background) hands that down to every child.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How long an example takes says how busy the machine is, not whether the code is right.
patient = settings(
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
        HealthCheck.large_base_example,
    ],
)
# The same examples in every run: one that fails does so on the day of its change.
settings.register_profile("brief", patient, max_examples=15, derandomize=True)
settings.register_profile("thorough", patient, max_examples=1000)
settings.load_profile("brief")


# Each of the thousands of processes that tests start would compile gpudash again, and each worker
# the tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let one worker compile the tests for all, and none look for garbage among what they are."""
    with open(__file__) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH)
        gc.disable()
        try:
            return (yield)
        finally:
            gc.freeze()
            gc.enable()


def pytest_collection_modifyitems() -> None:
    """Let that worker, too, write the classes of characters, which take seconds to compute."""
    text().validate()


@pytest.fixture(scope="session", autouse=True)
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that all workers of this run have in common."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    strategies.shared_folder[:] = [folder]
    return folder


@pytest.fixture(scope="session")
def fakenvml(shared_folder: Path) -> Path:
    """The stand-in libnvidia-ml.so.1, compiled once for all workers."""
    with (shared_folder / "fakenvml.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return build(shared_folder / "fakenvml")
        except CompilerError as error:
            pytest.fail(str(error), pytrace=False)


_states = count()


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of records of everything that a test starts; few make it."""
    folder = tmp_path_factory.getbasetemp() / f"state-{next(_states)}"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the local time zone for a test."""

    def set_zone(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(autouse=True)
def unblocked() -> Iterator[None]:
    """No test leaves a signal blocked: what later ones start would not hear of it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    after = signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert after == before


@pytest.fixture
def holders() -> Iterator[Holders]:
    """A function that starts n real processes; their PIDs are for the stand-in's PIDS."""
    started: list[Holder] = []

    def start(count: int, argv: Sequence[str] = ("sleep", "600")) -> list[Holder]:
        started.extend(hold(count, argv))
        return started[-count:]

    yield start
    for holder in started:
        holder.end()


@pytest.fixture
def job(holders: Holders) -> Holder:
    """A process that sleeps."""
    return holders(1)[0]


@pytest.fixture
def nvidia_smi() -> str:
    """NVIDIA's own, run on the stand-in; skips where there is none."""
    found = os.environ.get("NVIDIA_SMI") or shutil.which("nvidia-smi")
    if found is None:
        pytest.skip("nvidia-smi is not installed; NVIDIA_SMI may name one of the 535 releases")
    return found


@pytest.fixture
def as_nobody() -> Iterator[Callable[[], None]]:
    """A function that gives up root until the test is over; skips without it."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    nobody = 65534
    yield lambda: os.setresuid(nobody, nobody, 0)
    os.setresuid(0, 0, 0)


@pytest.fixture
def gpu_holder(holders: Holders) -> Callable[..., Holder]:
    """A function that starts a process with a node of the driver open; skips without rights."""

    def start(command: str = "exec sleep 600") -> Holder:
        (holder,) = holders(1, open_device(command))
        deadline = time.monotonic() + 60
        while not processes.has_device_open(holder.pid):
            if not holder.alive:
                pytest.skip("a mount namespace, and in it a /dev of its own, cannot be made here")
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return holder

    return start
