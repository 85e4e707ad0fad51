"""Writes lines to a file that never ends in half of one."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from gpudash.model.errors import OutputError, UsageError

if TYPE_CHECKING:
    from gpudash.feed.recording.zstd import Compressor

SUFFIX = ".zst"

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER = 0o600
_CLOSED = -1


class Writer:
    """Writes lines to a new file, compressed if its name ends in .zst.

    Raises UsageError if the file cannot be created.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines = self.bytes = 0
        """How much was written."""
        self._compressor: Compressor | None = None
        if path.endswith(SUFFIX):
            from gpudash.feed.recording.zstd import Compressor

            self._compressor = Compressor()
        self._descriptor = _create(path)

    def write(self, line: bytes) -> None:
        """Add a line, whole or not at all; raises OutputError, after which no more are added."""
        data = line + b"\n"
        packed = data if self._compressor is None else self._compressor.compress(data)
        if not os.fstat(self._descriptor).st_nlink:
            raise OutputError(f"{self.path}: the file was removed: the recording is lost")
        self._append(packed)
        self.lines += 1

    def sync(self) -> None:
        """Flush written data to the disk; raises OutputError."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise _failed(self.path, error) from None

    def close(self) -> None:
        """Finish the file and flush it to the disk; an empty one is removed.

        Raises OutputError.
        """
        if self._descriptor == _CLOSED:
            return
        # A frame that a full disk leaves unfinished is still readable.
        with suppress(OutputError):
            self._end_frame()
        try:
            self.sync()
        finally:
            if not self.bytes:
                self._remove()
            os.close(self._descriptor)
            self._descriptor = _CLOSED

    def _remove(self) -> None:
        """Remove the file, unless another one has taken its name."""
        # An empty leftover does no harm; the error that led here must not be hidden.
        with suppress(OSError):
            if os.path.samestat(os.fstat(self._descriptor), os.lstat(self.path)):
                os.unlink(self.path)

    def _end_frame(self) -> None:
        if self._compressor is not None:
            self._append(self._compressor.end())

    def _append(self, data: bytes) -> None:
        """Write everything, or truncate the file to its former size."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            # If that fails too, as in an append-only file, half a line is left.
            with suppress(OSError):
                os.ftruncate(self._descriptor, self.bytes)
            # The open frame has data that the file lacks: its end would not fit.
            self._compressor = None
            raise _failed(self.path, error) from None
        self.bytes += len(data)


def _failed(path: str, error: OSError) -> OutputError:
    """Return the error for a file that cannot be written."""
    return OutputError(f"{path}: {error.strerror}: the recording ends here")


def _create(path: str) -> int:
    """Create a file that only its owner can read; raises UsageError if there is one."""
    try:
        return os.open(path, _NEW, _OWNER)
    except FileExistsError:
        raise UsageError(f"{path} exists: choose another name") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
