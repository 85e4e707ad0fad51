import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable

import psutil
import pytest

from gpudash.actions.kill.pin import ProcessState, StateName, Target, pin
from gpudash.model.errors import ActionError
from gpudash.model.process import Process
from gpudash.model.snapshot import Host
from gpudash.system import processes
from gpudash.system import processes as proc_stat
from gpudash.system.fork import ForkedProcess
from tests import waiting
from tests.actions.kill.shown import HERE, pinned, shown, wait_for_end
from tests.factories import make_host, make_process
from tests.holders import Holder, Holders
from tests.waiting import child_of, has_ended, open_descriptors


def refusal(process: Process, host: Host = HERE) -> str:
    """The reason why a process is not pinned."""
    with pytest.raises(ActionError) as caught:
        pin(process, host).close()
    return str(caught.value)


@pytest.fixture
def victim(holders: Holders) -> Holder:
    return holders(1)[0]


@pytest.fixture
def without_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python as it is on a kernel or a C library before pidfds."""
    monkeypatch.delattr(os, "pidfd_open")


def test_what_is_pinned_is_not_signalled_by_its_pid(
    victim: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a look at it and a signal to its PID that might be another's."""
    with pin(shown(victim.pid), HERE) as target, monkeypatch.context() as context:
        context.delattr(os, "kill")
        target.send(signal.SIGKILL)
        wait_for_end(target)


def test_kill_ends_the_process_and_its_end_is_seen(victim: Holder) -> None:
    with pin(shown(victim.pid), HERE) as target:
        assert target.protected
        assert target.alive()
        assert target.alive()
        target.send(signal.SIGKILL)
        wait_for_end(target)
        assert not target.alive()
    assert not victim.alive


def test_a_signal_that_is_ignored_leaves_it_alive(holders: Holders) -> None:
    (deaf,) = holders(1, ("sh", "-c", "trap '' TERM; exec sleep 600"))
    waiting.until(lambda: psutil.Process(deaf.pid).name() == "sleep")
    with pin(shown(deaf.pid), HERE) as target:
        target.send(signal.SIGTERM)
        assert target.alive()
        target.send(signal.SIGKILL)
        wait_for_end(target)


def test_pinning_alone_does_nothing(victim: Holder) -> None:
    before = open_descriptors()
    pin(shown(victim.pid), HERE).close()
    refusal(shown(victim.pid, start_ticks=1))
    assert victim.alive
    assert open_descriptors() == before


def test_nothing_can_be_sent_once_it_is_closed(victim: Holder) -> None:
    target = pin(shown(victim.pid), HERE)
    target.close()
    target.close()
    with pytest.raises(ValueError, match="negative"):
        target.send(signal.SIGKILL)
    assert victim.alive


def test_a_reused_pid_is_refused(victim: Holder) -> None:
    start_ticks = (shown(victim.pid).start_ticks or 0) - 1
    reason = refusal(shown(victim.pid, start_ticks=start_ticks))
    assert reason == f"PID {victim.pid} now belongs to another process; nothing was sent"
    assert victim.alive


def test_a_process_is_the_same_when_the_wall_clock_was_set_meanwhile(victim: Holder) -> None:
    with pin(shown(victim.pid, create_time=1.0), HERE) as target:
        assert target.state().name == "alive"


def test_a_process_of_which_only_the_unix_time_is_known_is_compared_by_it(victim: Holder) -> None:
    pin(shown(victim.pid, start_ticks=None), HERE).close()
    before = psutil.Process(victim.pid).create_time() - proc_stat.TICK_SECONDS
    assert "another process" in refusal(shown(victim.pid, start_ticks=None, create_time=before))


def test_an_exit_before_pinning_is_reported(victim: Holder) -> None:
    process = shown(victim.pid)
    victim.end()
    assert refusal(process) == f"PID {victim.pid} has already exited"


def test_an_exit_between_pinning_and_sending_is_reported(victim: Holder) -> None:
    with pin(shown(victim.pid), HERE) as target:
        victim.end()
        with pytest.raises(ActionError, match="already exited"):
            target.send(signal.SIGKILL)


def test_a_zombie_has_exited() -> None:
    with subprocess.Popen(("sleep", "600")) as child:
        process = shown(child.pid)
        with pin(process, HERE) as target:
            target.send(signal.SIGKILL)
            wait_for_end(target)
        waiting.until(lambda: has_ended(child.pid))
        parent = f"{os.getpid()} ({psutil.Process().name()})"
        assert refusal(process) == (
            f"PID {child.pid} has already exited, zombie: parent {parent} must reap it"
        )


def test_the_process_of_another_user_is_named(
    victim: Holder, as_nobody: Callable[[], None]
) -> None:
    with pin(shown(victim.pid, username="alice"), HERE) as target:
        as_nobody()
        with pytest.raises(ActionError) as caught:
            target.send(signal.SIGKILL)
    reason = f"not permitted: PID {victim.pid} is owned by alice; try sudo gpudash"
    assert str(caught.value) == reason
    assert victim.alive


def test_init_is_refused() -> None:
    assert "init" in refusal(shown(1))


def test_gpudash_itself_is_refused() -> None:
    if os.getpid() == 1:
        pytest.skip("the tests are init here")
    assert "gpudash itself" in refusal(shown(os.getpid()))


