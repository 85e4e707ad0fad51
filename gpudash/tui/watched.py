"""The events of a watched host, earlier ones from a history, and signals sent by gpudash."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING

from gpudash.analysis.history import History
from gpudash.analysis.history.metrics import MetricStore
from gpudash.feed.timeline import Timeline
from gpudash.model.errors import WireError
from gpudash.model.snapshot import EMPTY, Snapshot
from gpudash.tui.draw.main_charts import MAX_SECONDS

if TYPE_CHECKING:
    from gpudash.feed.background import Background
    from gpudash.feed.recording.reader import Recording
    from gpudash.fleet.event_log import Log
    from gpudash.fleet.from_snapshot import SnapshotReader
    from gpudash.model.fleet import Event

_EVENTS_HOURS = 12
"""How far back a history is read for events, from the instant shown."""


class HostEvents:
    """The events between each snapshot and the next, and earlier ones from a history."""

    def __init__(self, time: Timeline[Snapshot]) -> None:
        self._time = time
        self.since: datetime | None = None
        """From when on a history was read, None if none was."""
        self.is_loading = False
        """Whether it is being read."""
        self._earlier: Sequence[Event] = ()
        self._signals = SentSignals()
        self._log: Log | None = None
        """None before the second snapshot."""
        self._reader: SnapshotReader | None = None
        self._first = self._last = EMPTY

    @property
    def all(self) -> Sequence[Event]:
        """All known events, including signals sent by gpudash in that time, the oldest first."""
        found = [*self._earlier, *(self._log.watched if self._log else ())]
        if self._first is not EMPTY:
            here, since = {self._first.host.hostname}, self.since or self._first.taken_at
            found += self._signals.of(here, since)
        return sorted(found, key=lambda each: each.at)

    def read_signals(self, changed: Callable[[], object]) -> None:
        """Read the sent signals; `changed` is called if there are new ones."""
        self._signals.ask(changed)

    def watch(self, snapshot: Snapshot) -> bool:
        """Add the events since the last snapshot; return whether this is the second snapshot."""
        before, self._last = self._last, snapshot
        # The first frame does not wait for the import.
        if before is EMPTY or before is snapshot:
            return False
        is_second = self._log is None
        if self._log is None or self._reader is None:
            from gpudash.fleet.event_log import Log
            from gpudash.fleet.from_snapshot import SnapshotReader

            self._log, self._reader = Log(), SnapshotReader(before.host.hostname, None)
            self._first = before
            self._log.watch(self._reader.alone(before), before.leases)
        self._log.watch(self._reader.alone(snapshot), snapshot.leases)
        return is_second

    def read_earlier(self, shown_at: datetime) -> None:
        """Read once, from a history, the events before the watch began."""
        first = self._first
        if first is EMPTY or not self._time.reaches_back or self.since is not None:
            return
        since = self.since = shown_at - timedelta(hours=_EVENTS_HOURS)
        self.is_loading = True

        def read(recording: Recording) -> list[Event]:
            from gpudash.fleet.events import Changes
            from gpudash.fleet.from_snapshot import SnapshotReader, recorded

            changes = Changes()
            found: list[Event] = []
            for many, leases in recorded(recording, since, first.taken_at):
                found += changes.add(many, leases)
            reader = SnapshotReader(first.host.hostname, None)
            found += changes.add(reader.alone(first), first.leases)
            return [each for each in found if each.at >= since]

        def take(found: Sequence[Event] | None) -> None:
            self.is_loading, self._earlier = False, found or ()
            if found is None:
                self.since = first.taken_at

        self._time.read_past(read, take, is_coarse=True, is_asked=False)


class EarlierCharts:
    """The part of a history before the first snapshot, as far back as charts go."""

    def __init__(self, time: Timeline[Snapshot], history: History) -> None:
        self._time, self._history = time, history
        self._found: tuple[float, MetricStore] | None = None
        """The part not charted yet, and its start."""

    def read(self) -> None:
        """Read it, to be charted with the next snapshot."""
        now, latest = self._history.now, self._history.latest.taken_at

        def read(recording: Recording) -> tuple[float, MetricStore] | None:
            began, store = None, MetricStore()
            for sample in recording.between(latest - timedelta(seconds=MAX_SECONDS), latest):
                with suppress(WireError):
                    snapshot, ago = sample.snapshot(), (latest - sample.taken_at).total_seconds()
                    store.push(now - ago, snapshot)
                    began = now - ago if began is None else began
            return None if began is None else (began, store)

        def take(found: tuple[float, MetricStore] | None) -> None:
            self._found = found

        self._time.read_past(read, take, is_coarse=True, is_asked=False)

    def chart(self) -> None:
        """Chart the part that was read, once the present is shown."""
        if self._found is not None and self._time.is_live:
            self._history.precede(*self._found)
            self._found = None


_Read = tuple[object, "Sequence[Event] | None"]


class SentSignals:
    """The signals on record, read in a thread whenever the record has changed."""

    def __init__(self) -> None:
        self._found: Sequence[Event] = ()
        self._stamp: object = None
        self._is_reading = False
        self._due: Callable[[], object] | None = None
        """The callback after another reading, None for none: it was requested during one."""

    @cached_property
    def _background(self) -> Background:
        # The first frame does not wait for the imports.
        from gpudash.feed.background import Background

        background = Background()
        background.start()
        return background

    def ask(self, changed: Callable[[], object]) -> None:
        """Read them; `changed` is called if there are new ones. On an event loop."""
        if self._is_reading:
            self._due = changed
        else:
            self._is_reading, self._due = True, None
            take = partial(self._take, changed)
            same: _Read = self._stamp, None
            self._background.submit(partial(_read, self._stamp), take, lambda _: take(same))

    def of(self, hosts: Set[str], since: datetime | None) -> list[Event]:
        """Return those sent since then on one of these hosts, the oldest first."""
        if not self._found or since is None:
            return []
        from gpudash.actions.sent import is_here

        return [each for each in self._found if each.at >= since] if is_here(hosts) else []

    def _take(self, changed: Callable[[], object], read: _Read) -> None:
        self._is_reading = False
        self._stamp, found = read
        if found is not None:
            self._found = found
            changed()
        if self._due is not None:
            self.ask(self._due)


def _read(before: object) -> _Read:
    """Return the identity of the record, and its signals, None if unchanged."""
    from gpudash.actions import sent

    stamp = sent.stamp()
    return stamp, None if stamp == before else sent.signals()
