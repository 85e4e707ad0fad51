"""The hold on the driver: letting go of the GPUs, taking them back, waking one that rests."""

from __future__ import annotations

import asyncio
import signal

from gpudash.feed.feed import FeedState
from gpudash.feed.playback import Playback
from gpudash.model.state import is_left_alone
from gpudash.tui.screen import LiveApp


class Driving(LiveApp):
    """Lets a reset or a change of MIG mode proceed, which no client of the driver may be in."""

    def on_mount(self) -> None:
        """Let `kill -USR1` do what the key does, from the shell in which the reset is made."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self.action_release)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])

    def action_release(self) -> None:
        """Let go of the GPUs, or take them back."""
        if isinstance(self.feed, Playback):
            self.say("a recording holds no GPU that it could let go of")
            return
        if self.feed.state is FeedState.RELEASED:
            self.feed.resume()
        else:
            self.feed.release()
        self.say("")

    def action_wake(self) -> None:
        """Look again at GPUs that are left alone so that they can fall asleep."""
        if isinstance(self.feed, Playback):
            self.say("this is a recording: it has no GPU that could be looked at")
            return
        latest = self.feed.latest
        if latest is None or not any(map(is_left_alone, latest.devices)):
            self.say("no GPU is known to be left alone on battery")
            return
        self.feed.resume()
        self.say("")
