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
from gpudash.tui.views.view import View

if TYPE_CHECKING:
    from gpudash.tui.views.users import UsersView
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
    from gpudash.model.device import Device
    from gpudash.model.snapshot import Finding
    from gpudash.tui.theme import Theme
    from gpudash.tui.views.findings import FindingsView


class Opening(LiveApp):
    """Puts another screen above the overview."""

    def action_help(self) -> None:
        """Show all keys that work."""
        from gpudash.tui.dialogs.help import HelpScreen
        from gpudash.tui.keymap import KEYS

        keys = self.picture.in_force(KEYS)
        put_above(self, HelpScreen(self.picture.theme, keys), self._back)

    def action_palette(self) -> None:
        """Choose any action by its name."""
        from gpudash.tui.dialogs.choose import ChooseScreen
        from gpudash.tui.dialogs.palette import entries

        view = self.screen if isinstance(self.screen, View) else None
        found = entries(self.picture.keys, view.keys if view else ())

        async def chosen(id: str | None) -> None:
            self.redraw()
            if id is not None:
                namespace = view if found[id].of_view else None
                await self.run_action(found[id].action, default_namespace=namespace)

        choices = [entry.choice for entry in found.values()]
        put_above(self, ChooseScreen(":", choices, self.picture.theme), chosen)

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
            self.dress()
            self.redraw()

        choices = [Choice(name, name, marked=name == current) for name in THEMES]
        look = self.picture.theme
        screen = ChooseScreen("Colours", choices, look, current=current, pointed=self._try_on)
        put_above(self, screen, chosen)

    def action_view_device(self) -> None:
        """Show everything about a GPU: the one under the cursor while the GPUs have the focus."""
        from gpudash.tui.views.device import DeviceView

        picture = self.picture
        row = picture.device if picture.devices.focused else None
        self._open(DeviceView(picture, row.device.key if row else None))

    def action_open(self) -> None:
        """Show what is under the cursor."""
        if self.picture.devices.focused:
            self.action_view_device()
        else:
            self.action_view_process()

    def action_view_findings(self) -> None:
        """Show what is wrong or wasteful, why, and what to do."""
        from gpudash.tui.views.findings import FindingsView

        self._open(FindingsView(self.picture))

    def on_findings_view_chosen(self, message: FindingsView.Chosen) -> None:
        """Show the process that a finding is about, else its GPU."""
        from gpudash.tui.views.device import DeviceView
        from gpudash.tui.views.process import ProcessView

        finding, picture = message.finding, self.picture
        rows = {row.process.pid: row for row in picture.listing.everything}
        row = next((rows[pid] for pid in finding.pids if pid in rows), None)
        keys = [each.device.key for each in picture.rows if _is_about(finding, each.device)]
        if row is not None:
            self._open(ProcessView(picture, row))
        elif keys:
            self._open(DeviceView(picture, keys[0]))

    def action_view_links(self) -> None:
        """Show how the GPUs are connected."""
        from gpudash.tui.views.links import LinksView

        self._open(LinksView(self.picture))

    def action_view_users(self) -> None:
        """Show who holds how much."""
        from gpudash.tui.views.users import UsersView

        self._open(UsersView(self.picture))

    def action_mistakes(self) -> None:
        """Show all that is wrong in the file of settings."""
        from gpudash.tui.dialogs.mistakes import MistakesView

        if self.preferences.mistakes:
            self._open(MistakesView(self.picture, self.preferences.mistakes))
        else:
            self.say("there is no mistake in the settings")

    def action_view_process(self, section: str = "") -> None:
        """Show the selected process, from its `tree` or its `environment` on."""
        row = self.picture.listing.selected
        if row is None:
            self.say("no process is selected")
            return
        self.picture.listing.hold()
        from gpudash.tui.views.process import ProcessView

        self._open(ProcessView(self.picture, row, section=section))

    def _open(self, view: View) -> None:
        """Show a view above the one that it was opened from; of each kind there is one at most."""
        self.picture.notice = ""
        while any(type(screen) is type(view) for screen in self.screen_stack):
            self.pop_screen()
        self.push_screen(view, self._back)

    def _back(self, _result: None) -> None:
        self.redraw()

    def _try_on(self, name: str) -> Theme:
        """Wear a theme, without keeping it, and return it."""
        if name != self.preferences.current.theme:
            self.preferences.try_on(name)
            self.dress()
        self.redraw()
        return self.picture.theme


