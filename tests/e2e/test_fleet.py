"""Many hosts, end to end: simulated, and by an ssh that runs the far end here."""

import csv
import fcntl
import io
import os
import select
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from gpudash.model.errors import ExitStatus
from gpudash.model.fleet import FleetSnapshot, decode
from gpudash.model.wire import decode as decode_host
from tests.e2e.far_ssh import calls, install
from tests.e2e.forking import GPUDASH, run, start
from tests.e2e.run import Line, each_of
from tests.e2e.screen import collectors
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.fleet.rig.faults import faulty
from tests.waiting import LIMIT_SECONDS, until

FREE = ("--for", "0.1s", "--share", "--max-util", "100")
"""For the stand-in, whose GPUs all compute."""


class Far:
    """gpudash on a machine whose ssh leads to hosts with the stand-in."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.folder = folder
        found = install(folder)
        nothing = {"GPUDASH_CONFIG": str(folder / "config.toml"), "SLURM_JOB_NODELIST": ""}
        self.environment = {**environment(library, DEVICES=2), **found, **nothing}

    def __call__(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return run([*GPUDASH, *words], {**self.environment, **environ})

    def once(self, *words: str) -> FleetSnapshot:
        return decode(self(*words, "--once", "--json").stdout.encode())


@pytest.fixture
def far(fakenvml: Path, tmp_path: Path) -> Far:
    return Far(fakenvml, tmp_path)


def test_every_host_is_shown_also_those_that_fail(far: Far) -> None:
    snapshot = far.once("--host", "gpu[1-2],down", "--host", "denied")
    assert {host.name: host.state for host in snapshot.hosts} == {
        "gpu1": "ok",
        "gpu2": "ok",
        "down": "down",
        "denied": "auth",
    }
    assert [len(host.devices) for host in snapshot.hosts if host.state == "ok"] == [2, 2]
    text = far("--host", "gpu1,down", "--once").stdout
    assert "1 of 2 hosts answer, 2 GPUs" in text
    reason = "cannot be reached: ssh: connect to host down port 22: Connection refused"
    assert " ".join(text.split()).count(reason) == text.count("refused") == 1


def test_no_word_of_a_user_is_in_what_the_far_end_is_told_to_run(far: Far) -> None:
    far("--host", "gpu1,gpu2", "--once", "--where", "user:$(reboot)")
    assert {host for host, _ in calls(far.folder)} == {"gpu1", "gpu2"}
    assert not [command for _, command in calls(far.folder) if "reboot" in command]
    refused = far("--host", "gpu1,-oProxyCommand=x", "--once")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("gpudash: invalid host ")


def test_one_host_has_the_local_commands(far: Far) -> None:
    snapshot = decode_host(far("--host", "gpu1", "--once", "--json").stdout.encode())
    assert len(snapshot.devices) == 2
    assert far("--host", "gpu1", "-L").stdout.count("GPU ") == 2
    table = far("--host", "gpu1", "--once", "--gpu", "0").stdout
    assert "1 GPU" in table
    failed = far("--host", "denied", "--once")
    assert (failed.returncode, failed.stdout) == (255, "")
    assert failed.stderr == "gpudash: eve@denied: Permission denied (publickey).\n"
    down = far("--host", "denied", "--format", "prometheus")
    assert (down.returncode, down.stderr) == (255, failed.stderr)
    assert "gpudash_up 0" in down.stdout.splitlines()
    wrong = far("--host", "gpu1", "--format", "prometheus", "--show-secrets")
    assert (wrong.returncode, wrong.stdout) == (2, "")


def test_one_host_that_answers_with_something_else_is_called_that(tmp_path: Path) -> None:
    program = tmp_path / "ssh"
    program.write_text("#!/bin/sh\necho 'Welcome to lab7!'\nexec sleep 600\n")
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    words = ["--host", "lab7", "--once", "--timeout", "1"]
    done = run([*GPUDASH, *words], env)
    assert (done.returncode, done.stdout) == (ExitStatus.NO_ANSWER, "")
    assert done.stderr == (
        "gpudash: lab7 answers with something else: answers 'Welcome to lab7!'\n"
    )


def test_a_recording_carries_many_hosts(far: Far) -> None:
    file = str(far.folder / "many.jsonl.zst")
    recorded = far("record", "--host", "gpu1,gpu2", "--duration", "6s", "--interval", "0.5", file)
    assert recorded.returncode == 0
    snapshot = far.once("--replay", file)
    assert [host.name for host in snapshot.hosts] == ["gpu1", "gpu2"]
    assert "hosts answer" in far("--once", "--replay", file).stdout
    lines = far("--json", "--replay", file).stdout.splitlines()
    assert all(decode(line.encode()).hosts for line in lines)
    assert far.once("--replay", file, "--where", "host:gpu2").hosts[0].name == "gpu2"
    assert far("--once", "--replay", file, "--where", "host:nowhere").returncode == 0
    refused = far("--once", "--replay", file, "--gpu", "0")
    assert refused.stderr == "gpudash: --gpu does not go with a recording of many hosts\n"


def test_pick_names_hosts_and_gpus(far: Far) -> None:
    run = far("pick", "--host", "gpu1,gpu2,down", "-n", "2", *FREE)
    assert [line.split()[0] for line in run.stdout.splitlines()] == ["gpu1", "gpu2"]
    assert all(len(line.split()[1].split(",")) == 2 for line in run.stdout.splitlines())
    assert "gpudash: down: ssh: connect to host down" in run.stderr
    none = far("pick", "--host", "gpu1", "-n", "9", "--for", "0.1s")
    assert (none.returncode, none.stdout) == (75, "")
    few = far("pick", "--host", "gpu1,gpu2", "--min-free", "900GiB", FAKENVML_LOAD="idle")
    assert few.stderr.count("1 GPU wanted, 2 free, none with 900 GiB; the largest has ") == 2
    assert far("pick", "--host", "gpu1", "--gpu", "0").returncode == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="lock files of leases must belong to root")
def test_run_takes_the_lease_there_with_the_words_as_they_are(far: Far) -> None:
    locks = far.folder / "locks"
    locks.mkdir()
    for device in decode_host(far("--once", "--json").stdout.encode()).devices:
        (locks / str(device.uuid)).touch(0o666)
    where = {"GPUDASH_LOCK_DIR": str(locks)}
    words = ["a b", "$HOME;'\"", "*", "", "--host"]
    command = ["python3", "-c", "import sys, os; print(sys.argv[1:], os.environ['GPUDASH_LEASE'])"]
    run = far("run", "--host", "gpu1", *FREE, "--", *command, *words, **where)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(f"{words} GPU-")
    failing = far("run", "--host", "gpu1,gpu2", *FREE, "--", "sh", "-c", "exit 75", **where)
    assert failing.returncode == 1
    assert failing.stderr.count("running on") == 1


def test_a_simulated_fleet_is_printed_in_every_form(fakenvml: Path) -> None:
    words = (
        "--json",
        "--format csv",
        "--format csv-hosts",
        "--format csv-users",
        "--fail-on critical",
        "--json --where state:held",
        "--where foo:1",
        "--where host:nowhere",
    )
    lines: list[Line] = [(f"--demo=fleet-64x8 --no-config --once {each}", {}) for each in words]
    found = each_of(lines, fakenvml)
    assert [status for status, _, _ in found] == [0, 0, 0, 0, 1, 0, 2, 0]
    whole, csv_gpus, csv_hosts, csv_users, _, held, _, nowhere = (text for _, text, _ in found)
    snapshot = decode(whole.encode())
    assert len(snapshot.hosts) == 64
    assert {finding.level for finding in snapshot.findings} >= {"critical", "warn"}
    gpus = list(csv.DictReader(io.StringIO(csv_gpus)))
    assert len(gpus) == sum(len(host.devices) for host in snapshot.hosts)
    assert len(csv_hosts.splitlines()) == 65
    users = list(csv.DictReader(io.StringIO(csv_users)))
    assert {row["name"] for row in users} == {user.name for user in snapshot.users}
    states = {gpu.status for host in decode(held.encode()).hosts for gpu in host.devices}
    assert states == {"held-idle"}
    assert found[-1][2] == ""
    assert "0 GPUs on 0 hosts" in nowhere


def test_a_source_that_fails_has_a_status_of_its_own(far: Far) -> None:
    words = ["--prometheus", "http://eve:secret@127.0.0.1:1", "--once"]
    run = far(*words)
    assert run.returncode == 69
    assert "secret" not in run.stdout + run.stderr
    variable = {"GPUDASH_PROMETHEUS": "http://127.0.0.1:1"}
    assert far("--once", **variable).returncode == 69
    # What is about this host stays about this host.
    assert far("-L", **variable).stdout.count("GPU ") == 2


def test_a_source_that_does_not_answer_in_time_has_failed(far: Far) -> None:
    with faulty() as server:
        server.fault = "hang"
        done = far("--prometheus", server.url, "--once", "--timeout", "0.5")
    assert done.returncode == 69
    assert f"{server.url}: failed: no answer in 0.5 s, see --timeout" in done.stdout


def test_the_stream_ends_with_its_reader_and_leaves_no_ssh(far: Far) -> None:
    stream = start(
        [*GPUDASH, "--json", "--host", "gpu1,gpu2", "--interval", "0.5"],
        far.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert decode(stream.stdout.readline().rstrip(b"\n")).hosts
    stream.stdout.close()
    assert stream.wait(LIMIT_SECONDS) == 141


@pytest.mark.parametrize(
    ("hosts", "number"), [("gpu1", signal.SIGINT), ("gpu1,gpu2", signal.SIGTERM)]
)
def test_a_signal_ends_the_stream_though_its_reader_has_stopped(
    far: Far, hosts: str, number: signal.Signals
) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    with start(
        [*GPUDASH, "--json", "--host", hosts, "--interval", "0.1"],
        far.environment,
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
    ) as stream:
        os.close(writing)
        until(lambda: bool(select.select([reading], [], [], 0)[0]))
        stream.send_signal(number)
        assert stream.wait(LIMIT_SECONDS) == 128 + number
        assert b"Traceback" not in stream.stderr.read()
    os.close(reading)


def test_a_host_is_entered_and_left_again(far: Far) -> None:
    argv = [*GPUDASH, "--no-config", "--host", "gpu1,gpu2,down"]
    with Terminal(argv, env=far.environment, columns=100, rows=30) as terminal:
        terminal.wait_for("2 of 3 hosts")
        terminal.send("2", then="HOST ")
        terminal.wait_for("DOWN")
        terminal.send("down", "enter", then="COMMAND")
        terminal.send("q", then="2 of 3 hosts")
        terminal.send("enter", then="COMMAND")
        terminal.send("escape", then="2 of 3 hosts")
        terminal.send("q", then="q quit")
        assert terminal.quit() == 0


def test_the_collector_of_a_screen_is_replaced_when_it_dies(far: Far) -> None:
    argv = [*GPUDASH, "--no-config", "--host", "gpu1,gpu2"]
    with Terminal(argv, env=far.environment, columns=100, rows=30) as terminal:
        terminal.wait_for("2 hosts")
        [first] = collectors(terminal, "hosts-collector")
        assert first.cmdline() == psutil.Process(terminal.pid).cmdline(), "an interpreter starts"
        first.kill()
        terminal.wait_for("the collector ended")
        terminal.wait_until(lambda: collectors(terminal, "hosts-collector") not in ([], [first]))
        terminal.wait_for(lambda text: "2 hosts" in text and "ended" not in text)
