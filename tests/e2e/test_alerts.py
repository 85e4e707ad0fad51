"""`--on-finding` of the stream and of a recording, with real commands."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.run import GPUDASH
from tests.fakenvml.build import environment

pytestmark = pytest.mark.e2e


def test_the_stream_runs_a_command_and_prints_only_json(tmp_path: Path) -> None:
    file = shlex.quote(str(tmp_path / "out"))
    argv = [*GPUDASH, "--json", "--demo", "--on-finding", f"cat >> {file}; echo >> {file}; echo hi"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as stream:
        assert stream.stdout is not None
        assert stream.stderr is not None
        assert stream.stderr.readline() == b"hi\n"
        assert json.loads(stream.stdout.readline())["schema"] == 1
        stream.terminate()
    (first, *_) = (tmp_path / "out").read_text().splitlines()
    assert json.loads(first)["event"] == "appeared"
    assert json.loads(first)["finding"]["level"] in ("warn", "critical")


def test_a_recording_runs_it_too(fakenvml: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    file = shlex.quote(str(out))
    argv = [*GPUDASH, "record", str(tmp_path / "r.jsonl"), "--level", "warn"]
    argv += ["--on-finding", f"cat >> {file}; echo >> {file}"]
    with subprocess.Popen(
        argv, env=environment(fakenvml, DEVICES=1), stderr=subprocess.DEVNULL
    ) as recorder:
        deadline = time.monotonic() + 60
        while not (out.exists() and out.read_text().endswith("\n")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        recorder.terminate()
        assert recorder.wait(60) == 143
    found = [json.loads(line) for line in out.read_text().splitlines()]
    recorded = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    rules = {
        each["rule"] for line in recorded for each in line["findings"] if each["level"] != "info"
    }
    assert {each["finding"]["rule"] for each in found} == rules
    assert rules


def test_a_level_without_a_command_is_a_mistake_that_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    argv = [*GPUDASH, "record", str(file), "--level", "warn"]
    assert subprocess.run(argv, capture_output=True, timeout=60).returncode == 2
    assert not file.exists()
