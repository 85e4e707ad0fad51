"""Which GPUs and panels are shown."""

from __future__ import annotations

from gpudash.analysis.columns import PROCESS_COLUMNS
from gpudash.tui.dialogs.choices import Choice
from gpudash.tui.screen import LiveApp
from gpudash.tui.shown_devices import indices
from gpudash.tui.views.stack import put_above

_ALL = "all"


class Showing(LiveApp):
    """Hides GPUs, with the processes that use no other, and panels."""

    def action_toggle_panel(self, panel: str) -> None:
        """Hide a panel, or show it again."""
        self.picture.toggle(panel)
        self.prefer(hidden_panels=tuple(sorted(self.picture.hidden)))
        self.say("")

    def action_choose_columns(self) -> None:
        """Choose the columns of the processes with the space bar; none is as good as all."""
        from gpudash.tui.dialogs.choose import ChooseScreen

        screen = ChooseScreen(
            "Columns",
            self._column_choices(),
            self.picture.theme,
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
        self.picture.processes.choose(self.preferences.current.columns)
        return self._column_choices()

    def action_toggle_device(self, index: int) -> None:
        """Hide a GPU, or show it again."""
        if index not in indices(self.picture.snapshot):
            self.say(f"there is no GPU {index}")
            return
        self.picture.shown.toggle(index, self.picture.snapshot)
        self._apply()

    def action_choose_devices(self) -> None:
        """Choose one from a list, or some with the space bar: then the marks count."""
        from gpudash.tui.dialogs.choose import ChooseScreen

        title = "Show only GPU"
        screen = ChooseScreen(
            title, self._device_choices(), self.picture.theme, toggled=self._toggled
        )
        put_above(self, screen, self._device_chosen)

    def _device_choices(self) -> list[Choice]:
        picture = self.picture
        hidden = picture.shown.hidden
        entries = [
            Choice(str(device.index), f"GPU {device.index}", str(device.name or ""), shown)
            for device in picture.snapshot.devices
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
        picture = self.picture
        if value == _ALL:
            picture.shown.show_all()
        elif alone:
            picture.shown.only(int(value), picture.snapshot)
        else:
            picture.shown.toggle(int(value), picture.snapshot)

    def _apply(self) -> None:
        self.picture.listing.hide_devices(self.picture.shown.hidden)
        self.picture.scroll_devices(0)
        self.say("")
