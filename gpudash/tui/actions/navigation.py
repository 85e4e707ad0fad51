"""Filtering the processes as the filter is typed, and tagging some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudash.analysis.filter import EVERYTHING, Filter, parse
from gpudash.analysis.filter.terms import TERMS, hint
from gpudash.model.errors import FilterError
from gpudash.tui.actions.panels import Suspending
from gpudash.tui.dialogs.prompt import Prompt, advice, complaint, remark, typed
from gpudash.tui.draw.processes import share
from gpudash.tui.listing import Key
from gpudash.tui.views import view_class
from gpudash.tui.views.view import View

if TYPE_CHECKING:
    pass
from typing import TYPE_CHECKING

from gpudash.analysis.columns import PROCESS_COLUMNS
from gpudash.tui.dialogs.choose import Choice
from gpudash.tui.listing import starts_largest
from gpudash.tui.screen import LiveApp
from gpudash.tui.views.view import put_above
from gpudash.tui.widgets.devices import Devices
from gpudash.tui.widgets.lines import Footer
from gpudash.tui.widgets.processes import Processes

if TYPE_CHECKING:
    from gpudash.tui.theme import Theme


class Opening(LiveApp):
    """Puts another screen above the overview."""

    def action_help(self) -> None:
        """Show all keys that work."""
        from gpudash.tui.dialogs.help import HelpScreen
        from gpudash.tui.keymap import KEYS

        keys = self.dashboard.in_force(KEYS)
        put_above(self, HelpScreen(self.dashboard.theme, keys), self._back)

    def action_palette(self) -> None:
        """Choose any action by its name."""
        from gpudash.tui.dialogs.choose import ChooseScreen
        from gpudash.tui.dialogs.palette import entries

        view = self.screen if isinstance(self.screen, View) else None
        found = entries(self.dashboard.keys, view.keys if view else ())

        async def chosen(id: str | None) -> None:
            self.redraw()
            if id is not None:
                namespace = view if found[id].of_view else None
                await self.run_action(found[id].action, default_namespace=namespace)

        choices = [entry.choice for entry in found.values()]
        put_above(self, ChooseScreen(":", choices, self.dashboard.theme), chosen)

    def action_choose_theme(self) -> None:
        """Choose the colours, those of the entry under the cursor worn meanwhile."""
        from gpudash.tui.dialogs.choose import Choice, ChooseScreen
        from gpudash.tui.theme import THEMES

        current = self.preferences.current.theme

        def chosen(name: str | None) -> None:
            if name is None:
                self._try_on(current)
                return
            self.prefer(theme=name)
            self.apply_theme()
            self.redraw()

        choices = [Choice(name, name, marked=name == current) for name in THEMES]
        look = self.dashboard.theme
        screen = ChooseScreen("Colours", choices, look, current=current, pointed=self._try_on)
        put_above(self, screen, chosen)

    def action_view(self, name: str) -> None:
        """Open a view by the name of its module, such as `users`."""
        self._open(view_class(name)(self.dashboard))

    def action_open(self) -> None:
        """Show what is under the cursor."""
        if self.dashboard.devices.focused:
            self.action_view("device")
        else:
            self.action_view_process()

    def on_view_open(self, message: View.Open) -> None:
        """Open the view that another one asks for."""
        self._open(message.view)

    def action_mistakes(self) -> None:
        """Show all that is wrong in the file of settings."""
        from gpudash.tui.dialogs.mistakes import MistakesView

        if self.preferences.mistakes:
            self._open(MistakesView(self.dashboard, self.preferences.mistakes))
        else:
            self.show_message("there is no mistake in the settings")

    def action_view_process(self, section: str = "") -> None:
        """Show the selected process, from its `tree` or its `environment` on."""
        row = self.dashboard.listing.selected
        if row is None:
            self.show_message("no process is selected")
            return
        self.dashboard.listing.hold()
        from gpudash.tui.views.process import ProcessView

        self._open(ProcessView(self.dashboard, row, section=section))

    def _open(self, view: View) -> None:
        """Show a view above the one that it was opened from; of each kind there is one at most."""
        self.dashboard.message = ""
        while any(type(screen) is type(view) for screen in self.screen_stack):
            self.pop_screen()
        self.push_screen(view, self._back)

    def _back(self, _result: None) -> None:
        self.redraw()

    def _try_on(self, name: str) -> Theme:
        """Wear a theme, without keeping it, and return it."""
        if name != self.preferences.current.theme:
            self.preferences.try_on(name)
            self.apply_theme()
        self.redraw()
        return self.dashboard.theme


class Sorting(LiveApp):
    """Chooses the column that the processes are sorted by."""

    def action_sort(self, step: int) -> None:
        """Sort by a neighbour of the column in force."""
        keys, listing = self.dashboard.processes.sortable, self.dashboard.listing
        if keys:
            place = keys.index(listing.sort_key) if listing.sort_key in keys else 0
            self.sort_by(keys[(place + step) % len(keys)])

    def action_reverse(self) -> None:
        """Turn the order around."""
        self.sort_by(self.dashboard.listing.sort_key)

    def action_choose_sort(self) -> None:
        """Choose the column from a list of all, those that have no room on screen too."""
        from gpudash.tui.dialogs.choose import ChooseScreen

        current = self.dashboard.listing.sort_key
        choices = [
            Choice(
                column.key,
                column.key.replace("_", " "),
                column.header,
                column.key == current,
                _term_names(column.key),
            )
            for column in PROCESS_COLUMNS
        ]
        screen = ChooseScreen("Sort by", choices, self.dashboard.theme, current=current)
        put_above(self, screen, self._sort_chosen)

    def _sort_chosen(self, key: str | None) -> None:
        if key is not None and key != self.dashboard.listing.sort_key:
            self.sort_by(key)
        self.redraw()

    def sort_by(self, key: str) -> None:
        """Sort by a column; the column in force turns around."""
        listing = self.dashboard.listing
        listing.sort_by(key)
        reverse = listing.descending is not starts_largest(listing.sort_key)
        self.prefer(sort=listing.sort_key, reverse=reverse)
        self.show_message("")


def _term_names(key: str) -> str:
    """Return what the filter's term for a column is called: `mem` is GPU memory there, too."""
    return next((" ".join(term.names) for term in TERMS if key in term.names), "")


