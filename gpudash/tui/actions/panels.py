"""Which GPUs and panels are shown."""

from __future__ import annotations

from textual.events import Key

from gpudash.analysis.columns import PROCESS_COLUMNS
from gpudash.analysis.labels import command
from gpudash.model.units import ABSENT
from gpudash.tui.dialogs.choose import Choice
from gpudash.tui.screen import LiveApp
from gpudash.tui.shown_devices import indices
from gpudash.tui.terminal.input import actions_of, has_use_for
from gpudash.tui.views.view import put_above

_ALL = "all"


class Showing(LiveApp):
    """Hides GPUs, with the processes that use no other, and panels."""

    def action_toggle_panel(self, panel: str) -> None:
        """Hide a panel, or show it again."""
        self.dashboard.toggle(panel)
        self.prefer(hidden_panels=tuple(sorted(self.dashboard.hidden)))
        self.show_message("")

    def action_choose_columns(self) -> None:
        """Choose the columns of the processes with the space bar; none is as good as all."""
        from gpudash.tui.dialogs.choose import ChooseScreen

        screen = ChooseScreen(
            "Columns",
            self._column_choices(),
            self.dashboard.theme,
            toggled=self._column_toggled,
            marks_only=True,
        )
        put_above(self, screen, lambda _value: self.redraw())

    def _column_choices(self) -> list[Choice]:
        shown = self.preferences.current.columns
        return [
            Choice(
                column.key,
                column.key.replace("_", " "),
                column.header,
                not shown or column.key in shown,
            )
            for column in PROCESS_COLUMNS
        ]

    def _column_toggled(self, key: str) -> list[Choice]:
        every = tuple(column.key for column in PROCESS_COLUMNS)
        shown = self.preferences.current.columns or every
        if key in shown:
            shown = tuple(each for each in shown if each != key)
        else:
            # In its usual place, as far as the others are in theirs.
            place = sum(every.index(each) < every.index(key) for each in shown)
            shown = (*shown[:place], key, *shown[place:])
        self.prefer(columns=() if shown == every else shown)
        self.dashboard.processes.choose(self.preferences.current.columns)
        return self._column_choices()

    def action_toggle_device(self, index: int) -> None:
        """Hide a GPU, or show it again."""
        if index not in indices(self.dashboard.snapshot):
            self.show_message(f"there is no GPU {index}")
            return
        self.dashboard.shown.toggle(index, self.dashboard.snapshot)
        self._apply()

    def action_choose_devices(self) -> None:
        """Choose one from a list, or some with the space bar: then the marks count."""
        from gpudash.tui.dialogs.choose import ChooseScreen

        title = "Show only GPU"
        screen = ChooseScreen(
            title, self._device_choices(), self.dashboard.theme, toggled=self._toggled
        )
        put_above(self, screen, self._device_chosen)

    def _device_choices(self) -> list[Choice]:
        dashboard = self.dashboard
        hidden = dashboard.shown.hidden
        entries = [
            Choice(str(device.index), f"GPU {device.index}", str(device.name or ""), shown)
            for device in dashboard.snapshot.devices
            if not device.is_mig
            for shown in (device.index not in hidden,)
        ]
        return [Choice(_ALL, "all", "", not hidden), *entries]

    def _toggled(self, value: str) -> list[Choice]:
        self._choose(value, alone=False)
        return self._device_choices()

    def _device_chosen(self, value: str | None) -> None:
        if value is not None:
            self._choose(value, alone=True)
        self._apply()

    def _choose(self, value: str, *, alone: bool) -> None:
        dashboard = self.dashboard
        if value == _ALL:
            dashboard.shown.show_all()
        elif alone:
            dashboard.shown.only(int(value), dashboard.snapshot)
        else:
            dashboard.shown.toggle(int(value), dashboard.snapshot)

    def _apply(self) -> None:
        self.dashboard.listing.hide_devices(self.dashboard.shown.hidden)
        self.dashboard.scroll_devices(0)
        self.show_message("")


class Copying(LiveApp):
    """Copies what identifies the selected process."""

    def action_copy_pid(self) -> None:
        """Copy the PID."""
        row = self.dashboard.listing.selected
        self._copy("PID", str(row.process.pid) if row else "")

    def action_copy_command(self) -> None:
        """Copy the command line as a shell would take it."""
        row = self.dashboard.listing.selected
        text = command(row.process) if row and row.process.command_line else ""
        self._copy("command line", text)

    def _copy(self, what: str, text: str) -> None:
        if self.dashboard.listing.selected is None:
            self.show_message("no process is selected")
        elif not text or text == ABSENT:
            self.show_message(f"there is no {what} to copy")
        else:
            self.copy_to_clipboard(text)
            self.show_message(f"copied the {what}, if the terminal takes it (OSC 52): {text}")


class Suspending(LiveApp):
    """Obeys the key that suspends where those of the overview are not obeyed."""

    def on_key(self, event: Key) -> None:
        """Suspend below a dialog that has no use for the key, whatever else it holds back."""
        screen = self.screen
        if screen.is_modal and self.suspends(event.key) and not has_use_for(screen, event.key):
            self.action_suspend_process()

    def suspends(self, key: str) -> bool:
        """Return whether a key suspends in the overview, where it may have been given to others."""
        return "suspend_process" in actions_of(self, key)
