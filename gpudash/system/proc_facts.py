"""/proc/PID beside stat: owner, name, arguments and namespaces of a process, cleaned.

Every function returns None, or an empty tuple, for a process that is gone or may not be read.
"""

from __future__ import annotations

import os
import pwd
from functools import lru_cache

from gpudash.model.text import SafeText, clean, clean_bytes

_STATUS_BYTES = 65536
_COMM_BYTES = 15
_FUNCTION_BYTES = 64
_NO_LOGIN = 2**32 - 1
_ARGUMENTS = 512
_ARGUMENT_LIMIT = 4096
_COMMAND_LINE_BYTES = 32768
_DEVICE_NODES = ("/dev/nvidia", "/dev/dxg")

# The inode of the first PID namespace is a constant of the kernel, PROC_PID_INIT_INO.
_FIRST_PID_NAMESPACE = "pid:[4026531836]"


def status(pid: int) -> bytes | None:
    """Return the status file, from which `owner_id`, `name` and the others below read."""
    return read(pid, "status", _STATUS_BYTES)


def owner_id(status: bytes) -> int | None:
    """Return the real user id."""
    words = _words(status, b"Uid")
    return int(words[0]) if words else None


def namespace_pids(status: bytes) -> tuple[int, ...]:
    """Return its PID in each namespace, ours first; 1 behind others is a container's init."""
    return tuple(int(word) for word in _words(status, b"NSpid"))


def name(status: bytes, arguments: tuple[str, ...] | None) -> SafeText | None:
    """Return the name of the executable; the kernel keeps 15 bytes of it, the arguments all."""
    comm = status.removeprefix(b"Name:\t").partition(b"\n")[0]
    # The kernel escapes newlines and backslashes here.
    short = clean_bytes(comm.replace(b"\\n", b"\n").replace(b"\\\\", b"\\"))
    whole = os.path.basename(arguments[0]) if arguments else ""
    # With a blank in it, it is a title that the process gave itself, options and all.
    if len(comm) >= _COMM_BYTES and whole.startswith(short) and " " not in whole:
        return SafeText(whole)
    return short or None


def command_line(pid: int) -> tuple[SafeText, ...] | None:
    """Return the arguments, with an ellipsis where they are absurdly long."""
    raw = read(pid, "cmdline", _COMMAND_LINE_BYTES + 1) or b""
    # A title that replaced the arguments is padded with zeros.
    arguments = raw.rstrip(b"\0").split(b"\0")
    if arguments == [b""]:
        return None
    shown = tuple(clean_bytes(part, _ARGUMENT_LIMIT) for part in arguments[:_ARGUMENTS])
    cut = len(raw) > _COMMAND_LINE_BYTES or len(arguments) > _ARGUMENTS
    return (*shown, SafeText("…")) if cut else shown


@lru_cache(maxsize=1024)
def username(uid: int) -> SafeText:
    """Return the name of a user, the number itself where it has none."""
    try:
        return clean(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return SafeText(str(uid))


def holds_a_device(pid: int) -> bool | None:
    """Whether it has a node of the NVIDIA driver open; None where its files may not be seen."""
    folder = f"/proc/{pid}/fd"
    try:
        descriptors = os.listdir(folder)
    except OSError:
        return None
    return any(_link(f"{folder}/{each}").startswith(_DEVICE_NODES) for each in descriptors)


def login_id(pid: int) -> int | None:
    """Return the uid with which its session was logged in, also behind sudo; None if with none."""
    text = read(pid, "loginuid", _FUNCTION_BYTES) or b""
    return int(text) if text.isdigit() and int(text) != _NO_LOGIN else None


def waits_in(pid: int) -> SafeText | None:
    """Return the function of the kernel in which it sleeps; only root may see that of others."""
    name = read(pid, "wchan", _FUNCTION_BYTES) or b""
    return None if name in (b"", b"0") else clean_bytes(name)


def in_first_pid_namespace() -> bool:
    """Whether the PIDs of here are those of the host, as its driver tells them."""
    return _link("/proc/self/ns/pid") in ("", _FIRST_PID_NAMESPACE)


def read(pid: int, file: str, limit: int) -> bytes | None:
    """Return the beginning of a file of a process, None if it cannot be read."""
    try:
        return beginning(pid, file, limit)
    except OSError:
        return None


def beginning(pid: int, file: str, limit: int) -> bytes:
    """Return the beginning of a file of a process; raises OSError."""
    with open(f"/proc/{pid}/{file}", "rb") as opened:
        return opened.read(limit)


def _words(status: bytes, field: bytes) -> list[bytes]:
    # The name comes first and cannot hold a newline that is not escaped.
    return status.partition(b"\n" + field + b":")[2].partition(b"\n")[0].split()


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