def _is_about(finding: Finding, device: Device) -> bool:
    """Whether a finding, perhaps one of a moment ago, concerns a device."""
    return device.uuid in finding.uuids if device.uuid else device.index in finding.indices


class Sorting(LiveApp):
    """Chooses the column that the processes are sorted by."""

    def action_sort(self, step: int) -> None:
        """Sort by a neighbour of the column in force."""
        keys, listing = self.picture.processes.sortable, self.picture.listing
        if keys:
            place = keys.index(listing.sort_key) if listing.sort_key in keys else 0
            self.sort_by(keys[(place + step) % len(keys)])

    def action_reverse(self) -> None:
        """Turn the order around."""
        self.sort_by(self.picture.listing.sort_key)

    def action_choose_sort(self) -> None:
        """Choose the column from a list of all, those that have no room on screen too."""
        from gpudash.tui.dialogs.choose import ChooseScreen

        current = self.picture.listing.sort_key
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
        screen = ChooseScreen("Sort by", choices, self.picture.theme, current=current)
        put_above(self, screen, self._sort_chosen)

    def _sort_chosen(self, key: str | None) -> None:
        if key is not None and key != self.picture.listing.sort_key:
            self.sort_by(key)
        self.redraw()

    def sort_by(self, key: str) -> None:
        """Sort by a column; the column in force turns around."""
        listing = self.picture.listing
        listing.sort_by(key)
        reverse = listing.descending is not starts_largest(listing.sort_key)
        self.prefer(sort=listing.sort_key, reverse=reverse)
        self.say("")


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
        self.picture.listing.filter_by(wanted)
        self.say("")

    def action_filter(self) -> None:
        """Open the prompt with the filter in force."""
        listing = self.picture.listing
        self._filter_before, self._filter_error = listing.filter, None
        self._anchor = listing.selected_key
        self.prompt.open(listing.filter.text)
        self._cover()

    def action_clear(self) -> None:
        """Go back to the present; from there, take back tags, the filter, the choice of GPUs."""
        listing = self.picture.listing
        if self.picture.playhead.paused:
            self.picture.pause(False)
        elif listing.tagged:
            listing.tagged.clear()
        elif listing.filter.clauses:
            listing.filter_by(EVERYTHING)
        else:
            self.picture.shown.show_all()
            listing.hide_devices(())
        self.say("")

    def action_tag(self) -> None:
        """Tag the selected process, or take its tag back, and go on to the next."""
        listing = self.picture.listing
        if self.picture.devices.focused:
            self.say("Tab goes back to the processes, to choose which")
            return
        listing.tag()
        listing.move(1)
        self.say("" if listing.rows else "no process is selected")

    def draw_prompt(self) -> None:
        """Draw the filter with what is wrong with it, or with what could follow."""
        if not self.prompt.is_open:
            return
        look, editor, cells = self.picture.theme, self.prompt.editor, self.size.width
        note, error = share(self.picture.listing), self._filter_error
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
            self.picture.listing.filter_by(wanted, anchor=self._anchor)
        self.redraw()

    def on_prompt_kept(self, _message: Prompt.Kept) -> None:
        """Close the prompt, unless its filter is wrong."""
        if self._filter_error is None:
            self._uncover()
            listing = self.picture.listing
            if listing.filter.clauses and listing.everything and not listing.matching:
                self.picture.notice = self._vain() or "No process fits; Esc shows all"

    def on_prompt_abandoned(self, _message: Prompt.Abandoned) -> None:
        """Close the prompt as if nothing had been typed."""
        self.picture.listing.filter_by(self._filter_before, anchor=self._anchor)
        self._uncover()

    async def on_prompt_unused(self, message: Prompt.Unused) -> None:
        """Move the cursor with the keys that no text needs, or suspend."""
        if message.key in _MOVES:
            await self.run_action(_MOVES[message.key])
            self._anchor = self.picture.listing.selected_key
        elif self.suspends(message.key):
            self.action_suspend_process()

    def on_users_view_chosen(self, message: UsersView.Chosen) -> None:
        """Show a user's processes alone."""
        try:
            self.filter_by(message.filter)
        except FilterError as error:
            self.say(str(error))

    def _vain(self) -> str:
        """Return why nothing fits, as far as the filter itself tells."""
        listing = self.picture.listing
        if listing.matching or not listing.everything:
            return ""
        return hint(listing.filter.text, [row.label for row in self.picture.rows])

    def _cover(self) -> None:
        self.lay_out()
        self.picture.notice = ""
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
        devices = self.picture.devices
        devices.focused = not devices.focused and bool(self.picture.rows)
        self.say("")

    def action_enlarge(self) -> None:
        """Give the part in focus all the room, or share it out again."""
        self.picture.enlarged = not self.picture.enlarged
        self.say("")

    def action_move(self, rows: int) -> None:
        """Move the cursor."""
        picture = self.picture
        if picture.devices.focused:
            picture.devices.move(rows, picture.rows, picture.plan)
        else:
            picture.listing.move(rows)
        self.say("")

    def action_page(self, pages: int) -> None:
        """Move the cursor by what is in view."""
        picture = self.picture
        page = picture.plan.seen if picture.devices.focused else picture.page
        self.action_move(pages * page)

    def action_move_to(self, index: int) -> None:
        """Move the cursor to the first row (0) or the last (-1)."""
        picture = self.picture
        count = len(picture.rows if picture.devices.focused else picture.listing.rows)
        self.action_move(count if index else -count)

    def action_scroll_devices(self, pages: int) -> None:
        """Show other devices where not all fit."""
        self.picture.scroll_devices(pages * self.picture.plan.seen)
        self.redraw()

    def action_scroll_command(self, steps: int) -> None:
        """Show later or earlier parts of the command lines; move between columns of devices."""
        picture = self.picture
        if picture.devices.focused and picture.plan.across > 1:
            self.action_move(steps * picture.plan.device_lines)
            return
        picture.scroll_command(steps * _COMMAND_STEP)
        self.redraw()

    def action_scroll_command_to(self, end: int) -> None:
        """Show the beginning of the command lines (0), or the end of the longest (-1)."""
        self.picture.scroll_command(_END if end else -_END)
        self.redraw()

    def on_devices_scrolled(self, message: Devices.Scrolled) -> None:
        """Scroll the devices by the wheel."""
        self.picture.scroll_devices(message.rows)
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
        picture = self.picture
        table, listing = picture.processes, picture.listing
        if not message.line:
            key = table.column_at(message.x)
            if key is not None:
                self.sort_by(key)
            return
        place = table.top + message.line - 1
        if place >= len(listing.rows):
            return
        again = not picture.devices.focused and listing.cursor == place
        picture.devices.focused = False
        listing.move_to(place)
        self.say("")
        if self._is_second(listing.selected_key) and again:
            self.action_view_process()

    def on_devices_clicked(self, message: Devices.Clicked) -> None:
        """Select a device, or open it with a second click."""
        picture = self.picture
        if picture.is_finding(message.line):
            self.action_view_findings()
            return
        row = picture.device_at(message.x, message.line)
        if row is None:
            return
        before = picture.device if picture.devices.focused else None
        picture.devices.focused = True
        picture.devices.select(row)
        self.say("")
        if self._is_second(row.device.key) and before == row:
            self.action_view_device()

    def _is_second(self, identity: object) -> bool:
        """Note what was clicked; return whether it was clicked before, and nothing else since."""
        before, self._pointed = self._pointed, identity
        return before == identity

    async def on_footer_pressed(self, message: Footer.Pressed) -> None:
        """Do what the key that was clicked does."""
        await self.run_action(message.action)
