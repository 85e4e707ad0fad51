"""Playing a recording: stopping, stepping, another time, another speed."""

from __future__ import annotations

import asyncio
import signal
from datetime import datetime, timedelta

from gpudash.feed.protocol import FeedState
from gpudash.model.state import is_suspended_on_purpose
from gpudash.tui.dialogs.choose import Choice
from gpudash.tui.preferences import SHORTEST_KEPT, next_interval
from gpudash.tui.screen import LiveApp
from gpudash.tui.views.view import put_above


class Timing(LiveApp):
    """Chooses the instant that is shown and how often there is another."""

    def action_pause(self) -> None:
        """Freeze the screen, or catch up with the feed."""
        self.dashboard.pause(not self.dashboard.playhead.paused)
        self.show_message("")

    def action_step(self, samples: int) -> None:
        """Show an earlier or later sample."""
        self.dashboard.step(samples)
        self.show_message("")

    def action_interval(self, step: int) -> None:
        """Sample more rarely (1) or more often (-1) from now on.

        What costs a host much is for this session only.
        """
        collector = self.feed.collector
        assert collector is not None
        seconds = next_interval(self.feed.interval, step)
        if seconds == self.feed.interval:
            self.show_message(
                f"{seconds:g} s is the {'longest' if step > 0 else 'shortest'} interval"
            )
            return
        collector.change_interval(seconds)
        told = f"a sample every {seconds:g} s"
        if seconds >= SHORTEST_KEPT:
            self.prefer(interval=seconds)
        else:
            told += ", in this session only"
        self.show_message(told)


_STEPS_SECONDS = (1, 2, 5, 10, 15, 30, 60, 300, 600, 900, 1800, 3600, 7200, 21600, 86400)
_MOST_CHOICES = 400


class Replaying(Timing):
    """Does with the keys of time what they mean on a recording."""

    def action_pause(self) -> None:
        """Stop, or play on from what is shown."""
        player, playhead = self.feed.player, self.dashboard.playhead
        if player is None:
            super().action_pause()
            return
        if playhead.moment is None:
            player.toggle()
        else:
            player.play_from(self.dashboard.snapshot.taken_at)
        self.show_message("")

    def action_step(self, samples: int) -> None:
        """Stop at an earlier or later sample, out of the file where it was not shown yet."""
        player, dashboard = self.feed.player, self.dashboard
        if player is None:
            super().action_step(samples)
            return
        player.pause()
        shown = dashboard.playhead.moment
        moments = dashboard.history.moments
        place = moments.index(shown) if shown in moments else len(moments) - 1
        if place + samples < 0 or (shown is None and samples > 0):
            player.step(samples, dashboard.snapshot.taken_at)
        else:
            dashboard.step(samples)
        self.show_message("")

    def action_interval(self, step: int) -> None:
        """Play faster (1) or slower (-1)."""
        if self.feed.player is None:
            super().action_interval(step)
            return
        self.feed.player.change_speed(step)
        self.show_message("")

    def action_seek(self) -> None:
        """Choose another time, from a list that typing narrows down."""
        player = self.feed.player
        if player is None:
            self.show_message("only a recording can be taken to another time")
            return
        from gpudash.tui.dialogs.choose import ChooseScreen

        choices = times(*player.extent)
        now = self.dashboard.snapshot.taken_at
        current = [each.value for each in choices if datetime.fromisoformat(each.value) <= now]
        screen = ChooseScreen(
            "Time", choices, self.dashboard.theme, current=current[-1] if current else ""
        )
        put_above(self, screen, self._sought)

    def _sought(self, value: str | None) -> None:
        if value is not None and self.feed.player is not None:
            self.feed.player.seek(datetime.fromisoformat(value))
        self.show_message("")


def times(first: datetime, last: datetime) -> list[Choice]:
    """Return the times between two that a list can hold, on round numbers, on the clock of here."""
    seconds = (last - first).total_seconds()
    step = next((each for each in _STEPS_SECONDS if seconds / each < _MOST_CHOICES), 86400)
    start = first.astimezone()
    day = start.replace(hour=0, minute=0, second=0, microsecond=0)
    number = int((start - day).total_seconds() // step) + 1
    found = [start]
    while (moment := day + timedelta(seconds=number * step)) < last:
        found.append(moment)
        number += 1
    return [
        Choice(each.isoformat(), f"{each:%H:%M:%S}", f"{each:%Y-%m-%d}")
        for each in [*found, last.astimezone()]
    ]


class Driving(LiveApp):
    """Lets a reset or a change of MIG mode proceed, which no client of the driver may be in."""

    def on_mount(self) -> None:
        """Let `kill -USR1` do what the key does, from the shell in which the reset is made."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self.action_release)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])

    def action_release(self) -> None:
        """Let go of the GPUs, or take them back."""
        collector = self.feed.collector
        if collector is None:
            self.show_message("a recording holds no GPU that it could let go of")
            return
        if self.feed.state is FeedState.RELEASED:
            collector.resume()
        else:
            collector.release()
        self.show_message("")

    def action_wake(self) -> None:
        """Look again at GPUs that are left alone so that they can fall asleep."""
        collector = self.feed.collector
        if collector is None:
            self.show_message("this is a recording: it has no GPU that could be looked at")
            return
        latest = self.feed.latest
        if latest is None or not any(map(is_suspended_on_purpose, latest.devices)):
            self.show_message("no GPU is known to be left alone on battery")
            return
        collector.resume()
        self.show_message("")
