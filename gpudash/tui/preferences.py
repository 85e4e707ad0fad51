"""The user's settings for the screen: from the file, for this run, and changed during it.

Only choices made in a dialog, or saved by its key, are written back: changes by a single key, and
options on the command line, are for one run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from gpudash.analysis.columns.processes import PROCESS_COLUMNS
from gpudash.config.file import load, save
from gpudash.config.settings import Choices, Settings
from gpudash.model.errors import SettingsError
from gpudash.tui.bindings import (
    QUIT,
    actions,
    clashes,
    key_names,
    keys_in_force,
    shown_key,
    with_way_out,
)
from gpudash.tui.listing import PROCESS_ORDERS, starts_largest

if TYPE_CHECKING:
    from rich.color import ColorSystem

    from gpudash.tui.dashboard import DashboardModel
    from gpudash.tui.fleet.model import FleetModel
    from gpudash.tui.keymap import Key
    from gpudash.tui.theme import Theme

INTERVALS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""The intervals that `+` and `-` step through, in seconds."""

_PATIENCE_SECONDS = 1.0
"""How long an unresponsive folder may delay the program's exit."""


class Preferences:
    """Settings in force, and the file for those changed on the screen."""

    def __init__(self, path: str | None = None, **for_this_run: Any) -> None:
        """Read the file, none if `path` is None; settings for this run take precedence."""
        self.mistakes: list[str] = []
        self._path = path
        self._saved = Settings()
        if path is not None and os.path.lexists(path):
            self._saved, self.mistakes = load(path, choices())
        self._wanted = self._saved
        self.current = msgspec.structs.replace(self._saved, **for_this_run)
        keys = with_way_out(self.current.keys)
        if keys != self.current.keys:
            self.mistakes.append(f"{path}: keys.{QUIT}: no key would quit: Ctrl-C still does")
            self.current = msgspec.structs.replace(self.current, keys=keys)
        self.mistakes += [f"{path}: keys: {line}" for line in clashes(keys)]
        self._lock = threading.Lock()
        self._saving: threading.Thread | None = None
        self._due: Callable[[str], None] | None = None
        """Called with the reason if the next write fails; None if nothing is to be written."""
        self._when_saved: Callable[[], None] | None = None

    @property
    def has_file(self) -> bool:
        """Whether there is a file to save to."""
        return self._path is not None

    @property
    def is_saved(self) -> bool:
        """Whether there is nothing to write: the file is up to date, or there is none."""
        return self._path is None or self._wanted == self._saved

    def change(self, **fields: Any) -> None:
        """Change settings chosen on the screen."""
        self.current = msgspec.structs.replace(self.current, **fields)
        self._wanted = msgspec.structs.replace(self._wanted, **fields)

    def try_out(self, **fields: Any) -> None:
        """Change settings without saving them, as for a key that may be hit by accident."""
        self.current = msgspec.structs.replace(self.current, **fields)

    def save(
        self,
        failed: Callable[[str], None] | None = None,
        saved: Callable[[], None] | None = None,
    ) -> None:
        """Write changes to the file in a thread, which calls `failed` with the reason for a
        failure.

        The thread calls `saved` after success; neither is called if there is nothing to write. A
        write in progress, as in a home folder that hangs, is followed by another one.
        """
        if self.is_saved:
            return
        with self._lock:
            self._due = failed or _ignore
            self._when_saved = saved or self._when_saved
            if self._saving is not None:
                return
            # A daemon thread: such a folder must not keep the program from exiting.
            self._saving = threading.Thread(target=self._write, daemon=True)
            self._saving.start()

    def _write(self) -> None:
        while True:
            with self._lock:
                failed, self._due = self._due, None
                if failed is None:
                    self._saving = None
                    return
                saved, self._when_saved = self._when_saved, None
                wanted = self._wanted
            try:
                save(wanted, str(self._path), since=self._saved, choices=choices())
                self._saved = wanted
            except SettingsError as error:
                failed(str(error))
            else:
                if saved is not None:
                    saved()

    def finish(self, failed: Callable[[str], None] | None = None) -> None:
        """Write the remaining changes, and briefly wait for that."""
        self.save(failed)
        saving = self._saving
        if saving is not None:
            saving.join(_PATIENCE_SECONDS)
            if saving.is_alive() and failed is not None:
                failed(f"settings not saved to {self._path}: the directory does not respond")

    def theme(self, *, no_color: bool, color_system: ColorSystem) -> Theme:
        """Return the theme of the settings for a terminal with this colour system."""
        from gpudash.tui.theme import load_theme

        wanted = self.current
        return load_theme(
            wanted.theme, no_color=no_color, color_system=color_system, ascii=wanted.ascii
        )

    def arrange(self, dashboard: DashboardModel) -> None:
        """Apply the settings to a dashboard."""
        settings = self.current
        listing = dashboard.listing
        listing.sort_key = settings.sort
        listing.descending = starts_largest(settings.sort) is not settings.reverse
        listing.is_per_gpu = settings.per_gpu
        dashboard.hidden = frozenset(settings.hidden_panels)
        self.put_in_force(dashboard, dashboard.keys)
        dashboard.read_only = settings.read_only

    def put_in_force(self, shown: DashboardModel | FleetModel, keys: Iterable[Key]) -> None:
        """Set a screen's keys as in the settings, and report mistakes in these."""
        settings = self.current
        shown.in_force = partial(
            keys_in_force,
            remapped=settings.keys,
            read_only=settings.read_only,
            ascii=settings.ascii,
            recorded=shown.time.is_recorded,
        )
        shown.keys = shown.in_force(keys)
        if self.mistakes:
            count = len(self.mistakes)
            key = shown_key(shown.keys, "screen.mistakes")
            several = f"{count} mistakes in the settings: {key} lists them"
            shown.status_message.show(several if count > 1 else self.mistakes[0], stays=True)


def _ignore(_reason: str) -> None: ...


def choices() -> Choices:
    """Return the available choices."""
    from gpudash.tui.dashboard import PANELS
    from gpudash.tui.theme import PALETTES

    return Choices(
        themes=tuple(PALETTES),
        columns=tuple(column.key for column in PROCESS_COLUMNS),
        orders=tuple(column.key for column in PROCESS_ORDERS),
        panels=PANELS,
        actions=actions(),
        keys=key_names(),
    )


def next_interval(seconds: float, step: int) -> float:
    """Return the next longer (1) or shorter (-1) interval, or the same at the end."""
    if step > 0:
        return next((each for each in INTERVALS if each > seconds), seconds)
    return next((each for each in reversed(INTERVALS) if each < seconds), seconds)