_SIGN = "/"
_MOVES = {"up": "move(-1)", "down": "move(1)", "pageup": "page(-1)", "pagedown": "page(1)"}


class Filtering(Suspending):
    """Narrows the processes down."""

    _filter_before: Filter = EVERYTHING
    _anchor: Key | None = None
    """Whom the cursor stood on when the prompt was opened, or was moved to since."""
    _filter_error: FilterError | None = None

    def filter_by(self, text: str) -> None:
        """Show the processes that fit a filter, in the overview.

        Raises FilterError if it is none.
        """
        wanted = parse(text)
        while isinstance(self.screen, View):
            self.pop_screen()
        self.dashboard.listing.filter_by(wanted)
        self.show_message("")

    def action_filter(self) -> None:
        """Open the prompt with the filter in force."""
        listing = self.dashboard.listing
        self._filter_before, self._filter_error = listing.filter, None
        self._anchor = listing.selected_key
        self.prompt.open(listing.filter.text)
        self._cover()

    def action_clear(self) -> None:
        """Go back to the present; from there, take back tags, the filter, the choice of GPUs."""
        listing = self.dashboard.listing
        if self.dashboard.playhead.paused:
            self.dashboard.pause(False)
        elif listing.tagged:
            listing.tagged.clear()
        elif listing.filter.clauses:
            listing.filter_by(EVERYTHING)
        else:
            self.dashboard.shown.show_all()
            listing.hide_devices(())
        self.show_message("")

    def action_tag(self) -> None:
        """Tag the selected process, or take its tag back, and go on to the next."""
        listing = self.dashboard.listing
        if self.dashboard.devices.focused:
            self.show_message("Tab goes back to the processes, to choose which")
            return
        listing.tag()
        listing.move(1)
        self.show_message("" if listing.rows else "no process is selected")

    def draw_prompt(self) -> None:
        """Draw the filter with what is wrong with it, or with what could follow."""
        if not self.prompt.is_open:
            return
        look, editor, cells = self.dashboard.theme, self.prompt.editor, self.size.width
        note, error = share(self.dashboard.listing), self._filter_error
        top = typed(_SIGN, editor, look, cells, note=note, error=error)
        if error is not None:
            below = complaint(_SIGN, editor, error, look, cells)
        elif vain := self._vain():
            below = remark(vain, look, cells)
        else:
            keys = [("Enter", "keep"), ("Esc", "take back")]
            terms = [(term.example, "") for term in TERMS]
            below = [advice(keys + terms, look, cells)]
        if self.prompt.fit(1 + len(below)):
            self._cover()
        self.prompt.show([top, *below])

    async def on_prompt_changed(self, _message: Prompt.Changed) -> None:
        """Show what fits so far, without regard to a word that is wrong or not yet whole."""
        wanted, self._filter_error = _understood(self.prompt.editor.text)
        if wanted is not None:
            self.dashboard.listing.filter_by(wanted, anchor=self._anchor)
        self.redraw()

    def on_prompt_kept(self, _message: Prompt.Kept) -> None:
        """Close the prompt, unless its filter is wrong."""
        if self._filter_error is None:
            self._uncover()
            listing = self.dashboard.listing
            if listing.filter.clauses and listing.everything and not listing.matching:
                self.dashboard.message = self._vain() or "No process fits; Esc shows all"

    def on_prompt_abandoned(self, _message: Prompt.Abandoned) -> None:
        """Close the prompt as if nothing had been typed."""
        self.dashboard.listing.filter_by(self._filter_before, anchor=self._anchor)
        self._uncover()

    async def on_prompt_unused(self, message: Prompt.Unused) -> None:
        """Move the cursor with the keys that no text needs, or suspend."""
        if message.key in _MOVES:
            await self.run_action(_MOVES[message.key])
            self._anchor = self.dashboard.listing.selected_key
        elif self.suspends(message.key):
            self.action_suspend_process()

    def on_view_filter(self, message: View.Filter) -> None:
        """Show the processes that a view asks for alone."""
        try:
            self.filter_by(message.text)
        except FilterError as error:
            self.show_message(str(error))

    def _vain(self) -> str:
        """Return why nothing fits, as far as the filter itself tells."""
        listing = self.dashboard.listing
        if listing.matching or not listing.everything:
            return ""
        return hint(listing.filter.text, [row.label for row in self.dashboard.rows])

    def _cover(self) -> None:
        self.lay_out()
        self.dashboard.message = ""
        self.call_after_refresh(self.redraw)

    def _uncover(self) -> None:
        self.prompt.close()
        self._cover()


