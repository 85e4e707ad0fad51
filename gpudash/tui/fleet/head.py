"""The lines above and below every page: what this is, what all GPUs do, which source fails."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.segment import Segment
from rich.style import Style

from gpudash.fleet.summary import HostRow, Totals, brief, is_whole_and_free, part_of
from gpudash.model.state import HELD, UNKNOWN, Level, state_of
from gpudash.model.text import cut, width
from gpudash.model.units import celsius, counted, duration, hours, kilowatts, percent
from gpudash.tui.draw.line import Line, cells_of, spread
from gpudash.tui.fleet.model import FleetModel
from gpudash.tui.fleet.timeline import EMPTY
from gpudash.tui.theme import Theme

_BETWEEN = "   "
_PAIR = 2
"""Texts of a count: the number and its word."""
_MIN_FILTER = 12
"""Cells of a filter that matter more than what it leaves."""
Text = tuple[str, Style]


def _fits_or_cut(texts: Sequence[Text], cells: int, theme: Theme) -> Line:
    """Return texts side by side, as many as fit whole; the first is cut if it must be."""
    line: Line = []
    room = cells
    for text, style in texts:
        if width(text) > room:
            if not line:
                line.append(Segment(cut(text, room, mark=theme.glyphs.ellipsis), style))
            break
        line.append(Segment(text, style))
        room -= width(text)
    return line


def header(model: FleetModel, mark: str, pace: str, cells: int) -> Line:
    """Return what is watched and how much of it answers; the time, the oldest age, the pace."""
    theme, snapshot, sums = model.theme, model.snapshot, model.everything
    if snapshot is EMPTY:
        return spread(
            [Segment(" gpudash", theme.header_strong)],
            [Segment(f"{pace} ", theme.header_dim)],
            cells,
            theme.header,
        )
    now = clock(snapshot.taken_at, dated=model.time.moment is not None)
    right: Line = [Segment(f" {mark} ", theme.mark), Segment(" ", theme.header)] if mark else []
    right.append(Segment(now, theme.header))
    expected = sum(source.expected_hosts or 0 for source in snapshot.sources)
    hosts = part_of(sums.answering, max(expected, sums.hosts), "host")
    gpus = part_of(sums.gpus, sums.expected_gpus, "GPU")
    names = ", ".join(dict.fromkeys(str(source.name) for source in snapshot.sources))
    old = sums.oldest_seconds
    age = "" if old is None else f"  {duration(old)} old"
    rights = [[*right, Segment(f"{age}  {pace} ", theme.header_dim)]]
    rights += [[*right, Segment(f"{age} ", theme.header_dim)], [*right, Segment(" ", theme.header)]]
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


def clock(moment: datetime, *, dated: bool = False) -> str:
    """Return an instant in local time, with its day if it may be another."""
    return moment.astimezone().strftime("%m-%d %H:%M:%S" if dated else "%H:%M:%S")


def fleet_line(sums: Totals, theme: Theme, cells: int, *, position: str = "") -> Line:
    """Return the GPUs by what they do, their mean utilization, power and hottest.

    `position` is which rows are in view, and stands at the end whatever else fits.
    """
    counts: list[Text] = []
    for status, count in sums.counts.items():
        state = state_of(status)
        style = _count_style(state.level, theme)
        counts += [(f" {count:,}", style), (f" {state.word} ", theme.dim if count else theme.faint)]
    end: list[Text] = [(f"   {position} ", theme.dim)] if position else []
    room = max(0, cells - _cells(end))
    right = next(
        (each for each in _amounts(sums, theme) if _cells(counts) + _cells(each) <= room), []
    )
    # A number whose word does not fit would say nothing.
    while len(counts) > _PAIR and _cells(counts) > room:
        del counts[-_PAIR:]
    return spread(
        _fits_or_cut(counts, room, theme),
        [Segment(*text) for text in (*right, *end)],
        cells,
        theme.base,
    )


def _amounts(sums: Totals, theme: Theme) -> list[list[Text]]:
    """Return utilization, power and the hottest, each time in fewer words."""
    if sums.utilization is None and sums.power_mw is None and sums.temperature is None:
        return []
    strong, base, dim = theme.strong, theme.base, theme.dim
    mean = percent(sums.utilization)
    if sums.power_mw is None and sums.temperature is None:
        return [[("mean ", dim), (f"{mean} ", strong)], [(f" {mean} ", strong)]]
    power, hottest = kilowatts(sums.power_mw), celsius(sums.temperature)
    limit = "" if sums.limit_mw is None else f" of {kilowatts(sums.limit_mw)}"
    long = [("mean ", dim), (mean, strong), ("   power ", dim), (power, base), (limit, dim)]
    return [
        [*long, ("   hottest ", dim), (f"{hottest} ", base)],
        [(f" {mean}", strong), (f"  {power}", base), (limit, dim), (f"  {hottest} ", base)],
        [(f" {mean}", strong), (f"  {power}", base), (f"  {hottest} ", base)],
        [(f" {mean}", strong), (f"  {power} ", base)],
        [(f" {mean} ", strong)],
    ]


def _cells(texts: Sequence[Text]) -> int:
    return sum(width(text) for text, _ in texts)


def _count_style(level: Level, theme: Theme) -> Style:
    return theme.strong if level in ("ok", "unknown") else theme.level(level)


def filter_line(model: FleetModel, theme: Theme, cells: int) -> list[Line]:
    """Return the filter in force, cut if it must be, with what it leaves; no line without one."""
    if not model.is_filtered:
        return []
    sums, text = model.totals, model.filter_text
    sign: Text = (" / ", theme.title)
    counts = [
        (f"   {part_of(sums.gpus, model.everything.gpus, 'GPU')}", theme.base),
        (f" on {part_of(sums.hosts, model.everything.hosts, 'host')}", theme.base),
    ]
    while counts and cells - _cells([sign, *counts]) < min(width(text), _MIN_FILTER):
        counts.pop()
    text = cut(text, max(0, cells - _cells([sign, *counts])), mark=theme.glyphs.ellipsis)
    return [_fits_or_cut([sign, (text, theme.strong), *counts], cells, theme)]


def held_line(model: FleetModel, theme: Theme, cells: int) -> Line:
    """Return who holds GPUs idle, the most first."""
    users = [user for user in model.shown_users if user.held_idle]
    texts: list[Text] = [(" held idle  ", theme.dim)]
    if not model.totals.answering:
        return [Segment(*text) for text in (*texts, ("not known", theme.dim))]
    if not users:
        return _held_hosts(model, texts, theme, cells)
    for user in users:
        lasting = hours(user.idle_gpu_hours).removesuffix("h")
        texts += [(f"{user.name} ", theme.owner), (f"{user.held_idle}", theme.warn)]
        texts.append((f" ({lasting} GPU-h)  " if user.idle_gpu_hours else "  ", theme.dim))
    return _whole(texts, 3, cells, theme)


def _held_hosts(model: FleetModel, texts: list[Text], theme: Theme, cells: int) -> Line:
    """Return where GPUs are held idle, the most first, for want of a user's name."""
    rows = sorted(model.rows, key=lambda row: -row.count(HELD))
    rows = [row for row in rows if row.is_known and row.count(HELD)]
    if not rows:
        return [Segment(*text) for text in (*texts, ("none", theme.dim))]
    texts.append(("by unknown users on: ", theme.base))
    for row in rows:
        texts += [(f"{row.title} ", theme.base), (f"{row.count(HELD)}   ", theme.warn)]
    return _whole(texts, 2, cells, theme)


