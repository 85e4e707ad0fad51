"""A real sshd on loopback, with an alias per made-up host: what each runs is a script of the test.

Works as root and as any user whose login shell works. Nothing listens outside of 127.0.0.1.
"""

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fleet.rig.prometheus import free_port
from tests.waiting import until

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
needs_sshd = pytest.mark.skipif(
    SSHD is None or shutil.which("ssh") is None,
    reason="sshd is not installed (apt install openssh-server)",
)

_REMOTE = """#!/bin/sh
export HOME={home} PATH={home}/bin:/usr/bin:/bin
echo $$ >{home}/$RIG_HOST.pid
if [ -e {home}/$RIG_HOST ]; then exec sh {home}/$RIG_HOST; fi
exec sh -c "$SSH_ORIGINAL_COMMAND"
"""
_SERVER = """ListenAddress 127.0.0.1
HostKey {folder}/hostkey
PidFile none
AuthorizedKeysFile {folder}/key.pub
ForceCommand {folder}/remote
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AcceptEnv RIG_HOST
UseDNS no
PrintMotd no
MaxStartups 200
MaxSessions 200
"""
_CLIENT = """
Host *
  HostName 127.0.0.1
  User {user}
  HostKeyAlias rig
  Port {port}
  IdentityFile {folder}/key
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  CheckHostIP no
"""


class SshRig:
    """Hosts to log in to: every alias that a test declares, on one sshd."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        (self.home / "bin").mkdir(parents=True)
        for name in ("hostkey", "key", "otherkey"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(command, check=True)
        public = " ".join((folder / "hostkey.pub").read_text().split()[:2])
        other = " ".join((folder / "otherkey.pub").read_text().split()[:2])
        (folder / "known_hosts").write_text(f"rig {public}\nrig-changed {other}\n")
        remote = folder / "remote"
        remote.write_text(_REMOTE.format(home=self.home))
        remote.chmod(0o755)
        (folder / "sshd_config").write_text(_SERVER.format(folder=folder))
        self.port = 0
        self.config = folder / "ssh_config"
        self._blocks: list[str] = []

    def host(self, name: str, script: str | None = None, *lines: str) -> str:
        """Declare an alias: its script, else what it is sent, and more lines of ssh_config."""
        if script is not None:
            (self.home / name).write_text(script)
        block = "".join(f"  {line}\n" for line in (f"SetEnv RIG_HOST={name}", *lines))
        self._blocks.append(f"Host {name}\n{block}")
        client = _CLIENT.format(user=getpass.getuser(), port=self.port, folder=self.folder)
        self.config.write_text("\n".join(self._blocks) + client)
        return name

    def program(self, name: str, text: str) -> None:
        path = self.home / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}")
        path.chmod(0o755)

    def pid(self, name: str) -> int:
        """Wait until a host runs its script, and return its PID."""
        path = self.home / f"{name}.pid"
        return int(until(lambda: path.exists() and path.read_text().strip()))


@contextmanager
def running_sshd(folder: Path) -> Iterator[SshRig]:
    """Run an sshd, on another port if another program has taken the first."""
    assert SSHD is not None
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    rig = SshRig(folder)
    while (server := _start(rig, SSHD)) is None:
        pass
    try:
        yield rig
    finally:
        server.kill()
        server.wait()


def _start(rig: SshRig, sshd: str) -> subprocess.Popen[bytes] | None:
    """Start the server on some free port; None if another program has taken that meanwhile."""
    rig.port = free_port()
    command = [sshd, "-D", "-e", "-p", str(rig.port), "-f", str(rig.folder / "sshd_config")]
    with (rig.folder / "sshd.log").open("w") as log:
        server = subprocess.Popen(command, stderr=log, stdin=subprocess.DEVNULL)
    until(lambda: server.poll() is not None or _is_listening(rig.port))
    if server.poll() is None:
        return server
    text = (rig.folder / "sshd.log").read_text()
    assert "Address already in use" in text, text
    return None


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def silent_port() -> Iterator[int]:
    """Give a port on which connections are accepted, and nothing is ever sent."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield int(listener.getsockname()[1])


@contextmanager
def refusing_port() -> Iterator[int]:
    """Give a port that is taken, and on which no program listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])
