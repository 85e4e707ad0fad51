"""The system's ssh to one host: its command, the script at the far end, and why it ended.

Everything else is left to the user's ssh_config: names, users, ports, keys, agents, jump hosts, how
strictly host keys are checked. The far end runs one constant command, free of any input from a user
or a host; it works in any login shell (sh, csh, fish).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from typing import NamedTuple

from gpudash.feed.collector import SOCKET_VARIABLE
from gpudash.fleet import remote_smi
from gpudash.fleet.names import check_host
from gpudash.model import wire
from gpudash.model.errors import NVML_REFUSED, ExitStatus, UsageError
from gpudash.model.fleet import HostState
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean, clean_bytes

HANDSHAKES = 8
"""Concurrent connection attempts: a server refuses the eleventh, and jump hosts see all."""
HELLO = b"gpudash-link"
"""Our first line from the far end: anything before it is a banner."""

# ControlMaster: a live master connection is used, but ours never becomes one: it ends when gpudash
# ends, and would take the user's own sessions with it. RemoteCommand: one in the ssh_config makes
# ssh refuse ours.
_OPTIONS = (
    *("-T", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
    *("-o", "ClearAllForwardings=yes", "-o", "PermitLocalCommand=no", "-o", "RemoteCommand=none"),
    *("-o", "ControlMaster=no", "-o", "LogLevel=ERROR", "-o", "EscapeChar=none"),
)
_TERMINAL_OPTIONS = ("-t", "-x", "-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none")

_REMOTE_PATH = re.compile(r"(~/|/)[A-Za-z0-9_./+-]+")
_PLAIN_START = b'{"schema"'
_BACKSLASH = "\\\\"
_MAX_ARGUMENTS = 30_000
"""Bytes: each takes four in the command, which the kernel limits to 128 KiB."""


class Ending(NamedTuple):
    """Why a connection ended."""

    state: HostState
    message: str


def ssh_command(
    host: str,
    remote_command: str,
    *,
    config: str | None = None,
    terminal: bool = False,
) -> list[str]:
    """Return the ssh command that runs one on a host; raises UsageError for a bad host or no ssh.

    `config` is ssh's -F. With `terminal`, the far end has one and may ask for passwords.
    """
    options = _TERMINAL_OPTIONS if terminal else _OPTIONS
    return [*_to_host(host, options, config), remote_command]


def config_command(host: str, *, config: str | None = None) -> list[str]:
    """Return the command that prints ssh's configuration for a host."""
    return _to_host(host, ("-G",), config)


def _to_host(host: str, options: Sequence[str], config: str | None) -> list[str]:
    ssh = shutil.which("ssh")
    if ssh is None:
        raise UsageError("ssh is not installed: --host needs OpenSSH's client (openssh-client)")
    file = () if config is None else ("-F", config)
    return [ssh, *options, *file, "--", check_host(host)]


def stream_command(
    host: str, *, config: str | None = None, gpudash: str | None = None, fresh: bool = False
) -> list[str]:
    """Return the command whose stdout `decode_line` reads, like that of a local collector.

    It accepts `--interval S` after it, and other intervals by stdin. `gpudash` is its path at the
    far end if it is neither on the PATH nor in ~/.local/bin. The lines may come from a `gpudash
    serve` there, unless they are to be `fresh`.
    """
    script = collect_script(gpudash, "--json")
    # An older gpudash there would not know an option.
    return ssh_command(host, f"env {SOCKET_VARIABLE}= {script}" if fresh else script, config=config)


def gpudash_command(
    host: str,
    *words: str,
    config: str | None = None,
    gpudash: str | None = None,
    terminal: bool = True,
) -> list[str]:
    """Return the command that runs gpudash at the far end with these arguments, as for `kill`.

    They arrive byte for byte. Exit status 127 means no gpudash. Raises UsageError if they are too
    long.
    """
    found = f'{_each_gpudash(gpudash)} exec "$g" "$@"; done'
    script = f"{_DECODE}; {found}; echo gpudash: not found >&2; exit {_NOT_FOUND}"
    arguments = _encoded(words)
    return ssh_command(host, f"sh -c '{script}' {arguments}", config=config, terminal=terminal)


# Login shells differ in how they treat quotes, backslashes, `!` and newlines. So the arguments,
# quoted for sh, travel as numbers between dots, which every shell leaves alone. A backslash follows
# the name, as all shells keep one there, for printf to turn the numbers into bytes again.
_DECODE = (
    'b=$1; s=; IFS=.; for o in $2; do s=$s${b}0$o; done; unset IFS; eval "set -- $(printf %b "$s")"'
)


