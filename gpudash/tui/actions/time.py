"""Playing a recording: stopping, stepping, another time, another speed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from gpudash.feed.playback import Playback
from gpudash.model.snapshot import Snapshot
from gpudash.tui.actions.timing import Timing
from gpudash.tui.dialogs.choices import Choice
from gpudash.tui.views.stack import put_above

_STEPS_SECONDS = (1, 2, 5, 10, 15, 30, 60, 300, 600, 900, 1800, 3600, 7200, 21600, 86400)
_MOST_CHOICES = 400


class Replaying(Timing):
    """Does with the keys of time what they mean on a recording."""

    def on_mount(self) -> None:
        """Take the samples of a recording with their past."""
        if isinstance(self.feed, Playback):
            self.feed.on_samples, self.feed.on_told = self._replayed, self.redraw

    def action_pause(self) -> None:
        """Stop, or play on from what is shown."""
        feed, playhead = self.feed, self.picture.playhead
        if not isinstance(feed, Playback):
            super().action_pause()
            return
        if playhead.moment is None:
            feed.toggle()
        else:
            feed.play_from(self.picture.snapshot.taken_at)
        self.say("")

    def action_step(self, samples: int) -> None:
        """Stop at an earlier or later sample, out of the file where it was not shown yet."""
        feed, picture = self.feed, self.picture
        if not isinstance(feed, Playback):
            super().action_step(samples)
            return
        feed.pause()
        shown = picture.playhead.moment
        moments = picture.history.moments
        place = moments.index(shown) if shown in moments else len(moments) - 1
        if place + samples < 0 or (shown is None and samples > 0):
            feed.step(samples, picture.snapshot.taken_at)
        else:
            picture.step(samples)
        self.say("")

    def action_interval(self, step: int) -> None:
        """Play faster (1) or slower (-1)."""
        if not isinstance(self.feed, Playback):
            super().action_interval(step)
            return
        self.feed.change_speed(step)
        self.say("")

    def action_seek(self) -> None:
        """Choose another time, from a list that typing narrows down."""
        feed = self.feed
        if not isinstance(feed, Playback):
            self.say("only a recording can be taken to another time")
            return
        from gpudash.tui.dialogs.choose import ChooseScreen

        choices = times(feed.tape.first.taken_at, feed.tape.last.taken_at)
        now = self.picture.snapshot.taken_at
        current = [each.value for each in choices if datetime.fromisoformat(each.value) <= now]
        screen = ChooseScreen(
            "Time", choices, self.picture.theme, current=current[-1] if current else ""
        )
        put_above(self, screen, self._sought)

    def _sought(self, value: str | None) -> None:
        if value is not None and isinstance(self.feed, Playback):
            self.feed.seek(datetime.fromisoformat(value))
        self.say("")

    def _replayed(self, snapshots: Sequence[Snapshot], afresh: bool) -> None:
        self.picture.replay(snapshots, afresh)
        self.redraw()


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
