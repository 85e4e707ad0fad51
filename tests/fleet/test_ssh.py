"""The command of ssh, the one of the far end, and why a connection ended."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gpudash.fleet import ssh
from gpudash.model import wire
from gpudash.model.errors import UsageError, WireError
from tests.factories import make_snapshot

needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed")


@needs_ssh
def test_leaves_to_the_configuration_what_is_its_own() -> None:
    words = ssh.stream_command("lab7", config="/tmp/config")
    assert words[words.index("--") + 1] == "lab7"
    assert words[words.index("-F") + 1] == "/tmp/config"
    options = " ".join(words[: words.index("--")])
    assert "BatchMode=yes" in options
    for kept in ("StrictHostKeyChecking", "User=", "Port=", "IdentityFile", "ControlPath"):
        assert kept not in options


@needs_ssh
@pytest.mark.parametrize("name", ["-oProxyCommand=id", "a b", "a;id", ""])
def test_refuses_what_is_no_host(name: str) -> None:
    with pytest.raises(UsageError):
        ssh.ssh_command(name, "true")


@pytest.mark.parametrize("path", ["gpudash", "/opt/$(id)", "/opt/a b", "/opt/a'b", "~root/x", "/"])
def test_refuses_what_is_no_path_of_gpudash(path: str) -> None:
    with pytest.raises(UsageError, match="invalid path"):
        ssh.collect_script(path, "--json")


def test_without_ssh_the_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="ssh is not installed"):
        ssh.stream_command("lab7")


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "csh", "tcsh", "fish", "zsh"])
@pytest.mark.parametrize("folder", ["bin", ".local/bin", "opt/x"])
def test_finds_gpudash_in_any_login_shell(shell: str, folder: str, tmp_path: Path) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / folder / "gpudash"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$GPUDASH_CONTROLLED $*"\n')
    program.chmod(0o755)
    script = ssh.collect_script("~/opt/x/gpudash", "--json")
    environ = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    # As the supervisor of a collector and as ssh do it: the words are joined.
    words = [path, "-c", f"{script} --interval 2.0"]
    result = subprocess.run(words, capture_output=True, env=environ, check=True)
    assert result.stdout.splitlines() == [ssh.HELLO, b"1 --json --interval 2.0"]


@needs_ssh
def test_arguments_of_gpudash_arrive_as_they_are(tmp_path: Path) -> None:
    program = tmp_path / "gpudash"
    program.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    program.chmod(0o755)
    words = ("run", "--", "a b", "$(id)", "it's", "")
    script = ssh.gpudash_command("lab7", *words)[-1]
    environ = {"HOME": "/nonexistent", "PATH": f"{tmp_path}:/usr/bin:/bin"}
    result = subprocess.run(["sh", "-c", script], capture_output=True, env=environ, text=True)
    assert result.stdout == "".join(f"<{word}>" for word in words)
    environ["PATH"] = "/usr/bin:/bin"
    if shutil.which("gpudash", path=environ["PATH"]) is None:
        result = subprocess.run(["sh", "-c", script], capture_output=True, env=environ, text=True)
        assert result.returncode == 127


@pytest.mark.parametrize(
    ("status", "errors", "had_answer", "state"),
    [
        (255, ["root@lab7: Permission denied (publickey)."], False, "auth"),
        (255, ["@ WARNING @", "Host key verification failed."], False, "host-key"),
        (255, ["ssh: Could not resolve hostname x: Name or service not known"], False, "down"),
        (255, ["ssh: connect to host x port 22: Connection timed out"], False, "down"),
        (
            255,
            ["Access denied by pam_slurm_adopt: you have no active jobs", "x"],
            False,
            "no-access",
        ),
        (255, [], False, "down"),
        (127, [], False, "no-gpudash"),
        (9, ["gpudash: the driver is not loaded"], False, "no-gpus"),
        (0, [], False, "garbled"),
        (2, ["gpudash: unknown option --compact"], False, "garbled"),
        (255, ["Read from remote host x: Connection timed out"], True, "lost-contact"),
        (255, [], True, "lost-contact"),
        (0, [], True, "lost-contact"),
        (-9, [], True, "lost-contact"),
        (None, [], True, "lost-contact"),
    ],
)
def test_why_it_ended(status: int | None, errors: list[str], had_answer: bool, state: str) -> None:
    end = ssh.ending(status, errors, had_answer=had_answer)
    assert end.state == state
    assert end.message


def test_reads_documents_among_other_lines() -> None:
    snapshot = make_snapshot()
    assert ssh.decode_line(wire.encode(snapshot)) == snapshot
    for banner in (b"", b"Welcome", b'{"this is": "not it"}', ssh.HELLO):
        assert ssh.decode_line(banner) is None
    with pytest.raises(WireError):
        ssh.decode_line(b'{"schema":1}')
