"""The page of what happened on many hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from rich.segment import Segment

from gpudash.fleet.columns import EVENT_COLUMNS
from gpudash.fleet.event_log import MAX_KEPT
from gpudash.fleet.summary import brief, label_of, part_of
from gpudash.model.fleet import Event, FleetHost
from gpudash.model.state import UNUSABLE
from gpudash.model.text import cut, width
from gpudash.model.units import counted
from gpudash.tui.bindings import bindings, shown_key
from gpudash.tui.draw.grid import MARGIN
from gpudash.tui.draw.line import Line
from gpudash.tui.fleet.head import local_time
from gpudash.tui.fleet.model import FleetModel
from gpudash.tui.fleet.tables import TablePage
from gpudash.tui.keymap import EVENTS_KEYS, TABLE_KEYS
from gpudash.tui.listing import Ranking
from gpudash.tui.theme import Theme

_AROUND = 9
"""Cells around a heading, the mark of sums that are left out behind it, and the rows in view."""
_MAX_NAMED = 9
"""Of what has not come back; of more it is said how many they are."""


class EventsPage(TablePage[Event]):
    """What happened in the last day or week, the newest first."""

    KEYS = (*TABLE_KEYS, *EVENTS_KEYS)
    BINDINGS: ClassVar[list[Any]] = bindings(EVENTS_KEYS)
    COLUMNS = EVENT_COLUMNS
    ROLES: ClassVar[Mapping[str, str]] = {"time": "dim", "host": "base", "user": "owner"}
    EMPTY = "no event is known"
    LISTS_EVENTS = True

    def __init__(self, model: FleetModel) -> None:
        super().__init__(model)
        self._summed: Sequence[Event] = ()
        """The events that what was lost is summed up of."""
        self._lost, self._broken = losses((), ())
        self._then: datetime | None = None
        """The instant in the past that was shown last, None for the present."""
        self._put: Event | None = None
        """Where the cursor was put for it."""

    @property
    def ranking(self) -> Ranking[Event]:
        """The events in their order."""
        return self.model.ranked_events()

    def on_screen_resume(self) -> None:
        """Have the collector asked for them."""
        self.model.wants_events = True

    def on_screen_suspend(self) -> None:
        """Ask for no more of them."""
        self.model.wants_events = False

    @property
    def heading(self) -> str:
        """Of how long, what of it is broken now, and what was lost meanwhile."""
        model, rows = self.model, self.ranking.rows
        room = self.body.size.width - width(self.position) - _AROUND
        text = "Events"
        if self.feed.collector is not None:
            text += f" of {model.happened.span}"
        if not model.lists_jobs:
            text += f", {shown_key(model.keys, 'fleet.event_jobs')} adds jobs"
        if rows is not self._summed:
            self._summed, hosts = rows, model.history.latest.hosts
            self._lost, self._broken = losses(rows, hosts)
        lost = f"; {', '.join(self._lost)}" if self._lost else ""
        texts = [
            f"{text}; broken now: {brief(self._broken, limit)}{lost}"
            for limit in range(min(len(self._broken), _MAX_NAMED), 0, -1)
        ] or [text + lost]
        whole = (each for each in texts if width(each) <= room)
        return next(whole, cut(texts[-1], room, mark=model.theme.glyphs.ellipsis))

    def lines(self, theme: Theme, cells: int, height: int) -> list[Line]:
        """Return the table, below it since when jobs are known where older ones were too many."""
        self._follow_time(height)
        self.model.read_signals(self.draw)
        since = self.model.happened.jobs_since if self.model.lists_jobs else None
        if since is None:
            return super().lines(theme, cells, height)
        table = super().lines(theme, cells, height - 1)
        text = (
            f"jobs before {since.astimezone():%m-%d %H:%M} left out: more than {MAX_KEPT:,} events"
        )
        return [*table, [Segment(" " * MARGIN + text, theme.dim)]]

    def _follow_time(self, height: int) -> None:
        """Put the cursor on the last event before an instant in the past, amid others, or back.

        One that was chosen stays.
        """
        ranking, time = self.ranking, self.model.time
        then = self.model.snapshot.taken_at if time.is_past else None
        if not ranking.rows or then == self._then:
            return
        self._then = then
        if then is None:
            if ranking.selected == self._put:
                ranking.move(-len(ranking.rows))
        elif ranking.sort_key == "time" and ranking.descending:
            later = sum(each.at > then for each in ranking.rows)
            instants = [each.at for each in ranking.rows]
            # Of several at one instant the one that was chosen stays so.
            if instants[ranking.cursor] not in instants[later : later + 1]:
                ranking.move_to(later)
                ranking.top = ranking.cursor - height // 2
                self._put = ranking.selected

    @property
    def rule(self) -> tuple[int, str] | None:
        """Where the instant in the past that is shown lies among the events."""
        time, ranking, at = self.model.time, self.ranking, self.model.snapshot.taken_at
        if time.is_recorded or not time.is_past or ranking.sort_key != "time":
            return None
        later = sum(each.at > at for each in ranking.rows)
        index = later if ranking.descending else len(ranking.rows) - later
        return index, local_time(at, dated=True)

    @property
    def leaves(self) -> Sequence[str]:
        """How many events pass the filter."""
        return (f"   {part_of(len(self.ranking.rows), len(self.model.known_events), "event")}",)

    @property
    def _refused(self) -> frozenset[str]:
        """What has no effect: a recording has the events that were played."""
        refused = super()._refused
        return refused if self.feed.collector is None else refused - {"zoom"}

    def action_jobs(self) -> None:
        """List the jobs that began and ended, too, or no more."""
        self._put_again()
        self.model.toggle_jobs()

    def action_zoom(self, step: int) -> None:
        """List what happened in a longer (1) or a shorter (-1) time."""
        self._put_again()
        self.model.zoom_events(step)

    def _put_again(self) -> None:
        """Look again where the cursor belongs, unless it was moved: other events may be nearer."""
        if self.ranking.selected == self._put:
            self._then = None

    @property
    def empty_text(self) -> str:
        """Why there are no rows."""
        if self.model.time.reaches_back and not self.model.happened.has_some:
            return "asking what happened"
        return super().empty_text

    def action_enter(self) -> None:
        """Go to the time of the event under the cursor on its host, or show the GPUs of its job."""
        event = self.ranking.selected
        if event is None:
            return
        if event.host is not None:
            self.enter_named(event.host, event.at)
        elif event.job is not None:
            self.narrow("job", event.job)


def losses(
    events: Iterable[Event], hosts: Iterable[FleetHost]
) -> tuple[Sequence[str], tuple[str, ...]]:
    """Return what was lost in a few words each, and what of it has not come back, hosts first.

    So are, last, GPUs with an XID error that `hosts`, as they are now, show to be unusable.
    """
    lost: dict[tuple[str | None, str | None, str | None], bool] = {}
    xids = []
    for each in sorted(events, key=lambda event: event.at):
        key = each.cluster, each.host, each.gpu
        if each.kind in ("host-down", "gpu-lost"):
            lost[key] = True
        elif each.kind in ("host-up", "gpu-returned") and key in lost:
            lost[key] = False
        elif each.kind == "xid":
            xids.append(key)
    gpus = sum(gpu is not None for _, _, gpu in lost)
    down = len(lost) - gpus
    words = (
        f"{counted(down, 'host')} down" if down else "",
        f"{counted(gpus, 'GPU')} lost" if gpus else "",
        f"{len(xids):,} XID" if xids else "",
    )
    struck = {key[:2] for key in xids}
    unusable = {
        (*host.key, label_of(host, device))
        for host in hosts
        if host.key in struck
        for device in host.devices
        if device.status == UNUSABLE.id
    }
    still = [key for key, is_lost in lost.items() if is_lost]
    still.sort(key=lambda key: key[2] is not None)
    still += [key for key in dict.fromkeys(xids) if key in unusable and not lost.get(key)]
    names = (f"{host}" if gpu is None else f"{host}:{gpu}" for _, host, gpu in still)
    return [*filter(None, words)], tuple(names)
