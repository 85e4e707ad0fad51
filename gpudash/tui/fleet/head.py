"""The lines above and below every page: the title, all GPUs by status, failing sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.segment import Segment
from rich.style import Style

from gpudash.analysis.labels import told_apart
from gpudash.fleet.groups import model_of
from gpudash.fleet.names import folded
from gpudash.fleet.summary import HostRow, Totals, brief, is_whole_and_free, part_of
from gpudash.fleet.verdict import verdict
from gpudash.model.fleet import EMPTY, Event
from gpudash.model.state import ACKNOWLEDGED, DRAINED, HELD, UNKNOWN, Level, state_of
from gpudash.model.text import SafeText, width
from gpudash.model.units import celsius, counted, duration, grouped, hours, kilowatts, percent
from gpudash.tui.bindings import shown_key
from gpudash.tui.draw.line import Line, cells_of, fit_parts, fitted, spread
from gpudash.tui.fleet.happened import span_around
from gpudash.tui.fleet.model import FleetModel
from gpudash.tui.theme import Theme

_BETWEEN = "   "
_MIN_FILTER = 12
"""Cells of a filter that have priority over the counts."""


def header(model: FleetModel, mark: str, cells: int) -> Line:
    """Return the cluster and how much of it answers; the time, the oldest age, the interval."""
    theme, snapshot, sums, pace = model.theme, model.snapshot, model.everything, model.time.pace
    if snapshot is EMPTY:
        return spread(
            [Segment(" gpudash", theme.header_strong)],
            [Segment(f"{pace} ", theme.header_dim)],
            cells,
            theme.header,
        )
    now = local_time(snapshot.taken_at, dated=model.time.is_recorded or not model.time.is_live)
    right: Line = [Segment(f" {mark} ", theme.mark), Segment(" ", theme.header)] if mark else []
    right.append(Segment(now, theme.header))
    hosts = part_of(sums.answering, _expected_hosts(model), "host")
    gpus = part_of(sums.gpus, sums.expected_gpus, "GPU")
    names = ", ".join(dict.fromkeys(str(source.name) for source in snapshot.sources))
    old = sums.oldest_seconds
    age = "" if old is None else f"  {duration(old)} old"
    # The past has no age at present, and no new samples.
    ends = (f"{age}  {pace} ", f"{age} ", " ") if not model.time.is_past else (" ",)
    rights = [[*right, Segment(end, theme.header_dim)] for end in ends]
    room = cells - cells_of(rights[-1])
    lefts = [("gpudash", names, hosts, gpus), ("gpudash", hosts, gpus), (hosts, gpus), (hosts,)]
    if width(names) > max(24, room // 3):
        lefts.pop(0)
    for end in rights:
        for texts in lefts[:-1] if end is not rights[-1] else lefts:
            text = " " + _BETWEEN.join(texts)
            if width(text) + 1 + cells_of(end) <= cells:
                return spread(_named(text, theme), end, cells, theme.header)
    end = [Segment(" ", theme.header), *right]
    return spread([Segment(f" {hosts}", theme.header)], end, cells, theme.header)


def _named(text: str, theme: Theme) -> Line:
    name = " gpudash"
    if not text.startswith(name):
        return [Segment(text, theme.header)]
    return [Segment(name, theme.header_strong), Segment(text[len(name) :], theme.header)]


def local_time(moment: datetime, *, dated: bool = False) -> str:
    """Return an instant in local time, with its day if it may be another."""
    return moment.astimezone().strftime("%m-%d %H:%M:%S" if dated else "%H:%M:%S")


def fleet_line(
    sums: Totals, theme: Theme, cells: int, *, title: str = "", position: str = ""
) -> Line:
    """Return the GPUs by status, their mean utilization, power and hottest.

    The `title` of the page comes first; `position`, which rows are in view, always comes at the
    end.
    """
    counts: list[Line] = [[Segment(f" {title} ", theme.title)]] if title else []
    for status, count in sums.counts.items():
        state = state_of(status)
        is_news = state is not ACKNOWLEDGED
        style = _count_style(state.level, theme) if is_news else theme.dim
        number = Segment(f" {count:,}", style)
        counts.append([number, Segment(f" {state.word} ", theme.dim if count else theme.faint)])
    end = [Segment(f"   {position} ", theme.dim)] if position else []
    room = max(0, cells - cells_of(end))
    taken = sum(map(cells_of, counts))
    tries = _amounts(sums, theme)
    right = next((each for each in tries if taken + cells_of(each) <= room), [])
    more = Segment(f" {theme.glyphs.ellipsis} ", theme.dim)
    return spread(fit_parts(counts, room, more), [*right, *end], cells, theme.base)


def _amounts(sums: Totals, theme: Theme) -> list[Line]:
    """Return utilization, power and the hottest, in decreasing length."""
    if sums.utilization is None and sums.power_mw is None and sums.temperature is None:
        return []
    mean = percent(sums.utilization)
    last = Segment(f" {mean} ", theme.strong)
    if sums.power_mw is None and sums.temperature is None:
        return [[Segment("mean ", theme.dim), Segment(f"{mean} ", theme.strong)], [last]]
    power, hottest = kilowatts(sums.power_mw), celsius(sums.temperature)
    limit = "" if sums.limit_mw is None else f" of {kilowatts(sums.limit_mw)}"
    short = [Segment(f" {mean}", theme.strong), Segment(f"  {power}", theme.base)]
    of, end = Segment(limit, theme.dim), Segment(f"  {hottest} ", theme.base)
    long = [
        *(Segment("mean ", theme.dim), Segment(mean, theme.strong)),
        *(Segment("   power ", theme.dim), Segment(power, theme.base), of),
        *(Segment("   hottest ", theme.dim), Segment(f"{hottest} ", theme.base)),
    ]
    space = Segment(" ", theme.base)
    return [long, [*short, of, end], [*short, end], [*short, space], [last]]


def _count_style(level: Level, theme: Theme) -> Style:
    return theme.strong if level in ("ok", "unknown") else theme.level(level)


def filter_line(model: FleetModel, theme: Theme, cells: int, leaves: Sequence[str]) -> list[Line]:
    """Return the filter in force, shortened if needed, with its counts; no line without one."""
    if not model.is_filtered:
        return []
    text = model.filter.text
    sign = Segment(" / ", theme.title)
    counts = [Segment(each, theme.base) for each in leaves]
    while counts and cells - cells_of([sign, *counts]) < min(width(text), _MIN_FILTER):
        counts.pop()
    room = max(0, cells - cells_of([sign, *counts]))
    named = Segment(theme.cut(text, room), theme.strong)
    return [fitted([sign, named, *counts], cells, theme.base)]


def around_line(model: FleetModel, theme: Theme, cells: int) -> list[Line]:
    """Return the events around the past instant shown; no line if unknown."""
    found = model.happened_around
    if found is None:
        return []
    first, last = span_around(model.snapshot.taken_at)
    last = min(last, model.history.latest.taken_at)
    text = f" {first.astimezone():%H:%M} to {last.astimezone():%H:%M}  "
    entries = _by_kind(found, theme) or [[Segment("no event is known", theme.dim)]]
    return [listed_line([Segment(text, theme.title)], entries, cells, theme, _all_events(model))]


def since_line(model: FleetModel, theme: Theme, cells: int) -> list[Line]:
    """Return the present differences from the past instant shown; no line if none."""
    if model.time.is_recorded or not model.time.is_past:
        return []
    heading = [Segment(" differs now ", theme.title)]
    entries = _by_kind(model.changed_since, theme)
    return [listed_line(heading, entries, cells, theme, _all_events(model))] if entries else []


def _all_events(model: FleetModel) -> str:
    key = shown_key(model.keys, "fleet.events")
    return f"{model.theme.glyphs.ellipsis} {key} lists all"


def _by_kind(events: Iterable[Event], theme: Theme) -> list[Line]:
    """Return events by kind in a few words each, the most severe first."""
    kinds: dict[str, list[Event]] = {kind: [] for kind in _EVENT_WORDS}
    for event in events:
        kinds.setdefault(event.kind, []).append(event)
    entries = []
    for kind, found in kinds.items():
        words = _EVENT_WORDS.get(kind, kind)
        for code in dict.fromkeys(each.xid for each in found):
            some = [each for each in found if each.xid == code]
            style = theme.critical if some[0].level == "critical" else theme.ok
            what = words if code is None else f"{words} {code}"
            if some[0].is_of_job:
                entry = [Segment(f"{counted(len(some), 'job')} {what}  ", theme.dim)]
            else:
                names = dict.fromkeys(
                    f"{each.host}" if each.gpu is None else f"{each.host}:{each.gpu}"
                    for each in some
                )
                place = Segment(f"{brief(tuple(names))} ", theme.base)
                entry = [place, Segment(f"{what}  ", style)]
            entries.append(entry)
    return entries


_EVENT_WORDS = {
    "host-down": "down",
    "gpu-lost": "lost",
    "xid": "XID",
    "throttled": "throttled",
    "drained": "drained",
    "host-up": "up",
    "gpu-returned": "back",
    "unthrottled": "not throttled",
    "undrained": "not drained",
    "job-ended": "ended",
    "job-began": "began",
}
"""Events in a word or two, the most severe first."""


def held_line(model: FleetModel, theme: Theme, cells: int) -> Line:
    """Return who holds GPUs idle, the largest number first."""
    users = model.wasters
    heading = [Segment(" held idle  ", theme.dim)]
    if not model.totals.answering:
        return [*heading, Segment(_why_none(model), theme.dim)]
    if not users:
        return _held_hosts(model, heading, theme, cells)
    entries = []
    for user in users:
        lasting = hours(user.idle_gpu_hours).removesuffix("h")
        text = f" ({lasting} GPU-h)  " if user.idle_gpu_hours else "  "
        count = Segment(f"{user.held_idle}", theme.warn)
        entries.append([Segment(f"{user.name} ", theme.owner), count, Segment(text, theme.dim)])
    return listed_line(heading, entries, cells, theme)


def _held_hosts(model: FleetModel, heading: Line, theme: Theme, cells: int) -> Line:
    """Return where GPUs are held idle, the largest number first, if users are unknown."""
    rows = sorted(model.rows, key=lambda row: -row.count(HELD))
    rows = [row for row in rows if row.is_known and row.count(HELD)]
    if not rows:
        text = "none so far: still asking" if model.snapshot.is_asking else "none"
        return [*heading, Segment(text, theme.dim)]
    entries = [
        [Segment(f"{row.title} ", theme.base), Segment(f"{row.count(HELD)}   ", theme.warn)]
        for row in rows
    ]
    return listed_line(
        [*heading, Segment("by unknown users on: ", theme.base)], entries, cells, theme
    )


def _why_none(model: FleetModel) -> str:
    """Return the text about GPUs while no shown host answers."""
    return "no GPU passes the filter" if model.is_filtered and not model.rows else "not known"


def free_line(model: FleetModel, theme: Theme, cells: int) -> Line:
    """Return the hosts with all GPUs free, the largest first.

    If there are several models, they are named.
    """
    whole = [row for row in model.rows if is_whole_and_free(row)]
    whole.sort(key=lambda row: -row.gpus)
    if not whole:
        known = [row for row in model.rows if row.is_known]
        drained = [row for row in known if 0 < row.gpus == row.count(DRAINED)]
        scattered = sum(row.free for row in known)
        names = brief(tuple([row.title for row in drained]))
        except_for = f" but drained {names}" if drained else ""
        no_host = "no host shown" if model.is_filtered else "no host"
        text = f"{no_host} with all its GPUs free{except_for}; {scattered:,} free on others"
        if not model.totals.answering:
            text = _why_none(model)
        return [Segment(" free       ", theme.dim), Segment(text, theme.dim)]
    heading = [Segment(" free       ", theme.dim)]
    return [*heading, *_alike(model, whole, theme, cells - cells_of(heading))]


def _alike(model: FleetModel, rows: Sequence[HostRow], theme: Theme, cells: int) -> Line:
    """Return hosts by kind of GPUs: as many kinds as fit, each with at least one host."""
    models = told_apart(filter(None, {model_of(row.host) for row in model.rows}))
    found = grouped(((row.gpus, models.get(model_of(row.host) or "")), row.title) for row in rows)
    kinds, room = list[tuple[str, list[SafeText], int]](), cells
    for (size, name), names in found.items():
        gpus = f"{size} {name}" if name and len(models) > 1 else f"all {size}"
        text = f"{gpus} on {counted(len(names), 'host')}"
        least = width(_named_of(names, 1))
        if kinds and width(text) + least > room:
            break
        kinds.append((text, names, least))
        room -= width(text) + least + len(_BETWEEN)
    room += len(_BETWEEN)
    line: Line = []
    for text, names, least in kinds:
        # The remainder of one kind is left to the next.
        named = _named_in(names, least + room)
        room += least - width(named)
        line += [Segment(text, theme.base), Segment(named + _BETWEEN, theme.ok)]
    if len(kinds) < len(found) and cells_of(line) < cells:
        line.append(Segment(theme.glyphs.ellipsis, theme.dim))
    return fitted(line, cells, theme.base)


def _named_in(names: Sequence[str], cells: int) -> str:
    """Return as many names as fit, empty if the first does not."""
    counts = (len(names), *range(min(len(names) - 1, cells), 0, -1))
    texts = (_named_of(names, count) for count in counts)
    return next((text for text in texts if width(text) <= cells), "")


def _named_of(names: Sequence[str], count: int) -> str:
    """Return this many of the names in brackets, and how many more there are."""
    left = len(names) - count
    return f": {folded(names[:count])}" + (f" +{left}" if left else "")


def listed_line(
    heading: Line, entries: Sequence[Line], cells: int, theme: Theme, more: str = ""
) -> Line:
    """Return a heading and the entries that fit whole; `more` or an ellipsis for the others."""
    end = Segment(f"{more or theme.glyphs.ellipsis} ", theme.dim)
    return [*heading, *fit_parts(entries, cells - cells_of(heading), end)]


def host_line(row: HostRow | None, others: int, theme: Theme, cells: int) -> Line:
    """Return the data of the host under the cursor, the most important first.

    `others` is how many more hosts share its cell on the map.
    """
    if row is None:
        return []
    host = row.host
    texts = []
    if others:
        texts.append((f"one of {others + 1} ", theme.dim))
    if row.level != "ok":
        texts.append((f" {row.state_text} ", theme.level(row.level)))
    if host.message:
        texts.append((f" {host.message} ", theme.base))
    values = theme.base if row.is_known else theme.dim
    for status, count in row.counts.items():
        state = state_of(status)
        is_shown = row.state_text.endswith(state.word)
        if count and state is not UNKNOWN and not is_shown:
            texts.append((f" {count} {state.word} ", values))
    if row.utilization is not None:
        texts.append((f" {percent(row.utilization)} ", values))
    if row.users:
        texts.append((f" {', '.join(row.users[:3])} ", theme.owner if row.is_known else theme.dim))
    if row.power_mw is not None:
        texts.append((f" {kilowatts(row.power_mw)} ", values))
    if row.temperature is not None:
        texts.append((f" {celsius(row.temperature)} ", values))
    if host.drain_reason is not None:
        texts.append((f" drained: {host.drain_reason} ", theme.warn))
    unknown = "age unknown" if host.devices else "never answered"
    age = unknown if host.age_seconds is None else f"{duration(host.age_seconds)} old"
    texts.append((f" {age}", theme.dim))
    title = Segment(theme.cut(f" {row.title} ", cells), theme.strong)
    parts = [Segment(text, style) for text, style in texts]
    more = Segment(f" {theme.glyphs.ellipsis}", theme.dim)
    return [title, *fit_parts([[each] for each in parts], cells - cells_of([title]), more)]


def verdict_line(model: FleetModel, theme: Theme, cells: int) -> Line:
    """Return whether everything shown can be left alone, as much as fits, or nothing."""
    sums, now = model.totals, model.snapshot.taken_at
    hosts = sums.hosts if model.is_filtered else _expected_hosts(model)
    texts, level = verdict(
        model.findings,
        sums.answering,
        hosts,
        now,
        is_asking=model.snapshot.is_asking,
        is_part=model.is_filtered,
    )
    style = theme.level(level)
    parts = [
        [Segment(f"{', ' if number else ' '}{text}", style)] for number, text in enumerate(texts)
    ]
    return fit_parts(parts, cells)


def _expected_hosts(model: FleetModel) -> int:
    expected = sum(source.expected_hosts or 0 for source in model.snapshot.sources)
    return max(expected, model.everything.hosts)


def source_lines(model: FleetModel, theme: Theme, cells: int) -> list[Line]:
    """Return the failing sources in one line, none while all is well."""
    failing = model.failing
    if not failing:
        return []
    first = failing[0]
    why = first.message or (first.warnings[0] if first.warnings else first.state)
    age = "" if first.age_seconds is None else f", last answer {duration(first.age_seconds)} ago"
    more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
    style = theme.critical if first.state == "failed" else theme.warn
    text = f"{first.name}{age}: {why}{more}"
    return [[Segment(f" {theme.cut(text, cells - 2)}", style)]]
