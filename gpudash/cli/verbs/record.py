"""`gpudash record`: what the collector says into a file, until it is enough."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from gpudash.cli.verbs.switch import Switch
from gpudash.feed.recording.writer import Writer
from gpudash.feed.sampler import LineStream
from gpudash.model.errors import ExitStatus
from gpudash.model.units import duration, short_size
from gpudash.system import terminal

_LOOK_SECONDS = 1.0


def run(
    collector: Sequence[str],
    path: str,
    *,
    interval: float,
    duration_seconds: float | None,
    max_bytes: int | None,
    keep: int,
) -> int:
    """Record until the time is over, or a signal, whose status it then has.

    SIGUSR1 makes it let go of the GPUs until the next one. Raises UsageError where a file is in
    the way, OutputError when it cannot be written, and the collector's own error where there
    never was a sample.
    """
    switch = Switch(signal.SIGUSR1)
    end = _End()
    deadline = None if duration_seconds is None else time.monotonic() + duration_seconds
    writer = Writer(path, max_bytes, keep)
    told = _Progress(writer)
    try:
        with closing(writer), closing(LineStream(collector, interval)) as stream:
            while end.status is None:
                left = _LOOK_SECONDS if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    break
                stream.wait(min(left, _LOOK_SECONDS), switch.descriptor)
                switch.read()
                if switch.is_on is not stream.is_released:
                    stream.toggle_release()
                for line in stream.take():
                    writer.write(line)
                told.tell(stream.trouble)
    finally:
        told.end()
    return ExitStatus.OK if end.status is None else end.status


class _End:
    """The signals that end a recording in order."""

    def __init__(self) -> None:
        self.status: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._note)

    def _note(self, number: int, _frame: object) -> None:
        self.status = 128 + number


class _Progress:
    """A line on a terminal that says how far it is; elsewhere only what is wrong, when it is."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._since = time.monotonic()
        self._on_terminal = terminal.progress_is_shown()
        self._trouble = ""

    def tell(self, trouble: str) -> None:
        """Show how much there is, and why there is no more."""
        if self._on_terminal:
            what = f"; {trouble}" if trouble else "; Ctrl-C ends it"
            text = f"{self._done('recording')}, {duration(time.monotonic() - self._since)}{what}"
            terminal.show(text)
        elif bool(trouble) != bool(self._trouble):
            terminal.show_progress(
                f"gpudash: {trouble or 'samples again: the recording goes on'}\n"
            )
        self._trouble = trouble

    def end(self) -> None:
        """Say what was recorded."""
        if self._on_terminal:
            terminal.end(f"{self._done('recorded')}\n")

    def _done(self, verb: str) -> str:
        count, size = self._writer.lines, short_size(self._writer.bytes)
        name = Path(self._writer.path).name
        return f"gpudash: {verb} {name}: {count} sample{'s' * (count != 1)}, {size}"
