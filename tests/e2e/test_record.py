"""`gpudash record` as a process: what it leaves behind, however it ends."""

import json
import re
import resource
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gpudash.feed.recording.reader import Recording
from gpudash.model.errors import UsageError, WireError
from gpudash.model.wire import decode
from tests.e2e.forking import GPUDASH, Process, start
from tests.e2e.run import each_of, gpudash, no_library
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.holders import Holders
from tests.waiting import LIMIT_SECONDS, children_of, until

NAMES = ("host.jsonl", "host.jsonl.zst")


@contextmanager
def recording(
    library: Path, *words: str, limit: int | None = None, **told: object
) -> Iterator[Process]:
    """A recorder that runs, its files no larger than `limit`."""
    process = start(
        [*GPUDASH, "record", "--interval", "0.1", *words],
        environment(library, **{"DEVICES": 2, **told}),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    if limit is not None:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def begun(path: Path) -> int:
    """Samples of a recording that is being written, 0 while there is not a whole one."""
    with suppress(WireError, UsageError):
        return count(path)
    return 0


def record(library: Path, path: Path, samples: int, **told: object) -> None:
    with recording(library, str(path), **told) as process:
        until(lambda: begun(path) >= samples)
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_SECONDS) == 130


def count(path: Path) -> int:
    recording = Recording(str(path))
    samples = [recording.first, *recording.after(recording.first)]
    assert all(each.snapshot().devices for each in samples)
    return len(samples)


def test_it_ends_after_its_duration_which_begins_with_the_first_sample(
    fakenvml: Path, tmp_path: Path
) -> None:
    for name, more in (
        (NAMES[1], "--duration 0.5s --interval 0.1"),
        (NAMES[0], "--duration 0.001s"),
    ):
        path = tmp_path / name
        ((*end, errors),) = each_of([(f"record {path} {more}", {})], fakenvml, DEVICES=2)
        assert (end, errors) == ([0, ""], "")
        assert count(path) >= 3 if "interval" in more else count(path) == 1
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Recording(str(path)).first.snapshot().host.uptime_seconds is not None


@pytest.mark.parametrize(
    ("number", "status", "name"), [(signal.SIGHUP, 129, NAMES[0]), (signal.SIGTERM, 143, NAMES[1])]
)
def test_a_signal_ends_it_in_order(
    fakenvml: Path, tmp_path: Path, number: int, status: int, name: str
) -> None:
    path = tmp_path / name
    with recording(fakenvml, str(path)) as process:
        until(lambda: begun(path) >= 2)
        process.send_signal(number)
        assert process.wait(LIMIT_SECONDS) == status
        assert process.stderr.read() == b""
    assert count(path) >= 2