def free_line(model: FleetModel, theme: Theme, cells: int) -> Line:
    """Return the hosts on which all GPUs are free, those with the most first."""
    whole = [row for row in model.rows if is_whole_and_free(row)]
    whole.sort(key=lambda row: -row.gpus)
    if not whole:
        drained = [
            row
            for row in model.rows
            if row.is_known and row.host.drain_reason and row.gpus and row.free == len(row.devices)
        ]
        scattered = sum(row.free for row in model.rows if row.is_known)
        scattered -= sum(row.free for row in drained)
        names = brief(tuple([row.title for row in drained]))
        except_for = f" but drained {names}" if drained else ""
        text = f"no host with all its GPUs free{except_for}; {scattered:,} free on others"
        if not model.totals.answering:
            text = "not known"
        return [Segment(" free       ", theme.dim), Segment(text, theme.dim)]
    size = whole[0].gpus
    count = sum(row.gpus == size for row in whole)
    texts: list[Text] = [
        (" free       ", theme.dim),
        (f"all {size} on {counted(count, 'host')}: ", theme.base),
    ]
    texts += [(f"{row.title} ", theme.ok) for row in whole]
    return _whole(texts, 1, cells, theme)


def _whole(texts: Sequence[Text], several: int, cells: int, theme: Theme) -> Line:
    """Return a heading and as many entries of several texts as fit, an ellipsis for the others."""
    more = f"{theme.glyphs.ellipsis} "
    heading = 1 + (len(texts) - 1) % several
    shown, room = list(texts[:heading]), cells - _cells(texts[:heading])
    for start in range(heading, len(texts), several):
        entry = texts[start : start + several]
        is_last = start + several >= len(texts)
        if _cells(entry) + (0 if is_last else width(more)) > room:
            shown.append((more, theme.dim))
            break
        shown += entry
        room -= _cells(entry)
    return [Segment(*text) for text in shown]


def host_line(row: HostRow | None, others: int, theme: Theme, cells: int) -> Line:
    """Return what is known of the host under the cursor, the most important first."""
    if row is None:
        return []
    host = row.host
    texts: list[Text] = [(f" {row.title} ", theme.strong)]
    if others:
        texts.append((f"one of {others + 1} ", theme.dim))
    if row.level != "ok":
        texts.append((f" {row.state_text} ", theme.level(row.level)))
    if host.message:
        texts.append((f" {host.message} ", theme.base))
    values = theme.base if row.is_known else theme.dim
    for status, count in row.counts.items():
        state = state_of(status)
        is_shown = state is row.problem and host.state == "ok"
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
    return _fits_or_cut(texts, cells, theme)


def source_lines(model: FleetModel, theme: Theme, cells: int) -> list[Line]:
    """Return what fails of the sources in one line, none while all is well."""
    failing = model.failing
    if not failing:
        return []
    first = failing[0]
    why = first.message or (first.warnings[0] if first.warnings else first.state)
    age = "" if first.age_seconds is None else f", last answer {duration(first.age_seconds)} ago"
    more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
    style = theme.critical if first.state == "failed" else theme.warn
    text = f"{first.name}{age}: {why}{more}"
    return [[Segment(f" {cut(text, max(0, cells - 2), mark=theme.glyphs.ellipsis)}", style)]]
