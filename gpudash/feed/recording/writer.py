"""Writes lines to a file that never holds half of one, nor grows beyond a size."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from gpudash.feed.recording.reader import Recording
from gpudash.model.errors import OutputError, UsageError, WireError

if TYPE_CHECKING:
    from gpudash.feed.recording.zstd import Compressor

SUFFIX = ".zst"

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER = 0o600
_MAX_OVERHEAD = 256
"""Bytes of headers and ends around compressed data; zstd needs fewer."""
_CLOSED = -1


class Writer:
    """Writes lines to a new file; compressed if its name ends in .zst.

    With `max_bytes`, a file that has reached it is moved to FILE.1, that to FILE.2 and so on; of
    these `keep` are kept. Raises UsageError where a file that is not a recording is in the way.
    """

    def __init__(self, path: str, max_bytes: int | None = None, keep: int = 1) -> None:
        self.path = path
        self.lines = 0
        self.bytes = 0
        """Bytes written, in all files."""
        self._max_bytes, self._keep = max_bytes, keep
        self._size = 0
        self._compressor: Compressor | None = None
        if path.endswith(SUFFIX):
            from gpudash.feed.recording.zstd import Compressor

            self._compressor = Compressor()
        if max_bytes is not None:
            for number in range(1, keep + 1):
                _has_recording(f"{path}.{number}")
            if _has_recording(path):
                _shift(path, keep)
        self._descriptor = _create(path)

    def write(self, line: bytes) -> None:
        """Add a line, whole or not at all; raises OutputError, after which nothing is added."""
        data = line + b"\n"
        if self._size and not self._has_room(data):
            self._begin_next()
        packed = data if self._compressor is None else self._compressor.compress(data)
        if not os.fstat(self._descriptor).st_nlink:
            raise OutputError(f"{self.path}: the file was removed: the recording is lost")
        self._append(packed)
        self.lines += 1

    def sync(self) -> None:
        """Have on the disk what was written; raises OutputError."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise _failed(self.path, error) from None

    def close(self) -> None:
        """Finish the file, which is on the disk then; one without a line goes.

        Raises OutputError.
        """
        if self._descriptor == _CLOSED:
            return
        # A frame that the full disk has no room to end is read all the same.
        with suppress(OutputError):
            self._end_frame()
        try:
            self.sync()
        finally:
            if not self._size:
                self._remove()
            os.close(self._descriptor)
            self._descriptor = _CLOSED

    def _remove(self) -> None:
        """Remove the file, unless another one has its name by now."""
        # An empty file that stays does no harm; the error that led here must not be hidden.
        with suppress(OSError):
            if os.path.samestat(os.fstat(self._descriptor), os.lstat(self.path)):
                os.unlink(self.path)

    def _has_room(self, data: bytes) -> bool:
        """Whether the file may take it; near the limit it is compressed on trial."""
        if self._max_bytes is None:
            return True
        room = self._max_bytes - self._size
        if self._compressor is None:
            return len(data) <= room
        room -= _MAX_OVERHEAD
        if len(data) + (len(data) >> 8) <= room:
            return True
        from gpudash.system.zstd import pack

        # Behind lines that are like it, it does not become larger than alone.
        return len(pack(data)) <= room

    def _end_frame(self) -> None:
        if self._compressor is not None:
            self._append(self._compressor.end())

    def _append(self, data: bytes) -> None:
        """Write all of it, or truncate the file to what it was."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            # Where that fails too, as in a file that may only grow, half a line is left.
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            # The open frame has data that the file has not: its end would not fit.
            self._compressor = None
            raise _failed(self.path, error) from None
        self._size += len(data)
        self.bytes += len(data)

    def _begin_next(self) -> None:
        self._end_frame()
        self.sync()
        os.close(self._descriptor)
        self._descriptor = _CLOSED
        _shift(self.path, self._keep)
        try:
            self._descriptor, self._size = os.open(self.path, _NEW, _OWNER), 0
        except OSError as error:
            raise _failed(self.path, error) from None


def _failed(path: str, error: OSError) -> OutputError:
    """Return the error for a file that cannot be written."""
    return OutputError(f"{path}: {error.strerror}: the recording ends here")


def _create(path: str) -> int:
    """Create a file that only its owner can read; raises UsageError if there is one."""
    try:
        return os.open(path, _NEW, _OWNER)
    except FileExistsError:
        raise UsageError(f"{path} exists: choose another name; --max-size moves it away") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def _has_recording(path: str) -> bool:
    """Whether there is a recording; raises UsageError for any other file."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{path} is not a regular file: choose another name")
    if found.st_size:
        try:
            Recording(path)
        except WireError:
            raise UsageError(f"{path} is not a recording: choose another name") from None
    return True


def _shift(path: str, keep: int) -> None:
    """Move FILE to FILE.1, that to FILE.2 and so on; the last one goes. Raises OutputError."""
    try:
        for number in range(keep - 1, 0, -1):
            if os.path.lexists(f"{path}.{number}"):
                os.replace(f"{path}.{number}", f"{path}.{number + 1}")
        os.replace(path, f"{path}.1")
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise _failed(path, error) from None
