import fcntl
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen

import psutil
import pytest

from gpudash.actions.lease.queue import TIMING, Timing
from tests.e2e import forking
from tests.e2e.forking import GPUDASH
from tests.e2e.leasing import finish, places, start, start_with
from tests.e2e.run import Line, each_of
from tests.pid_reuse import Cloner
from tests.waiting import all_end, until

HOLD = ("--for", "0", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec sleep 600")


@pytest.fixture
def environ(fakenvml: Path) -> Iterator[dict[str, str]]:
    if os.geteuid() != 0:
        pytest.skip("only root can make the places for leases that nobody else could replace")
    with places(fakenvml) as found:
        yield found


PICKS: dict[str, tuple[dict[str, object], int, str, str]] = {
    "pick -n 2": ({}, 0, r"GPU-\S+,GPU-\S+\n", ""),
    "pick -n 2 --format index": ({}, 0, "0,1\n", ""),
    "pick": ({"INIT_MS": 3000}, 0, r"GPU-\S+\n", ""),
    "pick -n 2 --min-free 500GiB": (
        {},
        75,
        "",
        r"gpudash: 2 GPUs wanted, 8 free, none with 500 GiB; the largest has .*\n",
    ),
    "pick --for 0.4": ({"LOAD": "busy"}, 75, "", r".*\n"),
    "pick --for 0s": ({"DEVICES": 0}, 6, "", "gpudash: there is no GPU\n"),
    "wait": ({"DEVICES": 0}, 6, "", "gpudash: there is no GPU\n"),
    "wait --model H900": ({}, 75, "", r".*this host has none that match.*\n"),
}
"""Settings of the stand-in, status, and what is printed."""


def test_pick_prints_gpus_or_why_there_are_none(fakenvml: Path) -> None:
    lines = [
        (line if "--for" in line else f"{line} --for 0", told) for line, (told, *_) in PICKS.items()
    ]
    found = each_of(lines, fakenvml, LOAD="idle", DEVICES=8)
    for (line, (_, *expected)), run in zip(PICKS.items(), found, strict=True):
        for pattern, text in zip(expected, run, strict=True):
            assert re.fullmatch(str(pattern), str(text)), (line, run)


def test_without_a_gpu_or_a_place_leases_are_not_none(fakenvml: Path) -> None:
    lines: list[Line] = [("leases", {"DEVICES": 0}), ("leases", {})]
    none, unknown = each_of(lines, fakenvml, variables={"GPUDASH_LOCK_DIR": "/nonexistent"})
    assert none == (6, "", "gpudash: there is no GPU\n")
    assert unknown[:2] == (1, "")
    assert "GPUs cannot be leased" in unknown[2]


def test_the_command_has_its_status_environment_and_lease(environ: dict[str, str]) -> None:
    script = "echo $CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES; exit 7"
    status, out, err = finish(
        start(environ, "run", "--for", "0", "-n", "2", "--", "sh", "-c", script)
    )
    assert (status, err) == (7, "")
    order, devices = out.split()
    assert order == "PCI_BUS_ID"
    assert len(devices.split(",")) == 2


ENDS = {
    ("sh", "-c", "kill -TERM $$"): (-signal.SIGTERM, 0),
    ("no-such-program",): (127, 1),
    ("/etc/passwd",): (126, 1),
}
"""What a command comes to: its status, and lines of errors."""


def test_a_command_dies_by_its_own_signal_or_cannot_be_run(environ: dict[str, str]) -> None:
    for command, end in ENDS.items():
        status, _, err = finish(start(environ, "run", "--for", "0", "--", *command))
        assert (status, err.count("\n")) == end, command
    os.chmod(environ["GPUDASH_LOCK_DIR"], 0o777)
    status, _, err = finish(start(environ, "run", "--for", "0", "--", "true"))
    assert status == 1
    assert "others than root can replace it" in err


def test_several_at_once_get_distinct_ones(environ: dict[str, str]) -> None:
    holders = [start(environ, "run", "-n", "2", *HOLD) for _ in range(4)]
    try:
        found = {uuid for holder in holders for uuid in _line(holder).split(",")}
        assert len(found) == 8
        assert all(each.startswith("GPU-") for each in found)
    finally:
        _end(*holders)


def test_leases_are_reported_and_respected(environ: dict[str, str]) -> None:
    holder = start(environ, "run", "-n", "7", *HOLD)
    try:
        taken = _line(holder).split(",")
        _, out, _ = finish(start(environ, "leases", "--json"))
        leases = json.loads(out)
        assert [lease["uuid"] for lease in leases] == taken
        assert {lease["pid"] for lease in leases} == {holder.pid}
        assert {lease["is_used"] for lease in leases} == {False}
        for fault in (
            {"FAKENVML_FAIL": "nvmlDeviceGetComputeRunningProcesses:0:4"},
            {"FAKENVML_LOST": "0:20"},
        ):
            _, out, err = finish(start({**environ, **fault}, "leases", "--json"))
            uses = [lease["is_used"] for lease in json.loads(out)]
            # Where nobody can be seen nobody is said not to use it.
            assert uses == [None, *[False] * 6], err
        status, out, err = finish(start(environ, "pick", "--for", "0", "-n", "2"))
        assert (status, out) == (75, "")
        assert f"(PID {holder.pid}" in err
        status, out, _ = finish(start(environ, "run", "--for", "0", "-n", "2", "--", "true"))
        assert status == 75
    finally:
        _end(holder)


def test_pick_inside_a_lease_names_what_is_leased(environ: dict[str, str]) -> None:
    words = ("-m", "gpudash", "pick", "--for", "0")
    inside = start(environ, "run", "--for", "0", "--", sys.executable, *words)
    status, out, err = finish(inside)
    assert (status, err) == (0, "")
    assert out.startswith("GPU-")


def test_waiting_has_an_end_and_a_variable_alone_makes_no_lease_ours(
    environ: dict[str, str],
) -> None:
    holder = start(environ, "run", "-n", "8", *HOLD)
    claimed = {**environ, "GPUDASH_LEASE": _line(holder)}
    try:
        status, out, err = finish(start(claimed, "run", "--for", "0", "--", "true"))
        assert (status, out) == (75, "")
        assert "leased by" in err
        for verb in ("wait", "run"):
            words = [verb, "--for", "0", "--timeout", "1s"]
            command = ["--wait", "--", "true"] if verb == "run" else []
            status, out, err = finish(start(environ, *words, *command))
            assert (status, out) == (75, "")
            assert "leased by" in err
    finally:
        _end(holder)


def test_jobs_that_wait_never_overlap(environ: dict[str, str], tmp_path: Path) -> None:
    script = f"echo begin $$ $CUDA_VISIBLE_DEVICES >> {tmp_path}/log; sleep 0.1; "
    script += f"echo end $$ $CUDA_VISIBLE_DEVICES >> {tmp_path}/log"
    jobs = [
        start(
            environ, "run", "--wait", "--for", "0", "-n", str(3 + n % 4), "--", "sh", "-c", script
        )
        for n in range(4)
    ]
    assert [finish(job)[0] for job in jobs] == [0] * len(jobs)
    held: dict[str, str] = {}
    for line in (tmp_path / "log").read_text().splitlines():
        event, pid, devices = line.split()
        for device in devices.split(","):
            if event == "begin":
                assert held.setdefault(device, pid) == pid
            else:
                del held[device]
    assert held == {}


SHARED_LOCK = """
import fcntl, os, sys
for place in sys.argv[1:]:
    fcntl.flock(os.open(place, os.O_RDONLY), fcntl.LOCK_SH)
print(flush=True)
sys.stdin.read()
"""


def test_a_shared_lock_keeps_leases_out_and_its_holder_is_named(environ: dict[str, str]) -> None:
    _, *taken = sorted(Path(environ["GPUDASH_LOCK_DIR"]).iterdir())
    argv = [sys.executable, "-c", SHARED_LOCK, *map(str, taken)]
    with Popen(argv, stdin=PIPE, stdout=PIPE, text=True) as holder:
        _line(holder)
        blame = re.compile(
            rf"has a shared lock of root's python\S* \(PID {holder.pid}\)[^;\n]*, which is no lease"
        )
        status, out, err = finish(start(environ, "leases", "--json"))
        assert (status, json.loads(out)) == (0, [])
        assert len(blame.findall(err)) == err.count("\n") == len(taken)
        status, out, err = finish(start(environ, "run", "-n", "2", *HOLD))
        assert (status, out) == (75, "")
        assert blame.search(err)
        job = start_with(TIMING._replace(blocked=0.1), environ, "--wait", "-n", "2", *HOLD)
        status, out, err = finish(job)
        assert (status, out) == (75, "")
        assert blame.search(err)
        assert err.endswith(": gave up waiting\n")
        _assert_served(environ)
        job = _waiting(environ, "-n", "2", timing=TIMING._replace(retry=3600))
        holder.communicate("")
    assert _line(job).count("GPU-") == 2
    _end(job)


def test_first_come_first_served(environ: dict[str, str], tmp_path: Path) -> None:
    holder = start(environ, "run", "-n", "8", *HOLD)
    _line(holder)
    timing, words = TIMING._replace(head_start=600), ("--wait", "-n", "8", "--for", "0")
    jobs: list[Popen[str]] = []
    for name in "ab":
        script = ("--", "sh", "-c", f"echo {name} >> {tmp_path}/log")
        jobs.append(start_with(timing, environ, *words, *script))
        assert "waiting" in _error(jobs[-1])
    _end(holder)
    assert [finish(job)[0] for job in jobs] == [0, 0]
    assert (tmp_path / "log").read_text() == "a\nb\n"


def test_one_that_is_stopped_holds_up_none(environ: dict[str, str]) -> None:
    holder = start(environ, "run", "-n", "8", *HOLD)
    _line(holder)
    stopped = _waiting(environ, "-n", "8")
    # Its time is up by the time the driver answers.
    slow = {**environ, "FAKENVML_INIT_MS": "1500"}
    next_one = start(slow, "run", "--wait", "--timeout", "1s", "-n", "1", *HOLD)
    assert f"; 1 has waited longer, root (PID {stopped.pid}) first" in finish(next_one)[2]
    next_one = _waiting(environ, "-n", "1")
    stopped.send_signal(signal.SIGSTOP)
    _end(holder)
    try:
        assert _line(next_one).startswith("GPU-")
        _assert_served(environ)
    finally:
        _end(next_one)
        stopped.send_signal(signal.SIGCONT)
    assert _line(stopped).count("GPU-") == 8
    _end(stopped)


def test_a_lock_on_the_folder_holds_up_none(environ: dict[str, str]) -> None:
    folder = os.open(environ["GPUDASH_LOCK_DIR"], os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        _assert_served(environ)
    finally:
        os.close(folder)


def test_what_is_free_is_kept_for_who_has_waited_long_enough(environ: dict[str, str]) -> None:
    timing = TIMING._replace(bound=0)
    holder = start(environ, "run", "-n", "4", *HOLD)
    _line(holder)
    big = _waiting(environ, "-n", "8", timing=timing)
    try:
        for words in ((), ("--wait", "--timeout", "1s")):
            job = start_with(timing, environ, *words, "--for", "0", "--", "true")
            status, out, err = finish(job)
            assert (status, out) == (75, "")
            assert f"kept for root (PID {big.pid})" in err
    finally:
        _end(holder)
    assert _line(big).count("GPU-") == 8
    _end(big)


def _waiting(environ: dict[str, str], *words: str, timing: Timing = TIMING) -> Popen[str]:
    """Start a command that waits in the queue by now; it prints its GPUs."""
    job = start_with(timing, environ, "--wait", *words, *HOLD)
    assert "waiting" in _error(job)
    return job


def _assert_served(environ: dict[str, str]) -> None:
    status, _, err = finish(start(environ, "run", "--wait", "--for", "0", "--", "true"))
    assert (status, err) == (0, "")


def _line(process: Popen[str]) -> str:
    return process.stdout.readline().strip()


def _error(process: Popen[str]) -> str:
    return process.stderr.readline()


def _end(*processes: Popen[str]) -> None:
    for process in processes:
        process.kill()
        process.communicate()


def test_nobody_waits_for_the_output_of_a_guard(environ: dict[str, str]) -> None:
    script = "echo done; exec >&- 2>&-; sleep 600"
    holder = start(environ, "run", "--for", "0", "--", "sh", "-c", script)
    try:
        assert holder.stdout.read() == "done\n"
        assert holder.poll() is None
    finally:
        _end(holder)


def test_a_whole_gpu_where_instances_have_no_place(environ: dict[str, str]) -> None:
    mig = {**environ, "FAKENVML_MIG": "1"}
    status, out, _ = finish(
        start(mig, "run", "--for", "0", "--", "sh", "-c", "echo $GPUDASH_LEASE")
    )
    assert (status, out[:4]) == (0, "GPU-")


def test_a_lease_is_not_blamed_on_the_next_process_of_its_pid(environ: dict[str, str]) -> None:
    holder = start(environ, "run", "--for", "0", "--", "sh", "-c", "sleep 600 >&- 2>&- & echo $!")
    child = int(_line(holder))
    try:
        holder.communicate()
        with Cloner() as innocent:
            innocent.start(holder.pid)
            _, out, _ = finish(start(environ, "leases", "--json"))
            (lease,) = json.loads(out)
            assert (lease["pid"], lease["start_ticks"], lease["name"]) == (holder.pid, None, None)
            _, out, _ = finish(start(environ, "leases"))
            assert "a child of an ended process" in out
            assert str(holder.pid) not in out
            _, _, err = finish(start(environ, "pick", "--for", "0", "-n", "8"))
            assert "GPU 0 leased by a child of an ended process" in err
    finally:
        os.kill(child, signal.SIGKILL)


def nested(*words: str) -> tuple[str, ...]:
    """A command, to be run by another, that is the child of a shell without the lease's files."""
    inner = ("-m", "gpudash", "run", "--for", "0", *words)
    line = f"exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; {shlex.join((sys.executable, *inner))}; exit"
    return ("bash", "-c", line)


def test_a_run_inside_a_lease_uses_its_gpus(environ: dict[str, str]) -> None:
    job = ("-n", "2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exit 7")
    other = start(environ, "run", "-n", "6", *HOLD)
    try:
        taken = _line(other).split(",")
        for inner in (nested("--wait", *job), (sys.executable, "-m", "gpudash", "run", *job)):
            outer = start(environ, "run", "-n", "2", "--for", "0", "--wait", "--", *inner)
            status, out, err = finish(outer)
            assert (status, err) == (7, "")
            assert len(set(out.strip().split(",")) - set(taken)) == 2
    finally:
        _end(other)


def test_what_holds_a_lease_outlives_closed_descriptors_and_signals_but_not_its_command(
    environ: dict[str, str],
) -> None:
    script = "import os, sys; os.closerange(3, 256); print('closed', flush=True); sys.stdin.read()"
    words = ("run", "--for", "0", "--", sys.executable, "-c", script)
    holder = forking.start([*GPUDASH, *words], environ, stdin=PIPE, stdout=PIPE, text=True)
    try:
        assert _line(holder) == "closed"
        guard = until(lambda: _guard(environ))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            guard.send_signal(number)
        _, out, _ = finish(start(environ, "leases", "--json"))
        assert [lease["pid"] for lease in json.loads(out)] == [holder.pid]
    finally:
        _end(holder)
    assert all_end([guard])
    status, _, _ = finish(start(environ, "run", "--wait", "-n", "8", "--for", "0", "--", "true"))
    assert status == 0


def _guard(environ: dict[str, str]) -> psutil.Process | None:
    """Return the only process that has the lock file of a lease open, None while it is not so."""
    found = [each for each in psutil.process_iter() if _has_open(each, environ)]
    return found[0] if len(found) == 1 else None


def _has_open(process: psutil.Process, environ: dict[str, str]) -> bool:
    found = False
    # It may end at any time, and close any of them.
    with suppress(OSError):
        for link in os.listdir(f"/proc/{process.pid}/fd"):
            with suppress(OSError):
                target = os.readlink(f"/proc/{process.pid}/fd/{link}")
                found |= target.startswith(environ["GPUDASH_LOCK_DIR"])
    return found
