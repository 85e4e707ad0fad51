"""The live screen of many hosts: one picture of several pages, and what its keys do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.events import Click, Resize
from textual.message import Message
from textual.screen import Screen

from gpudash.feed.protocol import FeedState
from gpudash.fleet.summary import GpuRow, names_of
from gpudash.fleet.where import TERMS
from gpudash.model.errors import ExitStatus
from gpudash.model.fleet import FleetHost, FleetSnapshot, encode_request
from gpudash.model.units import counted
from gpudash.model.wire import Received
from gpudash.tui.actions import choices, screenshot, views
from gpudash.tui.base import TICK_SECONDS, WHILE_TYPING, BaseApp
from gpudash.tui.bindings import bindings, keys_while_stopped, remap
from gpudash.tui.dialogs.choose import Choice, ChooseScreen
from gpudash.tui.draw import chart
from gpudash.tui.draw.header import footer
from gpudash.tui.fleet.cluster import ClusterPage
from gpudash.tui.fleet.filtering import FilteredGpus, SoughtMoment, narrow
from gpudash.tui.fleet.head import filter_line, fleet_line, header, source_lines
from gpudash.tui.fleet.model import FleetFeed, FleetModel
from gpudash.tui.fleet.paint import PAINTINGS
from gpudash.tui.fleet.tables import FindingsPage, TablePage, table_pages
from gpudash.tui.fleet.timeline import EMPTY
from gpudash.tui.keymap import FLEET_KEYS
from gpudash.tui.preferences import Preferences
from gpudash.tui.status import is_stopped, pace_text, state_marks
from gpudash.tui.theme import faded
from gpudash.tui.views.view import put_above
from gpudash.tui.widgets.edit import Edit
from gpudash.tui.widgets.filter_prompt import FilterPrompt
from gpudash.tui.widgets.lines import Footer, Lines, Wheel

if TYPE_CHECKING:
    from textual.driver import Driver

_MAX_NAMED = 40
"""Hosts that a filter names."""
_OF_MAP = frozenset({"paint", "aside"})
_OF_CHART = frozenset({"zoom", "metric"})
_OF_TABLES = frozenset({"choose_sort", "sort", "reverse"})
_OF_SSH = frozenset({"retry"})


class Body(Wheel, Lines):
    """The page that is shown; clicks and the wheel are the app's."""

    class Clicked(Message):
        """A cell of the page was clicked."""

        def __init__(self, x: int, y: int) -> None:
            super().__init__()
            self.x, self.y = x, y

    class Turned(Message):
        """The wheel was turned."""

        def __init__(self, lines: int) -> None:
            super().__init__()
            self.lines = lines

    def on_click(self, event: Click) -> None:
        """Pass a click on."""
        event.stop()
        self.post_message(self.Clicked(event.x, event.y))

    def turned(self, lines: int) -> None:
        """Pass the wheel on."""
        self.post_message(self.Turned(lines))


class FleetScreen(Screen[None], inherit_bindings=False):
    """The main screen, on which only the keys of the one table work."""


