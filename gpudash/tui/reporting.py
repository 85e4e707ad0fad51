"""Reports on the screen, made by another gpudash so that no key has to wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_args

from rich.segment import Segment

from gpudash.analysis.columns.report import REPORT_COLUMNS, seen_text
from gpudash.analysis.minutes import Minutes
from gpudash.analysis.report import Price, ReportSums
from gpudash.feed.background import Background
from gpudash.feed.supervisor import Output
from gpudash.model import report
from gpudash.model.errors import WireError
from gpudash.model.report import Grouping, Report, ReportRow
from gpudash.model.text import width
from gpudash.model.units import counted
from gpudash.tui.draw.grid import MARGIN, Grid
from gpudash.tui.draw.line import Line, cells_of, joined
from gpudash.tui.page import Page
from gpudash.tui.theme import Theme

if TYPE_CHECKING:
    from gpudash.analysis.history import History
    from gpudash.feed.timeline import Timeline


ReportCommand = tuple[Sequence[str], Mapping[str, str]]
"""The command that prints a report, without its options, and its environment variables."""

_SPANS = (("today", "00:00"), ("7 days", "7d"), ("30 days", "30d"))
_LIMIT_SECONDS = 300.0
_BAR = 6
_MEASURED = 400
"""Rows used to size columns; others may widen them later."""
_Chosen = tuple[int, int, datetime | None]
"""The indices of a span and of a kind of rows, and the end of the span: None for now."""
_Made = tuple[Report | None, str]
"""A report, and a message about it."""
_ROLES = {"user": "owner", "job": "dim", "model": "dim", "host": "base"}


class ReportPane:
    """The report of a page, over one of several spans, by one of several kinds of rows."""

    def __init__(
        self,
        command: ReportCommand | None,
        watched: History | None,
        time: Timeline[Any],
        taken_at: Callable[[], datetime],
        changed: Callable[[], None],
    ) -> None:
        """If the command has no report, make one from the `watched` history, if there is one.

        It ends at the past instant of `time`, in a sample `taken_at`, or when it is made. `changed`
        is called when there is a new one.
        """
        self.first = 0
        """Index of the first row in view."""
        self.price: Price = lambda _name: None
        """Of a GPU hour, for a report of what was watched."""
        self._command, self._watched, self._changed = command, watched, changed
        self._time, self._taken_at = time, taken_at
        self._until = self._end
        self._span = self._by = 0
        # Without a watched host, there are several hosts.
        self._kinds: Sequence[Grouping] = get_args(Grouping)[: 3 if watched else 4]
        self._found: dict[_Chosen, _Made] = {}
        self._wanted: _Chosen | None = None
        """The report that is shown or awaited, None once the page is closed."""
        self._background = Background()
        self._grids: dict[Grouping, Grid[ReportRow]] = {
            by: Grid(columns, _ROLES, bar=_BAR) for by, columns in REPORT_COLUMNS.items()
        }
        self.count = self.room = 0
        """The number of rows, and how many are in view."""

    # What is asked

    def ask(self) -> None:
        """Make the report to show, unless it exists; on an event loop."""
        self._wanted = chosen = self._chosen
        self._background.interrupt()
        if chosen not in self._found:
            self._background.start()
            self._background.submit(
                partial(self._made, chosen),
                partial(self._take, chosen),
                lambda error: self._take(chosen, (None, error)),
            )
        self._changed()

    def follow_time(self) -> None:
        """Make another one if another instant is shown or requested."""
        if (self._time.is_recorded and self._time.is_live) or self._until == self._end:
            # Each sample that is played would need a new one.
            return
        self._until, self._found = self._end, {}
        self.ask()

    @property
    def _end(self) -> datetime | None:
        time = self._time
        is_now = time.is_live and not time.is_recorded
        return None if is_now else time.asked or self._taken_at()

    @property
    def _chosen(self) -> _Chosen:
        return self._span, self._by, self._until

    def zoom(self, step: int) -> None:
        """Report a longer (1) or a shorter (-1) span."""
        self._span, self.first = max(0, min(self._span + step, len(_SPANS) - 1)), 0
        self.ask()

    def turn(self) -> None:
        """Report by the next kind of rows."""
        self._by, self.first = (self._by + 1) % len(self._kinds), 0
        self.ask()

    def scroll(self, rows: int) -> None:
        """Scroll the rows."""
        self.first = max(0, min(self.first + rows, self.count - self.room))

    def close(self) -> None:
        """Ignore further reports."""
        self._wanted = None
        self._background.stop()

    def _take(self, chosen: _Chosen, made: _Made) -> None:
        self._found[chosen] = made
        self._changed()

    @staticmethod
    def _since(span: int, until: datetime | None) -> str:
        """Return the start of a report: midnight means the last one before its end."""
        since = _SPANS[span][1]
        return since if span or until is None else f"{until.astimezone():%F}T{since}"

    def _made(self, chosen: _Chosen) -> _Made:
        """Make and return a report, waiting for it while it is wanted."""
        span, kind, until = chosen
        since, by, problem = self._since(span, until), self._kinds[kind], ""
        if self._command is not None:
            words, environ = self._command
            argv = [*words, "--since", since, "--by", by]
            if until is not None:
                argv += ["--at", until.astimezone(timezone.utc).isoformat()]
            output = Output(argv, _LIMIT_SECONDS, environ=environ)
            output.run(lambda: self._wanted == chosen)
            if self._wanted != chosen:
                return None, ""
            try:
                return report.decode(b"\n".join(output.lines)), ""
            except WireError:
                problem = (output.failure or "no report").removeprefix("gpudash: ")
                problem = problem.removeprefix("no history of this host: ")
        if self._watched is None:
            return None, problem or "only with --prometheus, --host or --demo"
        why = f": {problem}" if problem else ""
        return _of_watched(self._watched, until, by, self.price), f"as watched here{why}"

    # How it is drawn

    def lines(self, theme: Theme, cells: int, height: int) -> list[Line]:
        """Return the title, the headings and the rows in view, in at most `height` lines."""
        found, note = self._found.get(self._chosen, (None, "adding up"))
        by = self._kinds[self._by]
        is_past_day = self._until is not None and not self._span
        title = f"Report by {by}, {'that day' if is_past_day else _SPANS[self._span][0]}"
        span = ""
        if found is not None:
            # It was made at one time, and grows old.
            span = f"{seen_text(found)}, until {found.until.astimezone():%m-%d %H:%M}"
            failed = [each for each in found.hosts if each.message is not None]
            if failed:
                note = f"{counted(len(failed), 'host')} without: {failed[0].message}"
            noted = [each for each in found.hosts if each.note is not None]
            if noted and not note:
                name = f"{noted[0].name}: " if len(found.hosts) > 1 else ""
                note = f"{name}{noted[0].note}"
        heads: list[list[Segment]] = [[Segment(" " * MARGIN + title, theme.title)]]
        for text, style in ((span, theme.base), (note, theme.dim)):
            if not text:
                continue
            if cells_of(heads[-1]) + width(text) + 2 <= cells:
                heads[-1].append(Segment(f"  {text}", style))
            else:
                heads.append([Segment(" " * MARGIN + text, style)])
        rows = () if found is None else found.rows
        self.count, self.room = len(rows), max(0, height - 1 - len(heads))
        self.scroll(0)
        if not rows:
            text = "" if found is None else "no GPU was held in that time"
            return [*heads, [], [Segment(" " * MARGIN + text, theme.dim)]]
        grid = self._grids[by]
        seen = rows[self.first : self.first + self.room]
        measured = [*rows[:_MEASURED], *seen]
        drawn = grid.rows(measured, rows, cells, seen, lambda row: joined(grid.draw(row, theme)))
        return [*heads, grid.heading(theme), *drawn]


class Reporting(Page):
    """The common part of pages that show a report, mixed into both kinds of page."""

    _report: ReportPane

    def on_mount(self) -> None:
        """Make the report."""
        self._report.ask()

    def on_unmount(self) -> None:
        """Wait for none any more."""
        self._report.close()

    def ask(self) -> None:
        """Make the report up to the instant shown."""
        self._report.follow_time()
        super().ask()

    def move(self, rows: int) -> None:
        """Scroll the rows."""
        self._report.scroll(rows)

    def action_page(self, pages: int) -> None:
        """Scroll by a page, except for a row that stays."""
        self.move(pages * max(1, self._report.room - 1))

    def action_zoom(self, step: int) -> None:
        """Report a longer (1) or a shorter (-1) span."""
        self._report.zoom(step)

    def action_group_by(self) -> None:
        """Report by the next kind of rows."""
        self._report.turn()


def _of_watched(history: History, end: datetime | None, by: Grouping, price: Price) -> Report:
    """Return a report of the kept samples up to `end`, as far apart as they are."""
    sums, moments = ReportSums(by), history.moments
    steps = sorted(b - a for a, b in pairwise(moments))
    minutes = Minutes(steps[len(steps) // 2] if steps else 0.0)
    now = since = until = datetime.now(timezone.utc)
    for number, moment in enumerate(moments):
        snapshot = history.at(moment)
        if end is not None and snapshot.taken_at > end:
            break
        until = snapshot.taken_at
        since = since if number else until
        minute = minutes.add(snapshot)
        if minute is not None:
            sums.add(minute)
    if (last := minutes.end()) is not None:
        sums.add(last)
    return sums.report(now, since, until, price)
