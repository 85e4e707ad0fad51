import json
import os
import select
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpudash.actions.alerts import FindingCommand
from gpudash.model.snapshot import Finding
from tests import waiting
from tests.factories import make_host, make_snapshot


def observe(command: FindingCommand, *rules: str) -> None:
    findings = tuple(Finding(rule=rule, level="critical", sentence="s") for rule in rules)
    command.observe(make_snapshot(1, findings=findings, host=make_host(hostname="node1")))


def run(script: str, *rules: str) -> None:
    """Run a command for each rule to its end, however long it takes."""
    limit = waiting.LIMIT_SECONDS
    command = FindingCommand(script, "warn", limit_seconds=limit, grace_seconds=limit)
    observe(command, *rules)
    command.close()


def documents(path: Path) -> list[dict[str, Any]]:
    whole = path.read_text().rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def test_the_command_reads_the_finding(tmp_path: Path) -> None:
    path = tmp_path / "out"
    run(f"cat >> {shlex.quote(str(path))}; echo >> {path}", "hot", "lost")
    found = documents(path)
    assert [each["finding"]["rule"] for each in found] == ["hot", "lost"]
    assert found[0]["event"] == "appeared"
    assert found[0]["hostname"] == "node1"
    assert found[0]["taken_at"] == "2026-01-02T03:04:05.678000Z"


def test_one_runs_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "out"
    script = (
        f'mkdir {tmp_path}/lock && sleep 0.05 && rmdir {tmp_path}/lock && echo "{{}}" >> {path}'
    )
    run(script, *(f"rule-{number}" for number in range(8)))
    assert len(documents(path)) == 8


def test_a_command_that_hangs_is_killed_with_all_it_started(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    command = FindingCommand(f"exec 3>{pipe}; sleep 600 & wait", "warn", limit_seconds=0.5)
    observe(command, "hot")
    said: list[str] = []

    def is_killed() -> bool:
        said.append(capfd.readouterr().err)
        return "killed: it took longer than 0.5 s" in "".join(said)

    waiting.until(is_killed)
    # Its end is read once none is left that has it open to write.
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""
    os.close(reader)
    command.close()


def ended(pipe: Path, script: str, end: str) -> bool:
    """Whether a command ends with the gpudash that runs it and then does `end`."""
    code = (
        "import os, sys; from gpudash.actions.alerts import FindingCommand;"
        "from gpudash.model.snapshot import Finding; from tests.factories import make_snapshot;"
        'finding = Finding(rule="hot", level="critical", sentence="s");'
        'command = FindingCommand(sys.argv[2], "warn", limit_seconds=1e6, grace_seconds=0.1);'
        "command.observe(make_snapshot(1, findings=(finding,)));"
        f'open(sys.argv[1], "rb").read(0); {end}'
    )
    os.mkfifo(pipe)
    words = [sys.executable, "-c", code, str(pipe), f"exec 3>{pipe}; {script}"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL), pipe.open("rb") as reader:
        # It hangs up once none is left that has it open to write.
        poll = select.poll()
        poll.register(reader, 0)
        return bool(poll.poll(waiting.LIMIT_SECONDS * 1000))


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "command.close()"])
@pytest.mark.parametrize("script", ["sleep 600 & wait", "trap '' TERM; sleep 600", "yes"])
def test_a_command_that_hangs_or_floods_ends_with_gpudash(
    tmp_path: Path, script: str, end: str
) -> None:
    assert ended(tmp_path / "pipe", script, end)


@pytest.mark.parametrize(
    ("script", "words"), [("exit 3", "ended with status 3"), ("echo hello", "hello")]
)
def test_what_it_prints_and_how_it_fails_goes_to_stderr(
    script: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    run(script, "hot")
    captured = capfd.readouterr()
    assert words in captured.err
    assert captured.out == ""


def test_a_command_that_reads_nothing_is_no_error(capfd: pytest.CaptureFixture[str]) -> None:
    run("true", "hot")
    assert capfd.readouterr().err == ""
