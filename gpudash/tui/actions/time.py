"""What the keys of time do on a live screen and on a recording; holding and releasing the GPUs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gpudash.feed.protocol import FeedState
from gpudash.model.state import is_suspended_on_purpose
from gpudash.tui.dialogs.choose import Choice, ChooseScreen
from gpudash.tui.preferences import next_interval
from gpudash.tui.views.view import put_above

if TYPE_CHECKING:
    from gpudash.tui.app import GpudashApp


def pause(app: GpudashApp) -> None:
    """Freeze the screen, or catch up with the feed; stop a recording, or play on from here."""
    player, dashboard = app.feed.player, app.dashboard
    if player is None:
        dashboard.pause(not dashboard.playhead.paused)
    elif dashboard.playhead.moment is None:
        player.toggle()
    else:
        player.play_from(dashboard.snapshot.taken_at)


def step(app: GpudashApp, samples: int) -> None:
    """Show an earlier or later sample, of a recording out of the file where it is not known."""
    player, dashboard = app.feed.player, app.dashboard
    if player is not None:
        player.pause()
        shown, moments = dashboard.playhead.moment, dashboard.history.moments
        index = moments.index(shown) if shown in moments else len(moments) - 1
        if index + samples < 0 or (shown is None and samples > 0):
            player.step(samples, dashboard.snapshot.taken_at)
            return
    dashboard.step(samples)


def change_interval(app: GpudashApp, step: int) -> None:
    """Sample more rarely (1) or more often (-1), or play faster or slower, from now on."""
    feed, player, collector = app.feed, app.feed.player, app.feed.collector
    if player is not None:
        player.change_speed(step)
    if collector is None:
        return
    seconds = next_interval(feed.interval, step)
    if seconds == feed.interval:
        beyond = "longer" if step > 0 else "shorter"
        app.show_message(f"{seconds:g} s: this key sets no {beyond} interval")
        return
    collector.change_interval(seconds)
    app.preferences.try_out(interval=seconds)
    app.show_message(f"a sample every {seconds:g} s")


def seek(app: GpudashApp) -> None:
    """Choose another time of a recording: of a list that typing narrows down, or any typed."""
    player = app.feed.player
    if player is None:
        app.show_message("only a recording can be taken to another time")
        return

    def chosen(value: str | None) -> None:
        if value is not None:
            player.seek(datetime.fromisoformat(value))

    def understood(typed: str) -> Choice | None:
        moment = player.moment(typed)
        return None if moment is None else _choice(moment.astimezone())

    choices = times(*player.extent)
    now = app.dashboard.snapshot.taken_at
    before = [each.value for each in choices if datetime.fromisoformat(each.value) <= now]
    current = before[-1] if before else ""
    screen = ChooseScreen(
        "Time",
        choices,
        app.dashboard.theme,
        current=current,
        understood=understood,
        hint="type a time, or +1h from the start, -30s from the end",
    )
    put_above(app, screen, chosen)


_STEPS_SECONDS = (1, 2, 5, 10, 15, 30, 60, 300, 600, 900, 1800, 3600, 7200, 21600, 86400)
_MAX_CHOICES = 400


def times(first: datetime, last: datetime) -> list[Choice]:
    """Return the times between two that a list can hold, at round numbers of local time.

    No second is there twice: the first and the last time stand for theirs, which may be one.
    """
    seconds = (last - first).total_seconds()
    step = next((each for each in _STEPS_SECONDS if seconds / each < _MAX_CHOICES), 86400)
    start, end = first.astimezone(), last.replace(microsecond=0)
    day = start.replace(hour=0, minute=0, second=0, microsecond=0)
    number = int((start - day).total_seconds() // step) + 1
    found = [start] if start < end else []
    while (moment := day + timedelta(seconds=number * step)) < end:
        found.append(moment)
        number += 1
    return [_choice(each) for each in [*found, last.astimezone()]]


def _choice(moment: datetime) -> Choice:
    """Return the entry of an instant, which is in local time."""
    return Choice(moment.isoformat(), f"{moment:%H:%M:%S}", f"{moment:%Y-%m-%d}")


def release(app: GpudashApp) -> None:
    """Release the GPUs, so that a reset or a change of MIG mode can proceed; or take them back."""
    collector = app.feed.collector
    if collector is None:
        app.show_message("this is a recording: it holds no GPU to release")
        return
    if app.feed.state is FeedState.RELEASED:
        collector.resume()
    else:
        collector.release()


def wake(app: GpudashApp) -> None:
    """Read GPUs again that are left alone so that they can fall asleep."""
    collector, latest = app.feed.collector, app.feed.latest
    if collector is None:
        app.show_message("this is a recording: it has no GPU to read")
    elif latest is None or not any(map(is_suspended_on_purpose, latest.devices)):
        app.show_message("no GPU is known to be left alone on battery")
    else:
        collector.resume()
