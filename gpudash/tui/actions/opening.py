"""Opening: the views beside the overview, the help, the palette, the themes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudash.tui.screen import LiveApp
from gpudash.tui.views.stack import put_above
from gpudash.tui.views.view import View

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
        from gpudash.tui.dialogs.choices import Choice
        from gpudash.tui.dialogs.choose import ChooseScreen
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