class FleetApp(BaseApp):
    """Shows the snapshots of many hosts until its user leaves, or enters a host."""

    CSS = (
        Edit.CSS
        + """
    Screen { layout: vertical; overflow: hidden; }
    #body { height: 1fr; }
    Footer.-covered { display: none; }
    """
    )
    BINDINGS: ClassVar[list[Any]] = bindings(FLEET_KEYS)

    def __init__(
        self,
        feed: FleetFeed,
        model: FleetModel,
        *,
        driver_class: type[Driver] | None = None,
        no_color: bool = False,
        preferences: Preferences | None = None,
    ) -> None:
        super().__init__(driver_class=driver_class, no_color=no_color, preferences=preferences)
        self.feed = feed
        self.dashboard: FleetModel = model
        self.entered: FleetHost | None = None
        """The host whose local screen is to be shown next; None to leave."""
        model.theme = self.load_theme()
        self.preferences.put_in_force(model, FLEET_KEYS, recorded=feed.player is not None)
        self._cluster, self._findings, self._tables = ClusterPage(), FindingsPage(), table_pages()
        self._header, self._body = Lines(id="header"), Body(id="body")
        self._footer = Footer(id="footer")
        self.prompt = FilterPrompt(FilteredGpus(model))
        self.moment_prompt = FilterPrompt(SoughtMoment(model), sign=" @ ", id="moment")
        self._body_top = 0
        """Lines of the body above the page."""
        self._footer_lines = 1
        remap(self, self.preferences.current.keys)
        self.apply_textual_theme()

    # Start and end

    def get_default_screen(self) -> FleetScreen:
        """Return the main screen."""
        return FleetScreen(id="_default")

    def compose(self) -> ComposeResult:
        """Stack the panels."""
        yield self._header
        yield self._body
        yield self.prompt
        yield self.moment_prompt
        yield self._footer

    def on_mount(self) -> None:
        """Start to listen to the feed and to the signals that end a program."""
        self.obey_signals()
        self.dashboard.player = self.feed.player
        self._ticks = self.set_interval(TICK_SECONDS, self._tick, pause=True)
        if self.feed.latest is not None and self.feed.latest is not self.dashboard.time.latest:
            self.dashboard.receive(self.feed.latest, self.feed.latest_line)
        self.feed.attach(asyncio.get_running_loop(), self._receive, self._tick)

    def pictured(self) -> tuple[str, datetime]:
        """Return that it is a cluster, and when it was so."""
        return "cluster", self.dashboard.snapshot.taken_at

    def on_unmount(self) -> None:
        """Let the collector go, unless a host is entered, from which the user comes back."""
        if self.entered is None:
            self.feed.stop()

    # The feed

    def _receive(self, received: Sequence[Received[FleetSnapshot]], _after_jump: bool) -> None:
        """Take what the feed brings; while time stands still only its charts are shown."""
        for each in received:
            if self.dashboard.receive(each.snapshot, each.line):
                self.outdated = True

    def _tick(self) -> None:
        """Keep ages true while no snapshot does, and leave if there will never be one."""
        feed = self.feed
        if feed.latest is None and (feed.exit_status or 0) > 0:
            self.failure = feed.error
            self.leave_with(feed.exit_status or ExitStatus.FAILURE)
        else:
            self.outdated = True

    def _ask(self) -> None:
        """Send the collector what the screen needs, if that has changed."""
        request, collector = self.dashboard.request, self.feed.collector
        if collector is not None and request != self.dashboard.asked_last:
            self.dashboard.asked_last = request
            collector.ask(encode_request(request))
            if request.charts and not chart.is_loaded():
                self.run_worker(self._load_charts())

    async def _load_charts(self) -> None:
        """Load what draws charts without keeping a key waiting."""
        await asyncio.to_thread(chart.load)
        self.outdated = True

    # Drawing

    def on_resize(self, _event: Resize) -> None:
        """Draw for the new size."""
        self.call_after_refresh(self.redraw)

    def redraw(self) -> None:
        """Draw everything; what is the same as before costs nothing to send."""
        if not self.is_running:
            return
        self._ticks.pause() if self.feed.state is FeedState.LIVE else self._ticks.resume()
        if self.held_back():
            self.outdated = True
            return
        self.outdated = False
        cells, height = self._body.size
        if not cells:
            return
        model, theme = self.dashboard, self.dashboard.theme
        lines = self._page_lines(cells, height)
        self._ask()
        keys = self._keys_here()
        notice = self._notice()
        bottom = footer(keys, notice, theme, cells)
        if len(bottom) != self._footer_lines:
            self._footer.styles.height = self._footer_lines = len(bottom)
            self.call_after_refresh(self.redraw)
            return
        with self.one_frame():
            top = header(model, self._mark, pace_text(self.feed), cells)
            self._header.show([top], theme.header)
            self._body.show(lines, theme.base)
            self._footer.take_keys(keys, notice)
            self._footer.show(bottom, theme.label)
            for prompt in self._prompts:
                if prompt.is_open:
                    prompt.draw()
        self.start_display()

    def _page_lines(self, cells: int, height: int) -> list[Any]:
        """Return the lines of the page with the sums above and what fails below."""
        model = self.dashboard
        if model.snapshot is EMPTY:
            return []
        is_old = self.feed.state in (FeedState.STALE, FeedState.RESTARTING)
        theme = faded(model.theme) if is_old and model.time.moment is None else model.theme
        filtered, below = filter_line(model, theme, cells), source_lines(model, theme, cells)
        self._body_top = 1 + len(filtered)
        room = max(0, height - self._body_top - len(below))
        page = self._page.lines(model, theme, cells, room)[:room]
        sums = fleet_line(model.totals, theme, cells, position=self._page.position(model))
        return [sums, *filtered, *page, *[[]] * (room - len(page)), *below]

    @property
    def _page(self) -> ClusterPage | FindingsPage | TablePage[Any]:
        name = self.dashboard.page
        if name == "cluster":
            return self._cluster
        return self._findings if name == "findings" else self._tables[name]

    def _keys_here(self) -> tuple[Any, ...]:
        """Return the keys that work on this page, as the footer names them."""
        model, refused = self.dashboard, self._refused
        left_out = f"open_page('{model.page}')" if model.host is None else ""
        is_still = model.time.moment is not None or is_stopped(self.feed)
        return tuple(
            key
            for key in (keys_while_stopped(model.keys) if is_still else model.keys)
            if key.action != left_out and key.action.partition("(")[0] not in refused
        )

    @property
    def _refused(self) -> frozenset[str]:
        """The actions without effect on this page, or on hosts from these sources."""
        model = self.dashboard
        refused = _OF_TABLES if model.page in ("cluster", "findings") else frozenset()
        refused |= frozenset() if model.page == "cluster" else _OF_MAP
        refused |= frozenset() if model.request.charts else _OF_CHART
        has_ssh = any(source.kind == "ssh" for source in model.snapshot.sources)
        return refused if has_ssh and self.feed.collector is not None else refused | _OF_SSH

    def _notice(self) -> str:
        """Return the text of the last line: the result of an action, or an error."""
        if text := self.dashboard.message:
            return text
        if self.feed.error is not None:
            return self.feed.error
        if (player := self.dashboard.player) is not None:
            return player.message
        return "asking hosts" if self.dashboard.snapshot is EMPTY else ""

    @property
    def _mark(self) -> str:
        """What the header shows of time: how far back it is, or that nothing arrives."""
        return self.dashboard.time.mark or " ".join(state_marks(self.feed))

    # Keys: the screen

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse what is not for what is in front."""
        if self.screen.is_modal:
            return action == "suspend_process"
        if isinstance(self.focused, Edit) and action not in WHILE_TYPING:
            return False
        return action not in self._refused and super().check_action(action, parameters)

    async def on_footer_pressed(self, message: Footer.Pressed) -> None:
        """Do what the key that was clicked does."""
        await self.run_action(message.action)

    def action_help(self) -> None:
        """Show all keys that work."""
        from gpudash.tui.dialogs.text import HelpScreen

        theme, keys = self.dashboard.theme, self.dashboard.keys
        searched = "host, rack, user, job"
        put_above(self, HelpScreen(theme, keys, terms=TERMS, searched=searched))

    action_palette = choices.choose_action
    action_choose_theme = choices.choose_theme
    action_save_screen = screenshot.save_screen
    action_mistakes = views.open_mistakes

    # Keys: time

    def action_pause(self) -> None:
        """Freeze the screen, or show the present again."""
        self.dashboard.toggle()

    def action_step(self, samples: int) -> None:
        """Show an earlier or later sample."""
        self.dashboard.step(samples)

    def action_seek(self) -> None:
        """Open the prompt for a time."""
        self.moment_prompt.open()

    def action_zoom(self, step: int) -> None:
        """Chart a longer (1) or a shorter (-1) time."""
        self.dashboard.chart = self.dashboard.chart.zoomed(step)

    def action_metric(self, step: int) -> None:
        """Chart the next or the previous metric."""
        self.dashboard.chart = self.dashboard.chart.next_metric(step)

    # Keys: pages

    def action_open_page(self, page: str) -> None:
        """Show a page."""
        self.dashboard.open(page)

    def action_go_back(self) -> None:
        """Go back: to the present, to the page before, to no filter."""
        self.dashboard.back()

    def action_enter(self) -> None:
        """Go into what is under the cursor."""
        model = self.dashboard
        if model.page == "cluster":
            row = model.selected_host
            if row is not None:
                self._enter(row.host)
        elif model.page == "hosts" and (selected := model.ranked_hosts().selected) is not None:
            self._enter(selected.host)
        elif model.page == "gpus":
            gpu: GpuRow | None = model.ranked_gpus().selected
            if gpu is not None and model.host is None:
                self._enter(gpu.host)
        else:
            self._narrow()

    def action_retry(self) -> None:
        """Connect at once where ssh failed, also to hosts that refused the login."""
        self.dashboard.retries += 1
        self.show_message("connecting again")

    def _narrow(self) -> None:
        """Show the GPUs of the user, the job or the finding under the cursor alone."""
        model = self.dashboard
        if model.page == "users" and (user := model.ranked_users().selected) is not None:
            narrow(model, "user", user.name or "")
        elif model.page == "jobs" and (job := model.ranked_jobs().selected) is not None:
            narrow(model, "job", job.id)
        elif model.page == "findings" and model.findings:
            hosts = model.findings[model.finding].hosts
            if len(hosts) == 1:
                self._enter_named(hosts[0])
            elif hosts:
                concerned = frozenset(hosts)
                found = [
                    row.host.name
                    for row in model.rows
                    if concerned.intersection(names_of(row.host))
                ]
                names = list(dict.fromkeys(found))
                narrow(model, "host", ",".join(names[:_MAX_NAMED]))
                if len(names) > _MAX_NAMED:
                    left_out = counted(len(names) - _MAX_NAMED, "host")
                    self.show_message(f"{left_out} left out: a filter names {_MAX_NAMED} at most")
            else:
                self.show_message("this is about all hosts")

    def _enter_named(self, name: str) -> None:
        found = [row.host for row in self.dashboard.rows if name in names_of(row.host)]
        if found:
            self._enter(found[0])

    def _enter(self, host: FleetHost) -> None:
        """Leave for the local screen of a host, or show its GPUs where there is none.

        Its own screen shows the present: in the past its GPUs are those of that time.
        """
        model = self.dashboard
        if model.time.moment is None and model.may_enter(host):
            self.entered = host
            self.leave_with(ExitStatus.OK)
        else:
            model.open("gpus", host.key)

    # Keys: the filter

    @property
    def _prompts(self) -> tuple[FilterPrompt, ...]:
        return self.prompt, self.moment_prompt

    def action_filter(self) -> None:
        """Open the prompt with the filter in force."""
        self.prompt.open()

    def on_filter_prompt_changed(self, _message: FilterPrompt.Changed) -> None:
        """Show what fits so far."""
        self.outdated = True

    def on_filter_prompt_resized(self, _message: FilterPrompt.Resized) -> None:
        """Give the prompt its lines, or the page its own back."""
        self._footer.set_class(any(each.is_open for each in self._prompts), "-covered")
        self.call_after_refresh(self.redraw)

    # Keys: cursor and order

    def action_move(self, rows: int) -> None:
        """Move the cursor."""
        self._page.move(self.dashboard, rows)

    def action_page(self, pages: int) -> None:
        """Move the cursor by what is in view."""
        self._page.page(self.dashboard, pages)

    def action_move_to(self, index: int) -> None:
        """Move the cursor to the first row (0) or the last (-1)."""
        self._page.move(self.dashboard, 1_000_000 if index else -1_000_000)

    def action_aside(self, hosts: int) -> None:
        """Move the cursor of the map to a neighbour."""
        self._cluster.aside(self.dashboard, hosts)

    def action_paint(self, step: int) -> None:
        """Paint the map by the next or the previous value."""
        index = PAINTINGS.index(self.dashboard.painting) + step
        self.dashboard.painting = PAINTINGS[index % len(PAINTINGS)]

    def action_sort(self, step: int) -> None:
        """Sort by a neighbour of the column in force."""
        table = self._tables[self.dashboard.page]
        keys = [each.key for each in table.sortable]
        table.ranking(self.dashboard).sort_beside(keys, step)

    def action_reverse(self) -> None:
        """Turn the order around."""
        self._tables[self.dashboard.page].ranking(self.dashboard).reverse()

    def action_choose_sort(self) -> None:
        """Choose the column that orders the table."""
        table = self._tables[self.dashboard.page]
        ranking = table.ranking(self.dashboard)

        def chosen(key: str | None) -> None:
            if key is not None and key != ranking.sort_key:
                ranking.sort_by(key)

        found = [Choice(each.key, each.header) for each in table.sortable]
        screen = ChooseScreen("Sort by", found, self.dashboard.theme, current=ranking.sort_key)
        put_above(self, screen, chosen)

    # The mouse

    async def on_body_clicked(self, message: Body.Clicked) -> None:
        """Put the cursor there, or open what it was on already."""
        y = message.y - self._body_top
        model = self.dashboard
        if model.page == "cluster" and (finding := self._cluster.finding_at(y)) is not None:
            model.open("findings")
            model.finding = finding
        elif self._page.clicked(model, message.x, y):
            self.action_enter()
        self.outdated = True

    def on_body_turned(self, message: Body.Turned) -> None:
        """Move the cursor by the wheel; on the map by one line."""
        lines = message.lines
        if self.dashboard.page == "cluster":
            lines = 1 if lines > 0 else -1
        self.action_move(lines)
        self.outdated = True
