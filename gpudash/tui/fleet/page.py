"""The base of the pages of many hosts: surrounding lines, time, the filter, other pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.screen import Screen

from gpudash.analysis.filter import Filter
from gpudash.analysis.filter.words import quoted
from gpudash.analysis.health.acknowledged import Place
from gpudash.feed.protocol import Feed
from gpudash.fleet.summary import Totals, names_of, part_of
from gpudash.fleet.where import KIND, TERMS
from gpudash.model.errors import UsageError
from gpudash.model.fleet import EMPTY, ChartRequest, FleetHost, FleetSnapshot, JobKey
from gpudash.tui.bindings import QUIT, bindings, keys_while_stopped, shown_key
from gpudash.tui.dialogs.acknowledge import ask
from gpudash.tui.dialogs.dialog import put_above
from gpudash.tui.draw import chart
from gpudash.tui.draw.line import Line
from gpudash.tui.fleet.filtering import FilteredGpus, apply
from gpudash.tui.fleet.head import (
    around_line,
    filter_line,
    fleet_line,
    header,
    since_line,
    source_lines,
)
from gpudash.tui.fleet.model import METRICS, SPANS, FleetModel
from gpudash.tui.keymap import (
    FLEET_KEYS,
    FLEET_PAGE_KEYS,
    HOST_ONLY_KEYS,
    INNER_KEYS,
    SCREEN_KEYS,
    Key,
)
from gpudash.tui.overview import Overview
from gpudash.tui.page import Filtering, page_class
from gpudash.tui.status import state_mark
from gpudash.tui.widgets.filter_prompt import FilterPrompt
from gpudash.tui.widgets.lines import Wheel

LONGER = {"fleet.zoom_out": "longer", "fleet.zoom_in": ""}
"""Labels of a page that begins with the shortest span."""

_CHART_ACTIONS = frozenset({"zoom", "metric"})
_ON_EVERY_PAGE = frozenset(key.id for key in (*SCREEN_KEYS, *FLEET_PAGE_KEYS))


class FleetPage(Filtering, Wheel):
    """A page over the snapshots of many hosts: subclasses return its lines around a cursor."""

    model: FleetModel
    feed: Feed[FleetSnapshot]
    KEYS = INNER_KEYS
    BINDINGS: ClassVar[list[Any]] = bindings((*FLEET_PAGE_KEYS, *INNER_KEYS, *HOST_ONLY_KEYS))
    subject = "cluster"
    TITLE: ClassVar[str] = ""
    """Empty if its lines have a title."""
    LABELS: ClassVar[Mapping[str, str]] = {}
    """Labels of keys in the footer that differ from the default."""
    LISTS_EVENTS: ClassVar[bool] = False
    """Whether it lists events."""

    def __init__(self, model: FleetModel) -> None:
        super().__init__(model)
        self.prompt = FilterPrompt(FilteredGpus(model))

    def compose(self) -> ComposeResult:
        """Stack the panels."""
        yield self.top
        yield self.body
        yield self.prompt
        yield self.bottom

    # What a page is

    def charts(self, cells: int, height: int) -> tuple[ChartRequest, ...]:
        """Return the charts to request for a body of this size."""
        return ()

    @property
    def heading(self) -> str:
        """The text before the sums."""
        return self.TITLE

    @property
    def totals(self) -> Totals:
        """The sums to show."""
        return self.model.totals

    def ask(self) -> None:
        """Send the collector the page's request, if that has changed."""
        model, (cells, height) = self.model, self.body.size
        if not cells:
            return
        charts: tuple[ChartRequest, ...] = ()
        if model.snapshot is not EMPTY:
            charts = self.charts(cells, self._around(cells, height)[-1])
        if model.ask(charts, wants_events=self.LISTS_EVENTS) and charts and not chart.is_loaded():
            self.run_worker(self.load_charts())

    # What the app asks of the page in front

    @property
    def listed_keys(self) -> tuple[Key, ...]:
        """The keys of all pages, preceded by those that go back from a page above the first."""
        model = self.model
        return model.keys if self.is_root else (*model.in_force(INNER_KEYS), *model.keys)

    def help(self, first: Sequence[Key]) -> Screen[Any]:
        """Return the dialog that lists all keys of many hosts."""
        from gpudash.tui.dialogs.text import HelpScreen

        keys = tuple(dict.fromkeys(self.model.in_force((*first, *FLEET_KEYS))))
        searched = "host, rack, user, job"
        return HelpScreen(self.model.theme, keys, terms=(*TERMS, KIND), searched=searched)

    def on_screen_resume(self) -> None:
        """Show what arrived while a host was in front."""
        self.model.time.catch_up()

    # Drawing

    def draw(self) -> None:
        """Draw everything; unchanged cells cost nothing to send."""
        cells, height = self.body.size
        if not cells or not self.is_current:
            return
        lines = self._framed(cells, height)
        time = self.model.time
        state = state_mark(self.feed) if time.is_live else ""
        top = header(self.model, state or time.mark, cells)
        self.show(top, lines, self.keys_in_force, self._notice)
        if self.prompt.is_open:
            self.prompt.draw()

    def _framed(self, cells: int, height: int) -> list[Line]:
        """Return the lines of the page with the sums above and failing sources below."""
        model = self.model
        if model.snapshot is EMPTY:
            return []
        above, below, room = self._around(cells, height)
        self.above = 1 + len(above)
        page = self.lines(cells, room)[:room]
        title, place = self.heading, self.position
        sums = fleet_line(self.totals, model.value_theme, cells, title=title, position=place)
        return [sums, *above, *page, *[[]] * (room - len(page)), *below]

    def _around(self, cells: int, height: int) -> tuple[Sequence[Line], Sequence[Line], int]:
        """Return the lines between the sums and the page, those below, and the room left."""
        model, theme = self.model, self.model.value_theme
        above = filter_line(model, theme, cells, self.leaves)
        above += [] if self.LISTS_EVENTS else around_line(model, theme, cells)
        above += since_line(model, theme, cells)
        below = source_lines(model, theme, cells)
        return above, below, max(0, height - 1 - len(above) - len(below))

    @property
    def leaves(self) -> Sequence[str]:
        """What remains after the filter, and of how many, the least important last."""
        sums, everything = self.model.totals, self.model.everything
        return (
            f"   {part_of(sums.gpus, everything.gpus, 'GPU')}",
            f" on {part_of(sums.hosts, everything.hosts, 'host')}",
        )

    @property
    def keys_in_force(self) -> tuple[Key, ...]:
        """The keys in force on this page, with their labels in the footer."""
        keys = self.listed_keys
        ids = _ON_EVERY_PAGE | {key.id for key in self.KEYS}
        if not self.is_root:
            ids -= {QUIT}
        return tuple(
            key._replace(label=self.LABELS.get(key.id, key.label))
            for key in (keys_while_stopped(keys) if self.model.time.is_stopped else keys)
            if key.id in ids
            and key.action != f"open_page('{self.path}')"
            and key.action.partition("(")[0] not in self._refused
            and (key.action != "retry" or self._can_retry)
            and (key.action != "acknowledge" or self.places)
        )

    @property
    def _refused(self) -> frozenset[str]:
        """Actions without effect if no source has a past."""
        return frozenset() if self.model.charts else _CHART_ACTIONS

    @property
    def _can_retry(self) -> bool:
        """Whether hosts are reached by ssh."""
        has_ssh = any(source.kind == "ssh" for source in self.model.snapshot.sources)
        return has_ssh and self.feed.collector is not None

    @property
    def _notice(self) -> str:
        """The text of the last line: the result of an action, or an error."""
        if text := self.model.status_message.text:
            return text
        if self.feed.error is not None:
            return self.feed.error
        return "asking hosts" if self.model.snapshot is EMPTY else self.model.time.message

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse actions without effect here."""
        return action not in self._refused and super().check_action(action, parameters)

    # The chart

    def action_zoom(self, step: int) -> None:
        """Chart a longer (1) or a shorter (-1) span."""
        index = SPANS.index(self.model.chart_seconds) + step
        self.model.chart_seconds = SPANS[max(0, min(index, len(SPANS) - 1))]

    def action_metric(self, step: int) -> None:
        """Chart the next or the previous metric."""
        index = METRICS.index(self.model.chart_metric) + step
        self.model.chart_metric = METRICS[index % len(METRICS)]

    # Other pages

    @property
    def path(self) -> str:
        """Its module and class, as for `open_page`."""
        return f"{type(self).__module__.rpartition('.')[2]}.{type(self).__name__}"

    def action_open_page(self, path: str) -> None:
        """Replace this page by another."""
        app = self.app
        if self.prompt.is_open:
            self.prompt.close()
        wanted = page_class(f"fleet.{path}")
        if isinstance(app.first, wanted):
            app.close_above(app.first)
        elif type(self) is not wanted:
            if not app.is_screen_installed(path):
                # Kept, since rebuilding it would delay the next key.
                app.install_screen(wanted(self.model), path)
            app.show_above_root(path)

    def action_back(self) -> None:
        """Go back to the page below, with its filter."""
        before, self.model.before_narrow = self.model.before_narrow, None
        if before is not None:
            self.model.filter_by(before)
        self.dismiss(None)

    @property
    def places(self) -> Sequence[Place]:
        """The hosts and GPUs under the cursor, empty on anything else."""
        return ()

    def action_acknowledge(self) -> None:
        """Acknowledge what is wrong with the hosts and GPUs under the cursor, or undo that."""
        if self.model.time.is_recorded:
            self.show_message("a recording shows what was acknowledged then")
        elif not self.places:
            self.show_message("only hosts, GPUs and findings can be acknowledged")
        else:
            ask(self, self.places, is_demo=self.model.is_demo)

    def action_retry(self) -> None:
        """Reconnect at once after ssh failures, even to hosts that refused the login."""
        if self._can_retry:
            self.model.retries += 1
            self.show_message("connecting again")
        else:
            self.show_message("no host is asked by ssh: there is none to connect to again")

    def action_explain_host(self) -> None:
        """Explain why a key for a host's processes or driver has no effect here."""
        model = self.model
        if model.is_demo:
            self.show_message(
                "a simulated cluster has no processes and no driver; --demo=dgx-h100 has"
            )
        elif any(map(model.may_enter, model.snapshot.hosts)):
            key = shown_key(model.keys, "fleet.enter")
            self.show_message(f"this key is for one host: {key} enters that under the cursor")
        else:
            self.show_message("this key is for one host, and none of these can be entered by ssh")

    def enter(self, host: FleetHost) -> None:
        """Show the overview of a host, or its GPUs if ssh cannot reach it.

        The overview shows the present: in the past, the host's GPUs at that time are shown.
        """
        model = self.model
        if not model.time.is_live or not model.may_enter(host):
            self.show_gpus_of(host)
            return
        try:
            feed = model.open_host(host, self.app.preferences.current.interval)
        except UsageError as error:
            self._explain(host, str(error))
            return
        feed.start()

        def closed(failure: str | None) -> None:
            if failure is not None:
                self._explain(host, f"{host.name}: {failure.removeprefix('gpudash: ')}")

        self.app.open_feed(Overview(feed, is_entered=True), closed)

    def _explain(self, host: FleetHost, message: str) -> None:
        """Show the known data of a host, and why it has no overview."""
        self.show_gpus_of(host)
        self.show_message(message)

    def show_gpus_of(self, host: FleetHost) -> None:
        """Show the known GPUs of a host."""
        put_above(self.app, page_class("fleet.tables.HostGpusPage")(self.model, host.key))

    def enter_named(self, name: str, at: datetime | None = None) -> None:
        """Show the overview of a host by name; for an instant, its GPUs if a source has a past.

        A recording stays where it is: going back would drop the events played since.
        """
        time, found = self.model.time, [r.host for r in self.model.rows if name in names_of(r.host)]
        if not found:
            return
        span = None if at is None or time.is_recorded else time.span
        if at is not None and span is not None and (span.first is None or span.first <= at):
            time.go_to(at)
            if time.asked is None and self.model.snapshot.taken_at < at:
                # Of two kept samples, the second is the first that shows it.
                time.step(1)
        self.enter(found[0])

    def narrow(
        self, term: str, value: str, page: str = "tables.GpusPage", cluster: str | None = None
    ) -> None:
        """Show only GPUs for which a term of the filter has exactly this value, until Back.

        With a cluster, only those in it.
        """
        self.model.before_narrow = self.model.before_narrow or self.model.filter
        inside = "" if cluster is None else f" cluster={quoted(cluster)}"
        apply(self.model, f"{term}={quoted(value)}{inside}")
        self.action_open_page(page)

    def open_found(self, job: JobKey) -> None:
        """Show the GPUs of a job found by the filter; Back returns without the filter."""
        self.model.before_narrow = Filter("")
        put_above(self.app, page_class("fleet.tables.JobPage")(self.model, job))
