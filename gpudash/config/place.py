"""Where the settings are, and how their file is read and replaced."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress

from gpudash.model.errors import SettingsError
from gpudash.model.text import clean

_NAME = "config.toml"
_LIMIT = 1 << 18


def path(environ: Mapping[str, str] = os.environ) -> str:
    """Return the file: $GPUDASH_CONFIG, or gpudash/config.toml in the folder for settings."""
    chosen = environ.get("GPUDASH_CONFIG")
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    folder = environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(folder):
        return os.path.join(folder, "gpudash", _NAME)
    if sys.platform == "linux":
        # What platformdirs would answer, without the time that its import takes.
        return os.path.join(os.path.expanduser("~"), ".config", "gpudash", _NAME)
    from platformdirs import user_config_dir

    return os.path.join(user_config_dir("gpudash", appauthor=False), _NAME)


def read(path: str) -> str | None:
    """Return the text of the file, None if there is none.

    Raises OSError if it may not be read, ValueError if it is no text or no file of settings.
    """
    try:
        # A pipe would block for ever otherwise.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("no regular file")
    with open(descriptor, "rb") as file:
        raw = file.read(_LIMIT + 1)
    if len(raw) > _LIMIT:
        raise ValueError(f"larger than {_LIMIT >> 10} KiB")
    return raw.decode()


class FileChangedError(Exception):
    """Somebody else wrote the file since it was read; it was left as it is."""


def replace(path: str, text: str, *, was: str | None) -> None:
    """Replace the file by a new one, all at once and for its owner's eyes only.

    A symbolic link stays and the file that it points to is replaced, unless the link, the file or
    its folder is somebody else's. Raises OSError, SettingsError for what belongs to others, and
    FileChangedError if the file no longer says what it said when it was read, None for no file.
    """
    if os.path.islink(path):
        _require_own(os.lstat(path), path)
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    _make(folder)
    # From here on the folder is held open, so that nobody can put another in its place.
    within = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _require_own(os.fstat(within), folder)
        with suppress(FileNotFoundError):
            _require_own(os.stat(name, dir_fd=within, follow_symlinks=False), target)
        _write(name, text.encode(), within, None if was is None else was.encode())
    finally:
        os.close(within)


def _make(folder: str) -> None:
    """Create a folder that is missing, but none in the home of another: `sudo` may keep $HOME."""
    above = folder
    while not os.path.exists(above):
        above = os.path.dirname(above)
    status = os.stat(above)
    if above != folder and status.st_uid != 0:
        _require_own(status, above)
    os.makedirs(folder, mode=0o700, exist_ok=True)


def _require_own(status: os.stat_result, path: str) -> None:
    if status.st_uid != os.geteuid():
        raise SettingsError(f"{clean(path)} belongs to another user (uid {status.st_uid})")


def _write(name: str, content: bytes, within: int, was: bytes | None) -> None:
    draft = f".{name}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    _remove(draft, within)
    descriptor = os.open(draft, flags, 0o600, dir_fd=within)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        if _content(name, within) != was:
            raise FileChangedError
        os.replace(draft, name, src_dir_fd=within, dst_dir_fd=within)
    except BaseException:
        _remove(draft, within)
        raise


def _content(name: str, within: int) -> bytes | None:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=within)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        return file.read(_LIMIT + 1)


def _remove(name: str, within: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=within)
