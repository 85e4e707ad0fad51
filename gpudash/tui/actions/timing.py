"""Time: pausing, stepping back, and how long it is between two samples."""

from __future__ import annotations

from gpudash.feed.playback import Playback
from gpudash.tui.preferences import SHORTEST_KEPT, next_interval
from gpudash.tui.screen import LiveApp


class Timing(LiveApp):
    """Chooses the instant that is shown and how often there is another."""

    def action_pause(self) -> None:
        """Freeze the screen, or catch up with the feed."""
        self.picture.pause(not self.picture.playhead.paused)
        self.say("")

    def action_step(self, samples: int) -> None:
        """Show an earlier or later sample."""
        self.picture.step(samples)
        self.say("")

    def action_interval(self, step: int) -> None:
        """Sample more rarely (1) or more often (-1) from now on.

        What costs a host much is for this session only.
        """
        assert not isinstance(self.feed, Playback)
        seconds = next_interval(self.feed.interval, step)
        if seconds == self.feed.interval:
            self.say(f"{seconds:g} s is the {'longest' if step > 0 else 'shortest'} interval")
            return
        self.feed.change_interval(seconds)
        told = f"a sample every {seconds:g} s"
        if seconds >= SHORTEST_KEPT:
            self.prefer(interval=seconds)
        else:
            told += ", in this session only"
        self.say(told)