def _understood(text: str) -> tuple[Filter | None, FilterError | None]:
    """Return the filter without its first wrong word, None if others are wrong, too."""
    try:
        return parse(text), None
    except FilterError as error:
        try:
            return parse(text[: error.start] + text[error.end :]), error
        except FilterError:
            return None, error


_COMMAND_STEP, _END = 8, 1 << 20


class Moving(LiveApp):
    """Goes through what does not fit the screen."""

    def action_turn(self) -> None:
        """Give the focus to the devices, or back to the processes."""
        devices = self.dashboard.devices
        devices.focused = not devices.focused and bool(self.dashboard.rows)
        self.show_message("")

    def action_enlarge(self) -> None:
        """Give the part in focus all the room, or share it out again."""
        self.dashboard.enlarged = not self.dashboard.enlarged
        self.show_message("")

    def action_move(self, rows: int) -> None:
        """Move the cursor."""
        dashboard = self.dashboard
        if dashboard.devices.focused:
            dashboard.devices.move(rows, dashboard.rows, dashboard.layout)
        else:
            dashboard.listing.move(rows)
        self.show_message("")

    def action_page(self, pages: int) -> None:
        """Move the cursor by what is in view."""
        dashboard = self.dashboard
        page = dashboard.layout.seen if dashboard.devices.focused else dashboard.page
        self.action_move(pages * page)

    def action_move_to(self, index: int) -> None:
        """Move the cursor to the first row (0) or the last (-1)."""
        dashboard = self.dashboard
        count = len(dashboard.rows if dashboard.devices.focused else dashboard.listing.rows)
        self.action_move(count if index else -count)

    def action_scroll_command(self, steps: int) -> None:
        """Show later or earlier parts of the command lines; move between columns of devices."""
        dashboard = self.dashboard
        if dashboard.devices.focused and dashboard.layout.across > 1:
            self.action_move(steps * dashboard.layout.device_lines)
            return
        dashboard.scroll_command(steps * _COMMAND_STEP)
        self.redraw()

    def action_scroll_command_to(self, end: int) -> None:
        """Show the beginning of the command lines (0), or the end of the longest (-1)."""
        self.dashboard.scroll_command(_END if end else -_END)
        self.redraw()

    def on_devices_scrolled(self, message: Devices.Scrolled) -> None:
        """Scroll the devices by the wheel."""
        self.dashboard.scroll_devices(message.rows)
        self.redraw()

    def on_processes_moved(self, message: Processes.Moved) -> None:
        """Move by the wheel."""
        self.action_move(message.rows)


class Pointing(Sorting, Opening):
    """Does what is pointed at: the first click selects, one more on the same opens."""

    _pointed: object = None
    """The identity that was clicked last."""

    def on_processes_clicked(self, message: Processes.Clicked) -> None:
        """Sort by a heading, select a row, or open it with a second click."""
        dashboard = self.dashboard
        table, listing = dashboard.processes, dashboard.listing
        if not message.line:
            key = table.column_at(message.x)
            if key is not None:
                self.sort_by(key)
            return
        place = table.top + message.line - 1
        if place >= len(listing.rows):
            return
        again = not dashboard.devices.focused and listing.cursor == place
        dashboard.devices.focused = False
        listing.move_to(place)
        self.show_message("")
        if self._is_second(listing.selected_key) and again:
            self.action_view_process()

    def on_devices_clicked(self, message: Devices.Clicked) -> None:
        """Select a device, or open it with a second click."""
        dashboard = self.dashboard
        if dashboard.is_finding(message.line):
            self.action_view("findings")
            return
        row = dashboard.device_at(message.x, message.line)
        if row is None:
            return
        before = dashboard.device if dashboard.devices.focused else None
        dashboard.devices.focused = True
        dashboard.devices.select(row)
        self.show_message("")
        if self._is_second(row.device.key) and before == row:
            self.action_view("device")

    def _is_second(self, identity: object) -> bool:
        """Note what was clicked; return whether it was clicked before, and nothing else since."""
        before, self._pointed = self._pointed, identity
        return before == identity

    async def on_footer_pressed(self, message: Footer.Pressed) -> None:
        """Do what the key that was clicked does."""
        await self.run_action(message.action)