def test_sigkill_leaves_a_recording(fakenvml: Path, tmp_path: Path) -> None:
    path = tmp_path / NAMES[1]
    with recording(fakenvml, str(path)) as process:
        until(lambda: begun(path) >= 3)
        process.kill()
        process.wait(LIMIT_SECONDS)
    assert count(path) >= 3


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_ends_it_with_whole_lines(fakenvml: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with recording(fakenvml, str(path), limit=100_000 if name == NAMES[0] else 8000) as process:
        assert process.wait(LIMIT_SECONDS) == 74
        told = process.stderr.read().decode()
    assert told == f"gpudash: {path}: File too large: the recording ends here\n"
    assert count(path) >= 2
    if name == NAMES[0]:
        assert path.read_bytes().endswith(b"}\n")


def test_usr1_lets_go_of_the_gpus_and_takes_them_back(fakenvml: Path, tmp_path: Path) -> None:
    path = tmp_path / "host.jsonl"
    with recording(fakenvml, str(path)) as process:
        until(lambda: begun(path) >= 2)
        process.send_signal(signal.SIGUSR1)
        released = process.stderr.readline()
        until(lambda: not children_of(process.pid))
        process.send_signal(signal.SIGUSR1)
        again = process.stderr.readline()
        before = begun(path)
        until(lambda: begun(path) > before)
        process.terminate()
        assert process.wait(LIMIT_SECONDS) == 143
        assert process.stderr.read() == b""
    assert released == b"gpudash: detached from the driver: kill -USR1 reattaches\n"
    assert again == b"gpudash: samples again: the recording goes on\n"


def test_of_a_size_it_is_a_folder_whose_oldest_samples_go(fakenvml: Path, tmp_path: Path) -> None:
    path, words = tmp_path / "host", ("--max-size", "60K")
    with recording(fakenvml, str(path), *words) as process:
        first = until(lambda: begun(path) and min(path.iterdir()))
        until(lambda: not first.exists())
        process.terminate()
        assert process.wait(LIMIT_SECONDS) == 143
    before = count(path)
    with recording(fakenvml, str(path), *words) as process:
        old = {*path.iterdir()}
        until(lambda: {*path.iterdir()} - old)
    assert before > 1
    assert sum(each.stat().st_size for each in path.iterdir()) <= 60_000
    assert len({*path.iterdir()}) > 2


def test_secrets_are_masked_and_stay_so(fakenvml: Path, tmp_path: Path, holders: Holders) -> None:
    secret = "hunter2-hunter2"
    (job,) = holders(1, ("sh", "-c", "sleep 600; :", "job", f"--api-key={secret}"))
    told = {"DEVICES": 1, "PROCS_PER_DEVICE": 1, "PIDS": job.pid}
    path = tmp_path / "host.jsonl"
    record(fakenvml, path, 2, **told)
    assert b"--api-key=" in path.read_bytes()
    assert secret.encode() not in path.read_bytes()


def test_a_terminal_shows_how_far_it_is(fakenvml: Path, tmp_path: Path) -> None:
    argv = [*GPUDASH, "record", str(tmp_path / "host.jsonl"), "--interval", "0.1"]
    with Terminal(argv, env=environment(fakenvml, DEVICES=2)) as terminal:
        terminal.wait_for(re.compile(r"recording host.jsonl: \d+ samples.*; Ctrl-C ends it"))
        terminal.send("ctrl+c")
        assert terminal.wait_exit() == 130
        assert "recorded host.jsonl: " in terminal.text


def test_on_a_terminal_a_failure_is_all_that_it_reports(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    folder.mkdir()
    argv = [*GPUDASH, "record", str(tmp_path / "host.jsonl")]
    with Terminal(argv, env=environment(no_library(folder))) as terminal:
        assert terminal.wait_exit() == 12
        assert "NVML error 12" in terminal.text
        assert "sample" not in terminal.text
    assert not (tmp_path / "host.jsonl").exists()


def test_scripts_look_at_a_moment_of_it(tmp_path: Path, fakenvml: Path) -> None:
    path = tmp_path / "host.jsonl.zst"
    record(fakenvml, path, 3)
    recording = Recording(str(path))
    lines = (
        "--once --json --at +0",
        "--once --json",
        "--json",
        "--once --at -0 --gpu 1",
        "--query-gpu=index,uuid --format=csv,noheader",
        "topo --json",
        "--json=gpustat",
    )
    found = each_of([(f"{line} --replay {path}", {}) for line in lines], fakenvml)
    assert {(status, errors) for status, _, errors in found} == {(0, "")}
    first, last, whole, table, query, _, gpustat = (text for _, text, _ in found)
    assert decode(first.encode()) == recording.first.snapshot()
    assert decode(last.encode()) == recording.last.snapshot()
    assert whole.encode().splitlines() == [
        recording.first.line,
        *(each.line for each in recording.after(recording.first)),
    ]
    assert "1 GPU" in table
    assert query.count("\n") == 2
    assert json.loads(gpustat)["gpus"]


UNREPLAYED = {
    "--once --replay none": (2, "none: No such file"),
    "--once --replay empty": (65, "empty: empty"),
    "--once --replay notes": (65, "not a recording"),
    "replay empty": (65, "empty: empty"),
}


def test_what_cannot_be_replayed_is_one_clear_line(
    fakenvml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "notes").write_text("milk\n")
    monkeypatch.chdir(tmp_path)
    found = each_of([(words, {}) for words in UNREPLAYED], fakenvml)
    for (status, told), run in zip(UNREPLAYED.values(), found, strict=True):
        assert (run[0], run[2].count("\n")) == (status, 1)
        assert told in run[2]


def test_a_driver_that_hangs_leaves_no_file_and_one_line(fakenvml: Path, tmp_path: Path) -> None:
    path = tmp_path / "none.gpudash"
    words = ("record", str(path), "--duration", "0.001s")
    run = gpudash(*words, library=fakenvml, HANG="nvmlInitWithFlags:*:inf")
    assert (run.status, path.exists()) == (10, False)
    assert f"{path} was not written: " in run.stderr
    assert "the driver does not answer" in run.stderr
