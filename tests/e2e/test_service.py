"""One collector for a machine: who attaches to it, whom nobody trusts, and what follows its end."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from gpudash.feed.attached import attach
from gpudash.feed.collector import RELEASED
from gpudash.model.snapshot import Snapshot
from tests.e2e.forking import GPUDASH, run
from tests.e2e.run import each_of, gpudash
from tests.e2e.serving import LINE, Viewer, doctor, has_sampled, pretending, serving
from tests.e2e.stream import NO_VARIABLES, streaming
from tests.e2e.terminal import Terminal
from tests.e2e.unprivileged import Unprivileged
from tests.fakenvml.build import environment
from tests.holders import hold, open_device
from tests.waiting import children_of, until

NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
SECOND = ("--interval", "1")


@pytest.fixture
def path() -> Iterator[Path]:
    """A socket in a folder that all may read."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder) / "gpudash.sock"


@pytest.fixture(scope="module")
def shared(fakenvml: Path) -> Iterator[Path]:
    """The socket of a service that goes on."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        path = Path(folder) / "gpudash.sock"
        with serving(fakenvml, path):
            yield path


def attached(
    library: Path,
    path: Path,
    *words: str,
    variables: Mapping[str, str] = NO_VARIABLES,
    **told: object,
) -> Any:
    """A stream that may attach."""
    variables = {**variables, "GPUDASH_SOCKET": str(path)}
    return streaming(library, *SECOND, *words, variables=variables, **told)


def is_shared(snapshot: Snapshot) -> bool:
    return snapshot.collected_by is not None


def callers(counts: Path) -> set[int]:
    return {int(each.name) for each in counts.iterdir()}


def test_all_viewers_cost_the_driver_one(fakenvml: Path, path: Path, tmp_path: Path) -> None:
    told = {"COUNT": f"{tmp_path}/%p"}
    env = {**environment(fakenvml, **told), "GPUDASH_SOCKET": str(path)}
    code = "import gpudash; print(next(gpudash.stream()).collected_by is not None)"
    with (
        serving(fakenvml, path, **told) as server,
        attached(fakenvml, path, **told) as first,
        attached(fakenvml, path, **told) as second,
    ):
        for viewer in (first, second) * 3:
            assert viewer.next().collected_by == psutil.Process().username()
        for command in ("dmon", "pmon"):
            done = run([*GPUDASH, command, "-c", "1"], env)
            assert len(done.stdout.splitlines()) > 2
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True)
        assert done.stdout == b"True\n"
        assert callers(tmp_path) <= {each.pid for each in children_of(server.pid)}


def test_it_collects_as_often_as_the_fastest_viewer_asks(fakenvml: Path, path: Path) -> None:
    def pace() -> Any:
        with Viewer(path) as viewer:
            return viewer.line()["interval"]

    with serving(fakenvml, path, interval=3600):
        assert pace() == 3600
        with Viewer(path) as viewer:
            viewer.line()
            viewer.ask(b'{"interval": 1}\n')
            assert len({viewer.line()["taken_at"] for _ in range(4)}) == 4
            assert pace() == 1
        until(lambda: pace() == 3600)


def test_what_it_does_not_serve_is_read_by_oneself(fakenvml: Path, shared: Path) -> None:
    for words in (
        ("--interval", "0.2"),
        ("--fresh",),
        ("--show-secrets",),
        ("--pcie-throughput",),
        ("--on-finding", "true"),
    ):
        with attached(fakenvml, shared, *words) as viewer:
            assert not is_shared(viewer.next()), words


def test_what_decides_or_is_rare_asks_the_driver_itself(fakenvml: Path, path: Path) -> None:
    lines = "--once --json", "-q", "--query-gpu name", "pick", "run true", "leases"
    variables = {"GPUDASH_SOCKET": str(path)}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.setblocking(False)
        cases = [(line, {}) for line in (*lines, "kill 4242 --dry-run")]
        for _, _, errors in each_of(cases, fakenvml, variables=variables, DEVICES=1):
            assert "usage" not in errors
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_where_there_is_none_nothing_of_it_is_loaded(fakenvml: Path, path: Path) -> None:
    with attached(fakenvml, path, variables={"PYTHONPROFILEIMPORTTIME": "1"}) as viewer:
        viewer.next()
        viewer.process.kill()
        loaded = viewer.process.stderr.read()
    assert b"gpudash.feed.collector" in loaded
    assert b"gpudash.feed.attached" not in loaded


def test_an_attached_stream_prints_what_it_was_asked_for(fakenvml: Path, path: Path) -> None:
    told = {"DEVICES": 3, "LOAD": "busy"}
    with serving(fakenvml, path, **told):
        with attached(fakenvml, path, "--gpu", "1", **told) as viewer:
            snapshot = viewer.until(is_shared)
            assert [device.index for device in snapshot.devices] == [1]
        with attached(fakenvml, path, "--compact", **told) as viewer:
            assert viewer.until(is_shared).topology is None


def test_what_its_viewer_has_acknowledged_is_no_news_to_it(fakenvml: Path, path: Path) -> None:
    told = {"DEVICES": 1, "TEMP": 200, "THROTTLE": 8}
    with serving(fakenvml, path, **told):
        variables = {**environment(fakenvml), "GPUDASH_SOCKET": str(path)}
        with attached(fakenvml, path, **told) as viewer:
            new = viewer.until(lambda snapshot: snapshot.findings)
            assert {each.acknowledged for each in new.findings or ()} == {None}
            ack = [*GPUDASH, "ack", ":0", "--reason", "known"]
            run(ack, variables).check_returncode()
            viewer.until(
                lambda snapshot: (
                    snapshot.findings and all(each.acknowledged for each in snapshot.findings)
                )
            )


def test_the_far_end_of_ssh_attaches(fakenvml: Path, shared: Path) -> None:
    variables = {"GPUDASH_SOCKET": str(shared), "GPUDASH_CONTROLLED": "far"}
    with streaming(
        fakenvml, *SECOND, stdin=subprocess.PIPE, variables=variables, DEVICES=1
    ) as stream:
        stream.until(is_shared)
        pipe = stream.process.stdin
        assert pipe is not None
        pipe.write(b"0.2\n")
        pipe.flush()
        stream.until(lambda snapshot: not is_shared(snapshot))


STRANGE: list[tuple[dict[str, Any], str]] = [
    ({"schema": 0}, LINE),
    ({"version": "0.0.1"}, LINE),
    ({"version": 7}, LINE),
    ({"eyes": {"boot_id": "another"}}, LINE),
    ({"eyes": {"pid_namespace": "pid:[1]"}}, LINE),
    ({"eyes": {"gpus": ["/dev/nvidia77"]}}, LINE),
    ({"eyes": {"leases": "/elsewhere"}}, LINE),
    ({"sees_processes": False}, LINE),
    ({"say": "[]"}, LINE),
    ({"say": "x" * 1_000_000}, LINE),
    ({"say": "[" * 50_000}, LINE),
    ({"age": 60}, LINE),
    ({"age": -60}, LINE),
    ({}, LINE.replace("TAKEN_AT", "yesterday")),
    ({}, "no snapshot\n"),
    ({}, ""),
    ({}, LINE.replace("}\n", "x" * 20_000_000)),
]
"""Greetings and lines of servers that nobody is to believe."""


def test_a_server_that_does_not_see_what_we_see_is_done_without(path: Path) -> None:
    for known, line in STRANGE:
        with pretending(path, known, line):
            assert attach(str(path), 1.0) is None, known


def test_a_line_that_is_no_document_ends_it(fakenvml: Path, path: Path) -> None:
    line = LINE.replace('"devices":[]', '"devices":7')
    with pretending(path, {}, line), attached(fakenvml, path, "--gpu", "0", DEVICES=1) as viewer:
        assert not is_shared(viewer.next())


def test_one_that_does_is_believed(fakenvml: Path, path: Path) -> None:
    with pretending(path, {}), attached(fakenvml, path) as viewer:
        assert viewer.next().host.hostname == "pretender"
        # It has only one line.
        assert not is_shared(viewer.next())


def test_a_folder_in_which_anybody_may_write_is_not_trusted(fakenvml: Path, path: Path) -> None:
    with pretending(path, {}):
        path.parent.chmod(0o777)
        with attached(fakenvml, path) as viewer:
            assert not is_shared(viewer.next())


def test_a_server_of_another_user_in_a_folder_of_ours_is_not_trusted(
    fakenvml: Path, path: Path, nobody: Unprivileged
) -> None:
    path.parent.chmod(0o777)
    with pretending(path, {}, before=nobody.argv[: nobody.argv.index("/usr/bin/python3")]):
        path.parent.chmod(0o755)
        with attached(fakenvml, path) as viewer:
            assert not is_shared(viewer.next())


def test_another_user_attaches_to_that_of_root_and_reads_its_past(
    fakenvml: Path, path: Path, nobody: Unprivileged, tmp_path: Path
) -> None:
    env = {**nobody.env, "GPUDASH_SOCKET": str(path)}
    with serving(fakenvml, path, "--history", str(tmp_path / "history")):
        viewer = subprocess.Popen(
            [*nobody.argv, "--json"], env=env, cwd="/", stdout=subprocess.PIPE
        )
        try:
            assert json.loads(viewer.stdout.readline())["collected_by"] == "root"
        finally:
            viewer.kill()
            viewer.communicate()
        argv = [*nobody.argv, "--once", "--json", "--at", "-0s"]
        past = subprocess.run(argv, env=env, cwd="/", capture_output=True)
        assert (len(json.loads(past.stdout)["devices"]), past.stderr) == (8, b"")


def test_what_only_its_viewer_may_see_is_added(
    fakenvml: Path, path: Path, nobody: Unprivileged
) -> None:
    told = {"DEVICES": 1, "LOAD": "idle", "ORPHANED": "0:9000"}
    os.chown(path.parent, nobody.uid, -1)
    words = ["serve", "--listen", "127.0.0.1:0", "--socket", str(path)]
    env = {**nobody.env, **{f"FAKENVML_{name}": str(told[name]) for name in told}}
    (holder,) = hold(1, open_device())
    server = subprocess.Popen([*nobody.argv, *words], env=env, cwd="/")
    try:
        until(lambda: has_sampled(path))
        with attached(fakenvml, path, **told) as viewer:
            # Tests that run beside this one may hold GPUs, too.
            snapshot = viewer.until(
                lambda each: is_shared(each) and holder.pid in {one.pid for one in each.holders}
            )
            (finding,) = snapshot.findings or ()
            assert finding.rule == "memory-unaccounted"
            assert str(holder.pid) in finding.advice
    finally:
        holder.end()
        server.kill()
        server.wait()


def test_one_that_may_not_see_the_processes_of_others_is_done_without(
    fakenvml: Path, path: Path, nobody: Unprivileged
) -> None:
    mount = 'mount -t proc -o hidepid=2 none /proc && exec "$@"'
    hidden = ("unshare", "--mount", "sh", "-c", mount, "sh")
    probe = subprocess.run([*hidden, "true"], capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"/proc cannot be mounted here: {probe.stderr.strip()}")
    os.chown(path.parent, nobody.uid, -1)
    words = ["serve", "--listen", "127.0.0.1:0", "--socket", str(path)]
    server = subprocess.Popen([*hidden, *nobody.argv, *words], env=nobody.env, cwd="/")
    try:
        until(lambda: has_sampled(path))
        with attached(fakenvml, path, DEVICES=2) as viewer:
            assert not is_shared(viewer.next())
        assert "hidden from it (hidepid)" in doctor(fakenvml, path)["finding"]
    finally:
        server.kill()
        server.wait()


def test_another_pid_namespace_does_not_attach(fakenvml: Path, shared: Path) -> None:
    probe = subprocess.run((*NAMESPACE, "true"), capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"no PID namespace can be made here: {probe.stderr.strip()}")
    env = {**environment(fakenvml), "GPUDASH_SOCKET": str(shared)}
    argv = [*NAMESPACE, *GPUDASH, "--json", *SECOND]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE) as viewer:
        assert json.loads(viewer.stdout.readline())["collected_by"] is None
        viewer.kill()


def test_a_server_that_is_stopped_is_done_without(fakenvml: Path, path: Path) -> None:
    with serving(fakenvml, path) as server, attached(fakenvml, path) as viewer:
        viewer.until(is_shared)
        server.send_signal(signal.SIGSTOP)
        with attached(fakenvml, path) as late:
            assert not is_shared(late.next())
        viewer.until(lambda snapshot: not is_shared(snapshot))


def test_one_that_has_released_the_gpus_keeps_its_viewers_off_the_driver(
    fakenvml: Path, path: Path, tmp_path: Path
) -> None:
    told = {"DEVICES": 2, "COUNT": f"{tmp_path}/%p"}
    screen = [*GPUDASH, "--no-config"]
    env = {**environment(fakenvml, **told), "GPUDASH_SOCKET": str(path)}
    with (
        serving(fakenvml, path, **told) as server,
        attached(fakenvml, path, **told) as viewer,
        Terminal(screen, env=env, columns=120) as terminal,
    ):
        terminal.wait_for(f"by {psutil.Process().username()}"[:15])
        viewer.next()
        before = callers(tmp_path)
        server.send_signal(signal.SIGUSR1)
        # Longer than a service may be silent.
        terminal.wait_for("DETACHED 6s")
        assert "gpudash serve is detached" in terminal.text
        assert callers(tmp_path) == before
        with attached(fakenvml, path, "--fresh", **told) as fresh:
            assert not is_shared(fresh.next())
        server.send_signal(signal.SIGUSR1)
        terminal.wait_until(lambda: "DETACHED" not in terminal.text)
        assert is_shared(viewer.until(is_shared))
        viewer.process.kill()
        assert viewer.process.stderr.read().count(b"gpudash serve is detached") == 1


def test_viewers_come_back_to_a_server_that_was_started_again(fakenvml: Path, path: Path) -> None:
    with attached(fakenvml, path) as viewer:
        assert not is_shared(viewer.next())
        for _ in range(2):
            with serving(fakenvml, path):
                viewer.until(is_shared)
            viewer.until(lambda snapshot: not is_shared(snapshot))


def test_a_socket_is_replaced_if_nobody_listens_there(fakenvml: Path, path: Path) -> None:
    words = ("serve", "--listen", "127.0.0.1:0", "--socket", str(path))
    with serving(fakenvml, path) as server:
        server.kill()
        server.wait()
    assert path.exists()
    with serving(fakenvml, path) as server:
        run = gpudash(*words, library=fakenvml)
        text = f"gpudash: cannot listen on {path}: another gpudash serve listens there\n"
        assert (run.status, run.stderr) == (1, text)
        with attached(fakenvml, path) as viewer:
            viewer.until(is_shared)
        server.terminate()
        server.wait()
    assert not path.exists()
    path.write_text("mine")
    run = gpudash(*words, library=fakenvml)
    assert (run.status, run.stderr.count("\n")) == (1, 1)
    assert path.read_text() == "mine"


REQUESTS = (
    b"GET / HTTP/1.0\r\n\r\n",
    b"{}\n",
    b"[1]\n",
    b'{"interval": 0.001}\n',
    b'{"interval": NaN}\n',
    b'{"interval": 1e400}\n',
    b"[" * 200 + b"\n",
    b"x" * 100_000,
    b'{"interval": 5}\n' * 100_000,
)


def test_bad_clients_are_closed_and_others_served(fakenvml: Path, shared: Path) -> None:
    for request in REQUESTS:
        with Viewer(shared) as viewer:
            assert viewer.line()["schema"] == 1
            viewer.ask(request)
            lines = [*iter(viewer.line, None)]
            # One that floods may be closed before it can be told why.
            assert [*lines[-1]] == ["error"] or len(request) > 1_000_000, request[:20]
    with ExitStack() as stack:
        greeted = []
        for _ in range(140):
            viewer = stack.enter_context(Viewer(shared))
            greeted += [viewer] if viewer.line() else []
        assert len(greeted) == 128
        assert all(viewer.line() is None for viewer in greeted)
        with attached(fakenvml, shared) as other:
            other.until(is_shared)


def test_one_that_does_not_read_is_dropped(fakenvml: Path, path: Path) -> None:
    with serving(fakenvml, path, interval=0.1, DEVICES=64), Viewer(path) as slow:
        slow.line()
        slow.ask(b'{"interval": 0.1}\n')
        until(slow.is_closed)
        with attached(fakenvml, path) as viewer:
            viewer.until(is_shared)


def test_where_the_usual_socket_cannot_be_made_it_serves_all_the_same(nobody: Unprivileged) -> None:
    argv = [*nobody.argv, "serve", "--listen", "127.0.0.1:0"]
    server = subprocess.Popen(argv, env=nobody.env, cwd="/", stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr.readline().startswith("gpudash: serving http://")
        line = server.stderr.readline()
        assert line.startswith("gpudash: cannot listen on /run/gpudash/gpudash.sock: ")
        assert server.poll() is None
    finally:
        server.kill()
        server.communicate()


def test_a_part_of_the_host_or_an_unknown_group_is_refused(fakenvml: Path, path: Path) -> None:
    words = f"serve --listen 127.0.0.1:0 --socket {path}"
    lines = [(f"{words} {more}", {}) for more in ("--demo", "--gpu 0", "--socket-group no-such")]
    for status, _, errors in each_of(lines, fakenvml):
        assert (status in (1, 2), errors.count("\n")) == (True, 1)
    assert not path.exists()


def test_a_group_may_have_it_alone(fakenvml: Path, path: Path) -> None:
    with serving(fakenvml, path, "--socket-group", "daemon"):
        assert (path.stat().st_mode & 0o777, path.group()) == (0o660, "daemon")


def is_released(path: Path) -> bool:
    """Whether a service says that it has let go of the driver."""
    with Viewer(path) as viewer:
        viewer.line()
        viewer.ask(b'{"interval": 1}\n')
        return bool(viewer.line() == json.loads(RELEASED))


def test_doctor_knows_it(fakenvml: Path, path: Path) -> None:
    check = partial(doctor, fakenvml, path)
    with serving(fakenvml, path) as server:
        known = check()
        assert known["verdict"] == "PASS"
        assert f"sudo kill -USR1 {server.pid}" in known["finding"]
        server.send_signal(signal.SIGUSR1)
        # Each check is a process: few are made.
        until(lambda: is_released(path))
        until(lambda: check()["verdict"] == "WARN")
    with pretending(path, {"version": "0.0.1"}):
        assert "older than" in check()["finding"]
