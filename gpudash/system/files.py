"""Small files of the kernel, as in /proc and /sys, and the folders of a user's files."""

from __future__ import annotations

import os
import pwd
import stat
import threading
from collections.abc import Mapping


def read_start(path: str, limit: int) -> bytes | None:
    """Return a file's first bytes, at most `limit`; None if unreadable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = chunk = os.read(descriptor, limit)
        # The kernel returns files of many records page by page.
        while chunk and len(data) < limit:
            chunk = os.read(descriptor, limit - len(data))
            data += chunk
    except OSError:  # ESRCH: the process ended between open and read
        return None
    finally:
        os.close(descriptor)
    return data


def read_link(path: str) -> str:
    """Return the target of a link, empty if unreadable."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def replace_content(path: str, content: bytes, status: os.stat_result) -> None:
    """Atomically replace a file by a new one with the mode and group of `status`.

    A link stays, and its target is replaced. Raises OSError.
    """
    target = os.path.realpath(path)
    draft = f"{target}.{os.getpid()}.{threading.get_ident()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(draft, flags, 0o600), "wb") as file:
        try:
            if os.fstat(file.fileno()).st_gid != status.st_gid:
                os.fchown(file.fileno(), -1, status.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(draft, target)
        except OSError:
            os.unlink(draft)
            raise


ACKNOWLEDGED = "acknowledged.jsonl"
"""In the state folder: the acknowledgements of a user."""


def state_folder(environ: Mapping[str, str] = os.environ) -> str:
    """Return gpudash's folder in $XDG_STATE_HOME, by default ~/.local/state; it may not exist yet.

    platformdirs is not used: `sudo` may keep the home of another user, where root's files do not
    belong. Raises KeyError for a user without a home.
    """
    folder = environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(folder):
        home = os.path.expanduser("~")
        if not _is_own(home):
            home = pwd.getpwuid(os.geteuid()).pw_dir
        folder = os.path.join(home, ".local", "state")
    return os.path.join(folder, "gpudash")


def settings_file(environ: Mapping[str, str] = os.environ) -> str:
    """Return the settings file: $GPUDASH_CONFIG, else config.toml in gpudash's settings folder.

    platformdirs is not used: its import would delay the first picture by 20 of 150 ms.
    """
    chosen = environ.get("GPUDASH_CONFIG")
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    folder = environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(folder):
        return os.path.join(folder, "gpudash", "config.toml")
    return os.path.join(os.path.expanduser("~"), ".config", "gpudash", "config.toml")


def _is_own(folder: str) -> bool:
    try:
        return os.stat(folder).st_uid == os.geteuid()
    except OSError:
        return False
