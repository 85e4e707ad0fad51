"""Which GPUs and panels are shown."""

from __future__ import annotations

from gpudash.tui.choices import Choice
from gpudash.tui.live import LiveApp
from gpudash.tui.shown_devices import indices

_ALL = "all"


class Showing(LiveApp):
    """Hides GPUs, with the processes that use no other, and panels."""

    def action_toggle_panel(self, panel: str) -> None:
        """Hide a panel, or show it again."""
        self.picture.toggle(panel)
        self.prefer(hidden_panels=tuple(sorted(self.picture.hidden)))
        self.say("")

    def action_toggle_device(self, index: int) -> None:
        """Hide a GPU, or show it again."""
        if index not in indices(self.picture.snapshot):
            self.say(f"there is no GPU {index}")
            return
        self.picture.shown.toggle(index, self.picture.snapshot)
        self._apply()

    def action_choose_devices(self) -> None:
        """Choose one from a list, or some with the space bar."""
        from gpudash.tui.screens.choose import ChooseScreen

        title = "GPUs: Space hides and shows, Enter shows only this"
        screen = ChooseScreen(
            title, self._device_choices(), self.picture.theme, toggled=self._toggled
        )
        self.push_screen(screen, self._device_chosen)

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