@pytest.mark.parametrize("words", [("", "-m", "gpudash"), ("  # from gpudash.cli import main",)])
def test_the_collector_of_gpudash_is_refused(holders: Holders, words: tuple[str, ...]) -> None:
    sleep = "import time; time.sleep(600)"
    comment, *others = words
    (collector,) = holders(1, (sys.executable, "-c", sleep + comment, *others))
    assert "own collector" in refusal(shown(collector.pid))
    (job,) = holders(1, (sys.executable, "-c", sleep, "--out", "/data/gpudash"))
    pin(shown(job.pid), HERE).close()


def test_the_collector_that_was_forked_from_us_is_refused() -> None:
    collector = ForkedProcess(signal.pause)
    with collector.stdin, collector.stdout, collector.stderr:
        assert "own collector" in refusal(shown(collector.pid))
        collector.kill()
        os.waitpid(collector.pid, 0)


@pytest.mark.parametrize("pid", [0, -1, -4242])
def test_a_number_that_means_a_group_is_refused(pid: int) -> None:
    assert refusal(make_process(pid=pid)) == f"{pid} is not a PID"


def test_a_pid_beyond_any_is_gone() -> None:
    assert "already exited" in refusal(make_process(pid=1 << 40))


def test_a_process_that_is_hidden_is_refused_with_the_reason(victim: Holder) -> None:
    process = make_process(
        pid=victim.pid, create_time=None, hidden_reason="belongs to another PID namespace"
    )
    assert refusal(process).endswith("belongs to another PID namespace")
    assert "start time" in refusal(make_process(pid=victim.pid, create_time=None))


def test_a_pid_of_the_driver_that_holds_no_device_in_a_namespace_is_refused(
    victim: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "in_first_pid_namespace", lambda: False)
    before = open_descriptors()
    reason = refusal(shown(victim.pid))
    assert reason == (
        f"PID {victim.pid} has no NVIDIA device open here: the driver means another process, "
        "outside this PID namespace"
    )
    assert open_descriptors() == before
    # A launcher that a person names is no PID of the driver's.
    pin(shown(victim.pid, devices=()), HERE).close()


def test_a_kernel_thread_is_refused() -> None:
    threads = [
        pid for pid in psutil.pids() if (s := proc_stat.read_stat(pid)) and s.is_kernel_thread
    ]
    if not threads:
        pytest.skip("no kernel thread can be seen from here")
    assert "kernel thread" in refusal(shown(threads[0]))


def test_a_simulated_host_is_refused(victim: Holder) -> None:
    simulated = make_host(hostname=HERE.hostname, simulated=True)
    assert "simulated" in refusal(shown(victim.pid), simulated)


def test_a_process_of_another_host_is_refused(victim: Holder) -> None:
    reason = refusal(shown(victim.pid), make_host(hostname="node7.elsewhere"))
    assert reason == "the process runs on node7.elsewhere: signal it there"


@pytest.mark.usefixtures("without_pidfd")
def test_a_system_without_pidfds_says_so_and_still_compares(victim: Holder) -> None:
    assert "another process" in refusal(shown(victim.pid, start_ticks=1))
    with pin(shown(victim.pid), HERE) as target:
        assert not target.protected
        assert target.alive()
        assert target.alive()
        target.send(signal.SIGKILL)
        wait_for_end(target)
        with pytest.raises(ActionError, match="already exited"):
            target.send(signal.SIGKILL)


# A parent waits for its vfork child in a state that ps shows as D.
CLONE = {"x86_64": 56, "aarch64": 220}
VFORK = """
import ctypes, sys, time
ctypes.CDLL(None).syscall(int(sys.argv[1]), 0x4000 | 17, 0, 0, 0, 0) or time.sleep(600)
"""


def until(target: Target, state: StateName) -> ProcessState:
    def reached() -> ProcessState | None:
        return found if (found := target.state()).name == state else None

    return waiting.until(reached, target.state)


def test_a_zombie_names_the_parent_that_must_reap_it() -> None:
    with subprocess.Popen(("sleep", "600")) as child, pinned(child.pid) as target:
        target.send(signal.SIGKILL)
        wait_for_end(target)
        zombie = until(target, "zombie")
        assert zombie.parent_pid == os.getpid()
        assert zombie.parent_name == psutil.Process().name()
        child.wait()
        assert target.state() == ProcessState("gone")


def test_a_system_call_that_no_signal_interrupts_is_reported(holders: Holders) -> None:
    number = CLONE.get(platform.machine())
    if number is None:
        pytest.skip(f"the number of clone on {platform.machine()} is not known")
    (holder,) = holders(1, (sys.executable, "-c", VFORK, str(number)))
    child = child_of(holder.pid)
    with pinned(holder.pid) as target:
        until(target, "uninterruptible")
        assert target.alive()
        os.kill(child, signal.SIGKILL)


def test_a_process_whose_first_thread_ended_lives_on(holders: Holders) -> None:
    script = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start()"
        "; ctypes.CDLL(None).pthread_exit(None)"
    )
    (holder,) = holders(1, (sys.executable, "-c", script))
    process = shown(holder.pid)
    with pinned(holder.pid) as target, Target(process, None) as unpinned:
        waiting.until(lambda: has_ended(holder.pid))
        assert target.alive()
        assert unpinned.alive()
        assert target.state().name == "alive"


def test_one_known_by_its_start_time_is_pinned_to_send(job: Holder) -> None:
    with Target(shown(job.pid, start_ticks=1), None) as other:
        with pytest.raises(ActionError, match="already exited"):
            other.send(signal.SIGKILL)
        assert job.alive
    with Target(shown(job.pid), None) as target:
        assert not target.protected
        before = open_descriptors()
        target.send(signal.SIGKILL)
        assert open_descriptors() == before
        wait_for_end(target)
