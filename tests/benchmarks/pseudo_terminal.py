"""A program in a terminal whose output is counted and thrown away: cheap for hours."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence

_CHUNK = 1 << 16
_KEPT = 2000


class PseudoTerminal:
    """Starts a program in a terminal of its own; `close` ends it."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], size: tuple[int, int]) -> None:
        self.received = 0
        """Bytes that it has written."""
        self.last = b""
        """The last of them."""
        self.pid, self._master = pty.fork()
        if not self.pid:
            columns, rows = size
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execvpe(argv[0], argv, {**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"})

    def drain(self, until: float) -> bool:
        """Read until a moment of the monotonic clock; False when the program has ended."""
        while (left := until - time.monotonic()) > 0:
            if not select.select([self._master], [], [], left)[0]:
                break
            try:
                data = os.read(self._master, _CHUNK)
            except OSError:  # EIO: the last process closed its side
                return False
            self.received += len(data)
            self.last = (self.last + data)[-_KEPT:]
        return True

    def send(self, keys: bytes) -> None:
        """Type."""
        os.write(self._master, keys)

    def close(self) -> None:
        """Hang up, which ends the program, and reap it."""
        os.kill(self.pid, signal.SIGHUP)
        deadline = time.monotonic() + 3
        while not os.waitpid(self.pid, os.WNOHANG)[0]:
            if not self.drain(time.monotonic() + 0.05) or time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                break
        os.close(self._master)
