"""`--on-finding` of the stream and of a recording, with real commands."""

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.forking import GPUDASH, run, start
from tests.waiting import LIMIT_SECONDS, until


def test_the_stream_runs_a_command_and_prints_only_json(tmp_path: Path) -> None:
    file = shlex.quote(str(tmp_path / "out"))
    argv = [*GPUDASH, "--json", "--demo", "--on-finding", f"cat >> {file}; echo >> {file}; echo hi"]
    with start(argv, os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as stream:
        assert stream.stderr.readline() == b"hi\n"
        assert json.loads(stream.stdout.readline())["schema"] == 1
        stream.terminate()
    (first, *_) = (tmp_path / "out").read_text().splitlines()
    assert json.loads(first)["event"] == "appeared"
    assert json.loads(first)["finding"]["level"] in ("warn", "critical")


def test_a_recording_runs_it_too(tmp_path: Path) -> None:
    out = tmp_path / "out"
    file = shlex.quote(str(out))
    path = tmp_path / "r.jsonl"
    argv = [*GPUDASH, "--demo", "record", str(path), "--level", "warn"]
    argv += ["--on-finding", f"cat >> {file}; echo >> {file}"]
    with start(argv, os.environ, stderr=subprocess.DEVNULL) as recorder:
        until(
            lambda: (
                recorded(path)
                and recorded(path) == {each["finding"]["rule"] for each in lines(out)}
            )
        )
        recorder.terminate()
        assert recorder.wait(LIMIT_SECONDS) == 143
    assert {each["finding"]["rule"] for each in lines(out)} <= recorded(path)


def recorded(path: Path) -> set[str]:
    """Return the rules whose findings of the level are in a recording."""
    findings = [each for line in lines(path) for each in line["findings"]]
    return {each["rule"] for each in findings if each["level"] != "info"}


def lines(path: Path) -> list[dict[str, Any]]:
    whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
    return [json.loads(line) for line in whole.splitlines()]


def test_a_level_without_a_command_is_a_mistake_that_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    argv = [*GPUDASH, "record", str(file), "--level", "warn"]
    assert run(argv, os.environ).returncode == 2
    assert not file.exists()