def _encoded(words: Sequence[str]) -> str:
    """Return arguments encoded for the script that begins with `_DECODE`, its name first."""
    quoted = os.fsencode(shlex.join(words))
    if len(quoted) > _MAX_ARGUMENTS:
        size = f"{len(quoted):,} bytes, at most {_MAX_ARGUMENTS:,}"
        raise UsageError(f"the arguments for the other host are too long: {size}")
    return f"gpudash {_BACKSLASH} {'.'.join(f'{byte:o}' for byte in quoted)}"


def collect_script(gpudash: str | None, *options: str) -> str:
    """Return the far end's command: gpudash with these options, else nvidia-smi and ps.

    Arguments after the command are passed on to gpudash.
    """
    return (
        f"sh -c 'echo {HELLO.decode()}; {_each_gpudash(gpudash)} "
        f"GPUDASH_CONTROLLED=far; export GPUDASH_CONTROLLED; "
        f'exec "$g" {" ".join(options)} "$@"; done; '
        f"{remote_smi.SCRIPT}' gpudash"
    )


def _each_gpudash(path: str | None) -> str:
    """Return the head of a shell loop, entered with `$g` set to each executable gpudash."""
    paths = ["gpudash", '"$HOME/.local/bin/gpudash"']
    if path is not None:
        if not _REMOTE_PATH.fullmatch(path):
            raise UsageError(
                f"invalid path of gpudash at the far end {clean(path, 60)!r}: "
                "expected one such as /opt/gpudash/bin/gpudash"
            )
        paths.insert(0, f'"$HOME/{path[2:]}"' if path.startswith("~/") else path)
    return f'for g in {" ".join(paths)}; do command -v "$g" >/dev/null 2>&1 || continue;'


def decode_line(line: bytes) -> Snapshot | None:
    """Return the snapshot in a line from the far end, None for a banner's line.

    Raises WireError for any other line.
    """
    if line.startswith(_PLAIN_START):
        return wire.decode(line)
    if line.startswith(remote_smi.START):
        return remote_smi.decode(line)
    return None


MAX_SHOWN = 240
"""Bytes that are kept of a foreign line, of which a part is shown."""


def answer_text(line: bytes) -> str:
    """Return a description of a foreign answer: `answers 'Welcome!'`."""
    return f"answers {clean_bytes(line[:MAX_SHOWN], MAX_SHOWN // 4)!r}"


def ending(status: int | None, errors: Sequence[str], *, had_answer: bool) -> Ending:
    """Return why ssh ended, from its exit status, its errors, and whether a document arrived.

    Status 255 is from ssh itself, any other from the far end.
    """
    error = errors[-1] if errors else ""
    if not had_answer:
        for state, words in _REASONS:
            for line in reversed(errors):
                if any(word in line.lower() for word in words):
                    return Ending(state, _HOST_KEY if state == "host-key" else line)
    if status == _NOT_FOUND:
        return Ending("no-gpudash", error or "neither gpudash nor nvidia-smi was found there")
    if status in NVML_REFUSED:
        return Ending("no-gpus", error.removeprefix("gpudash: ") or f"exit status {status}")
    if had_answer:
        return Ending("lost-contact", error or _describe(status))
    if status == ExitStatus.SSH or (status is not None and status < 0):
        return Ending("down", error or _describe(status))
    return Ending("garbled", error or _describe(status))


def _describe(status: int | None) -> str:
    if status is None:
        return "the connection was closed"
    if status < 0:
        return f"ssh was ended by signal {-status}"
    if status == ExitStatus.SSH:
        return "the connection was lost"
    return "the connection ended" if status == 0 else f"exit status {status}"


_HOST_KEY = "host key unknown or changed: ssh there once by hand and compare it"
_NOT_FOUND = 127
_REASONS: Sequence[tuple[HostState, Sequence[str]]] = (
    (
        "host-key",
        (
            "host key verification failed",
            "remote host identification has changed",
            "no matching host key type",
        ),
    ),
    (
        "no-access",
        (
            "pam_slurm",
            "no active jobs on this node",
            "you do not have a job",
            "access denied: user",
        ),
    ),
    (
        "auth",
        (
            "permission denied",
            "too many authentication failures",
            "no more authentication methods",
            "not allowed because",
            "account has expired",
            "account is not available",
            "password has expired",
            "password change required",
        ),
    ),
    (
        "down",
        (
            "could not resolve",
            "connection refused",
            "connection timed out",
            "operation timed out",
            "no route to host",
            "network is unreachable",
            "banner exchange",
            "kex_exchange_identification",
        ),
    ),
)
"""Messages on ssh's stderr; the first match decides."""
