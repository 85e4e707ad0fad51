"""The base of the pages of one host: time, the driver, other pages, the selected process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual.screen import Screen

from gpudash.analysis.filter import parse
from gpudash.analysis.labels import command
from gpudash.analysis.table import ProcessRow
from gpudash.feed.protocol import FeedState, SnapshotFeed
from gpudash.model.errors import FilterError
from gpudash.model.state import ASLEEP, RESTING
from gpudash.model.units import ABSENT
from gpudash.tui.bindings import SELECTION_ACTIONS, bindings, shown_key
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.dialogs.choose import Choice
from gpudash.tui.dialogs.dialog import put_above
from gpudash.tui.keymap import HOST_KEYS, KEYS, Key
from gpudash.tui.page import Page, page_class
from gpudash.tui.preferences import next_interval

NONE_SELECTED = "no process is selected"


class HostPage(Page):
    """A page over the snapshots of one host."""

    BINDINGS: ClassVar[list[Any]] = bindings(HOST_KEYS)

    model: DashboardModel
    feed: SnapshotFeed

    # What the app asks of the page in front

    def tick(self) -> None:
        """Show what came before the first snapshot, or leave if there will never be one."""
        self.model.preview()
        super().tick()

    @property
    def subject(self) -> str:
        """The name of the host."""
        return self.model.snapshot.host.hostname or ""

    def help(self, first: Sequence[Key]) -> Screen[Any]:
        """Return the dialog that lists all keys of one host."""
        from gpudash.tui.dialogs.text import HelpScreen

        keys = dict.fromkeys(self.model.in_force((*first, *KEYS)))
        return HelpScreen(self.model.theme, tuple(keys))

    @property
    def may_signal(self) -> bool:
        """Whether it shows the process selected in the overview, which a signal would hit."""
        return False

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse actions on a process that is not shown."""
        if action in SELECTION_ACTIONS and not self.may_signal:
            return False
        return super().check_action(action, parameters)

    def explain_refusal(self, action: str) -> None:
        """Explain that an action needs a process, which this page does not show."""
        if action.partition("(")[0] not in SELECTION_ACTIONS or self.may_signal:
            return
        key = next((key for key in self.model.keys if key.action == action), None)
        if key is not None:
            self.show_message(f"{key.shown} needs a process: select one in the list")

    def action_interval(self, step: int) -> None:
        """Sample less often (1) or more often (-1), or play faster or slower, from now on."""
        feed, collector = self.feed, self.feed.collector
        if collector is None:
            self.model.time.change_speed(step)
            return
        seconds = next_interval(feed.interval, step)
        if seconds == feed.interval:
            extreme = "longest" if step > 0 else "shortest"
            self.show_message(f"{seconds:g} s is the {extreme} interval of this key")
            return
        collector.change_interval(seconds)
        self.app.preferences.try_out(interval=seconds)
        self.show_message(f"a sample every {seconds:g} s")

    # The driver

    def action_pause(self) -> None:
        """Freeze the screen, or follow the feed; explain that while there is no sample."""
        super().action_pause()
        if self.feed.state is FeedState.RELEASED:
            did = "no longer frozen" if self.model.time.is_live else "frozen"
            key = shown_key(self.model.keys, "driver.release")
            self.show_message(f"screen {did}; nothing is sampled until {key} reattaches")

    def action_release(self) -> None:
        """Ask whether to detach from the driver, or reattach at once."""
        if self.feed.collector is None or self.feed.state is FeedState.RELEASED:
            self.release_gpus()
            return

        def chosen(letter: str | None) -> None:
            if letter in ("y", "Y"):
                self.release_gpus()

        choices = [
            Choice("n", "n  keep monitoring"),
            Choice("y", "y  detach"),
        ]
        key = shown_key(self.model.keys, "driver.release")
        asked = (
            "To reset a GPU or the driver, every program must have left it. "
            f"No GPU is monitored until {key} reattaches."
        )
        self.choose("Detach from the driver?", choices, chosen, by_letter=True, asked=asked)

    def release_gpus(self) -> None:
        """Detach from the driver, for a reset or a change of MIG mode; or reattach."""
        collector = self.feed.collector
        if collector is None:
            self.show_message("this is a recording: there is no driver to detach from")
        elif self.feed.state is FeedState.RELEASED:
            collector.resume()
            self.show_message("reattached to the driver")
        else:
            collector.release()

    def action_wake(self) -> None:
        """Read GPUs again that are left alone to fall asleep."""
        collector, latest = self.feed.collector, self.feed.latest
        unread = {device.state: device.index for device in latest.devices} if latest else {}
        if collector is None:
            self.show_message("this is a recording: it has no GPU to read")
        elif RESTING.id in unread and latest is not None and latest.collected_by is not None:
            self.show_message("gpudash serve leaves it alone: gpudash --fresh reads it")
        elif RESTING.id in unread:
            collector.resume()
            self.show_message("reading the GPUs that were left alone on battery")
        elif ASLEEP.id in unread:
            asleep = f"GPU {unread[ASLEEP.id]} is asleep"
            self.show_message(f"{asleep}: only a program that uses it wakes it")
        else:
            self.show_message("no GPU is left alone on battery")

    # Other pages, each of which is imported when it is first opened

    def open_above(self, page: HostPage) -> None:
        """Show a page above this one; at most one of each kind."""
        app = self.app
        while any(type(each) is type(page) for each in app.screen_stack):
            app.pop_screen()
        put_above(app, page)

    def action_view(self, name: str, *about: object) -> None:
        """Open a page by the name of its module, such as `users`, with its arguments."""
        view = page_class(f"views.{name}.{name.capitalize()}View")
        self.open_above(view(self.model, *about))

    def action_view_gpu(self, index: int) -> None:
        """Show everything about the GPU with this index."""
        gpus = self.model.snapshot.devices
        key = next((each.key for each in gpus if each.index == index and not each.is_mig), None)
        if key is None:
            self.show_message(f"there is no GPU {index}")
        else:
            self.show_device(key)

    def show_device(self, key: str) -> None:
        """Show everything about a GPU or a MIG instance."""
        self.action_view("device", key)

    def action_open(self) -> None:
        """Show what is under the cursor of the overview."""
        if self.model.devices.focused:
            self.action_view("device")
        else:
            self.action_view_process()

    def action_view_process(self, section: str = "") -> None:
        """Show the selected process, starting at its `tree` or its `environment`."""
        row = self.model.listing.selected
        if row is None:
            self.show_message(NONE_SELECTED)
            return
        self.model.listing.hold()
        self.action_view("process", row, section)

    def filter_by(self, text: str) -> None:
        """Show the processes that match a filter, in the overview."""
        try:
            wanted = parse(text)
        except FilterError as error:
            self.show_message(str(error))
            return
        self.app.close_above(self.app.root)
        self.model.listing.filter_by(wanted)
        self.show_message("")

    # The selected process

    def action_copy_pid(self) -> None:
        """Copy the PID of the selected process."""
        row = self.model.listing.selected
        self._copy("PID", str(row.process.pid) if row else "")

    def action_copy_command(self) -> None:
        """Copy the command line of the selected process in shell syntax."""
        row = self.model.listing.selected
        text = command(row.process) if row and row.process.command_line else ""
        self._copy("command line", text)

    def _copy(self, what: str, text: str) -> None:
        if self.model.listing.selected is None:
            self.show_message(NONE_SELECTED)
        elif not text or text == ABSENT:
            self.show_message(f"there is no {what} to copy")
        else:
            self.app.copy_to_clipboard(text)
            self.show_message(f"{what} sent to the clipboard (OSC 52): {text}")

    def action_kill(self, signal_name: str) -> None:
        """Ask whether to signal the tagged processes, else the selected one."""
        if self.model.time.is_recorded:
            self.show_message("this is a recording: its processes cannot be signalled")
        elif self.model.read_only:
            self.show_message("read-only: nothing is sent")
        elif self.model.devices.focused:
            self.explain_focus()
        elif not (rows := self.chosen_rows):
            self.show_message(NONE_SELECTED)
        elif self.feed.remote is not None:
            from gpudash.tui.remote import kill_there

            self.show_message(kill_there(self.app, self.feed.remote, rows, signal_name))
        else:
            # A read-only screen does not even load the code that signals.
            from gpudash.tui.kill import ask

            ask(self.app, self.model, rows, signal_name)

    def explain_focus(self) -> None:
        """Show which key moves the focus from the GPUs to the processes."""
        key = shown_key(self.model.keys, "move.turn")
        self.show_message(f"{key} goes back to the processes: select one there")

    @property
    def chosen_rows(self) -> list[ProcessRow]:
        """Return the target of a signal: the tagged processes, else the selected one, if any."""
        listing = self.model.listing
        rows = listing.tagged_rows if self.is_root else []
        if not rows and listing.selected is not None:
            listing.hold()
            rows = [row for row in listing.everything if row.process.key == listing.selected_key]
        return rows
