"""The command of ssh, the one of the far end, and why a connection ended."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpudash.fleet import ssh
from gpudash.model import wire
from gpudash.model.errors import UsageError, WireError
from tests.factories import make_snapshot
from tests.fleet.rig.sshd import needs_sshd, running_sshd

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


@pytest.mark.parametrize(
    ("shell", "folder"),
    [
        *product(("sh", "csh"), ("bin", ".local/bin", "opt/x")),
        *((shell, ".local/bin") for shell in ("bash", "dash", "tcsh", "fish", "zsh")),
    ],
)
def test_finds_gpudash_in_any_login_shell(
    shell: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / folder / "gpudash"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$GPUDASH_CONTROLLED${GPUDASH_SOCKET-?} $*"\n')
    program.chmod(0o755)
    (tmp_path / "ssh").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    there = "~/opt/x/gpudash"
    script = ssh.stream_command("lab7", gpudash=there, fresh=folder == "bin")[-1]
    environ = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    # As the supervisor of a collector and as ssh do it: the words are joined.
    words = [path, "-c", f"{script} --interval 2.0"]
    result = subprocess.run(words, capture_output=True, env=environ, check=True)
    socket = b"" if folder == "bin" else b"?"
    assert result.stdout.splitlines() == [ssh.HELLO, b"far%s --json --interval 2.0" % socket]


ECHO = "printf '%s\\0' \"$@\""
"""Prints arguments in a form in which each is told from all others."""
SHELLS = {
    "bash": "bash",
    "dash": "dash",
    "zsh": "zsh",
    "fish": "fish",
    "tcsh": "tcsh",
    "busybox": "busybox sh",
}
NASTY = (
    ["a b", "$(id)", "it's", ""],
    ["end\\' ", ";touch FILE;echo \\'"],
    ["dbl\\\\slash", "\\"],
    ["!", "!!", "a!b"],
    ["a\nb\n", "\n", "\t\r"],
    ["-n", "--", "%s", "%%", "\\045"],
    ["\udcff\udc80", "\u00e9", "\U0001f600"],
)
ARGUMENTS = st.lists(
    st.text(
        st.one_of(
            st.sampled_from("'\"\\\\!$`\n%*~#;&|<>(){}[]^? "),
            st.characters(min_codepoint=1, max_codepoint=0x2FF),
            st.integers(0xDC80, 0xDCFF).map(chr),
        ),
        max_size=24,
    ),
    min_size=1,
    max_size=6,
)


def echoed(words: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(word) + b"\0" for word in words)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return SHELLS[request.param]


@pytest.fixture(scope="module")
def far_end(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a host whose gpudash prints its arguments."""
    folder = tmp_path_factory.mktemp("far")
    program = folder / "gpudash"
    program.write_text(f"#!/bin/sh\n{ECHO}")
    program.chmod(0o755)
    return {"HOME": "/nonexistent", "PATH": f"{folder}:/usr/bin:/bin"}


@needs_ssh
def test_arguments_arrive_byte_for_byte_in_any_login_shell(
    shell: str, far_end: dict[str, str]
) -> None:
    @settings(max_examples=15, deadline=None)
    @given(ARGUMENTS)
    def arrive(words: list[str]) -> None:
        command = [*shell.split(), "-c", ssh.gpudash_command("lab7", *words)[-1]]
        result = subprocess.run(command, capture_output=True, env=far_end)
        assert (result.returncode, result.stdout) == (0, echoed(words)), result.stderr

    for words in NASTY:
        arrive = example(words)(arrive)
    arrive()


@pytest.mark.sweep
@needs_sshd
def test_arguments_arrive_over_a_real_sshd(shell: str, tmp_path: Path) -> None:
    with running_sshd(tmp_path) as rig:
        rig.program("gpudash", ECHO)
        control = f"ControlPath {tmp_path}/control"
        host = rig.host("far", f'exec {shell} -c "$SSH_ORIGINAL_COMMAND"\n', control)
        config = str(rig.config)
        master = ["ssh", "-F", config, "-M", "-N", "-f", host]
        subprocess.run(master, check=True, stderr=subprocess.DEVNULL)

        @settings(max_examples=500, deadline=None)
        @given(ARGUMENTS)
        def arrive(words: list[str]) -> None:
            command = ssh.gpudash_command(host, *words, config=config, terminal=False)
            result = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL)
            assert (result.returncode, result.stdout) == (0, echoed(words)), result.stderr

        try:
            arrive()
        finally:
            subprocess.run(["ssh", "-F", config, "-O", "exit", host], stderr=subprocess.DEVNULL)


@needs_ssh
def test_arguments_that_are_too_long_are_refused() -> None:
    with pytest.raises(UsageError, match="too long: 40,000 bytes, at most 30,000"):
        ssh.gpudash_command("lab7", "x" * 40_000)


@needs_ssh
def test_a_host_without_gpudash_is_told_from_one_that_fails() -> None:
    environ = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}
    if shutil.which("gpudash", path=environ["PATH"]) is None:
        script = ssh.gpudash_command("lab7", "kill", "1")[-1]
        result = subprocess.run(["sh", "-c", script], capture_output=True, env=environ)
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
