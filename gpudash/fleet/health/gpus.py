"""Rules about GPUs: lost, broken, with XID errors, too hot, slower than others of their job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from statistics import median

from gpudash.analysis.health.rule import Rule, Symptom, number
from gpudash.analysis.health.rules.reliability import meaning
from gpudash.fleet.health.survey import (
    MAX_EVIDENCE,
    Survey,
    check,
    enter,
    rule,
    symptom,
    where,
)
from gpudash.fleet.jobs import Pace, paces_of
from gpudash.fleet.lasting import Bound
from gpudash.fleet.summary import GpuRow, count_gpus
from gpudash.model.fleet import JobKey
from gpudash.model.state import HOT, SLOW, STATES, UNUSABLE, state_of
from gpudash.model.units import counted, inflected, watts_in_words

OUT_OF_ORDER = {
    state: rule(10 + rank, f"gpus-{state.id}", f"GPUs that {inflected(2, state.fact)}")
    for rank, state in enumerate(STATES)
    if state.is_broken
}
MISSING = rule(30, "gpus-missing", "GPUs that a host had, or should have, are gone")
FLAPPING = rule(35, "gpus-flapping", "GPUs that were lost three times or more in a day")
XID_CRITICAL = rule(40, "xid-critical", "recent XID errors that need a person")
XID_BURST = rule(50, "xid-burst", "the same XID error on several hosts of a group")
XID_WARNING = rule(85, "xid-warning", "recent XID errors that are a warning on one host")
STRAGGLER = rule(
    90, "straggler", "a GPU slower than the others of its job, which wait for it", status=SLOW
)
THROTTLED = rule(95, f"gpus-{HOT.id}", "GPUs that slow down for heat")
HOT_OUTLIER = rule(100, "hot-outlier", "GPUs far hotter than others of their model", status=HOT)

_BURST_HOSTS = 3
_MIN_PEERS = 16
"""Computing GPUs of a model that are needed to know what is usual for it."""
_HOT_CELSIUS, _HOT_DEVIATIONS, _MIN_HOT_STEP = 80, 3, 12
_LOW_LIMIT_SHARE, _HOTTER_CELSIUS = 0.95, 12


@check
def lost(survey: Survey) -> Iterator[Symptom]:
    """GPUs that hosts should have, and that are gone or cannot be read."""
    for status, concerned in survey.problems.items():
        state = state_of(status)
        # An XID has its own finding.
        rows = [row for row in concerned if state is not UNUSABLE or row.device.xid is None]
        if state not in OUT_OF_ORDER or not rows:
            continue
        # The newest first.
        rows.sort(key=lambda row: inf if row.device.age_seconds is None else row.device.age_seconds)
        verb = inflected(len(rows), state.fact)
        hosts = list({row.host.name: row.host for row in rows}.values())
        yield symptom(
            OUT_OF_ORDER[state],
            "critical",
            f"{counted(len(rows), 'GPU')} on {counted(len(hosts), 'host')} {verb}: {where(rows)}",
            f"{survey.drain(hosts, f'GPU {state.sentence}')}; the reason: {enter(hosts[0])}",
            rows,
            fields=("status", "age_seconds"),
            ages=[row.device.age_seconds for row in rows],
        )
    missing = [(host, n) for host in survey.hosts if (n := survey.missing(host))]
    if missing:
        hosts = [host for host, _ in missing]
        first, n = missing[0]
        there = (first.expected_devices or 0) - n
        shown = f"{first.name} has {there} of {first.expected_devices}"
        total = sum(n for _, n in missing)
        yield symptom(
            MISSING,
            "critical",
            f"{counted(total, 'GPU')} on {counted(len(hosts), 'host')} "
            f"{'is' if total == 1 else 'are'} not there any more: {shown}"
            + (f", and {counted(len(hosts) - 1, 'other host')}" if len(hosts) > 1 else ""),
            f"{survey.drain(hosts, 'GPU missing')}; the reason: {enter(first)}",
            hosts=hosts,
            evidence=[number("missing_count", n, host.name) for host, n in missing[:MAX_EVIDENCE]],
        )


@check
def flapping(survey: Survey) -> Iterator[Symptom]:
    """GPUs that are lost again and again, whether they are there now or not."""
    rows = survey.flapping
    if not rows:
        return
    hosts = list({row.host.name: row.host for row in rows}.values())
    verb = "was" if len(rows) == 1 else "were"
    most = max(row.device.losses or 0 for row in rows)
    yield symptom(
        FLAPPING,
        "critical",
        f"{counted(len(rows), 'GPU')} {verb} lost up to {most} times in a day: {where(rows)}",
        f"{survey.drain(hosts, 'GPU lost again')}; check its slot, power and board: "
        f"{enter(hosts[0])}",
        rows,
        fields=["losses"],
    )


@check
def xids(survey: Survey) -> Iterator[Symptom]:
    """Recent XID errors: as bad as on one host, and the same one on several hosts of a group."""
    for code, rows in survey.xids.items():
        what = meaning(code)
        by_group: dict[str | None, set[str]] = {}
        for host, _ in rows:
            by_group.setdefault(host.group, set()).add(host.name)
        group = max(by_group, key=lambda each: len(by_group[each]))
        is_burst = len(by_group[group]) >= _BURST_HOSTS
        if not is_burst and what.level == "info":
            continue
        hosts = {row.host.name: row.host for row in rows}
        on = counted(len(hosts), "host")
        if is_burst and group is not None:
            on = f"{counted(len(by_group[group]), 'host')} of {group}"
            others = len(hosts) - len(by_group[group])
            on += f" and {counted(others, 'other')}" if others else ""
        advice = what.advice
        if what.level == "critical":
            advice = f"{survey.drain(hosts.values(), f'XID {code}')}. {advice}"
        ages = [row.device.xid_seconds for row in rows]
        when = "" if any(each is not None for each in ages) else ", it is not known when"
        alone = XID_CRITICAL if what.level == "critical" else XID_WARNING
        yield symptom(
            XID_BURST if is_burst else alone,
            "critical" if what.level == "critical" else "warn",
            f"XID {code} on {counted(len(rows), 'GPU')} of {on}{when}: {what.text}: {where(rows)}",
            advice,
            rows,
            subject=code,
            fields=["xid", "xid_seconds"],
            ages=ages,
        )


@check
def hot(survey: Survey) -> Iterator[Symptom]:
    """GPUs so hot that they slow down, and those much hotter than others of their model."""
    throttled, found = survey.problems.get(HOT.id, []), list[GpuRow]()
    if throttled:
        slow = "it slows down" if len(throttled) == 1 else "they slow down"
        what = f"so hot that {slow}{_degrees(throttled)}"
        ages = [row.host.slow_seconds.get(row.device.uuid or "") for row in throttled]
        yield _of_heat(THROTTLED, what, throttled, ages)
    usual: list[float] = []
    ages = []
    for rows in survey.computing.values():
        known = [s.device.temperature_celsius for s in rows]
        degrees = [each for each in known if each is not None]
        if len(degrees) < _MIN_PEERS or max(degrees) < _HOT_CELSIUS:
            continue
        middle = median(degrees)
        spread = median([abs(each - middle) for each in degrees])
        limit = max(middle + max(_HOT_DEVIATIONS * spread, _MIN_HOT_STEP), _HOT_CELSIUS)
        outliers = [s for s in rows if (s.device.temperature_celsius or 0) >= limit]
        outliers = [*filter(survey.covers_gpu, outliers)]
        found += outliers
        usual += [middle] * len(outliers)
        within = (Bound("temperature_celsius", limit),)
        ages += [survey.age(HOT_OUTLIER, row, within) for row in outliers]
    if found:
        against = f", others of the model {median(usual):.0f} °C"
        what = f"far hotter than the others{_degrees(found)}{against}"
        yield _of_heat(HOT_OUTLIER, what, found, ages)


def _of_heat(
    rule: Rule, what: str, rows: Sequence[GpuRow], ages: Sequence[float | None]
) -> Symptom:
    rows = sorted(rows, key=lambda row: -(row.device.temperature_celsius or 0))
    return symptom(
        rule,
        "warn",
        f"{counted(len(rows), 'GPU')} {what}: {where(rows)}",
        f"Check fans, air and the slot; which clocks it loses: {enter(rows[0].host)}",
        rows,
        fields=["temperature_celsius", "power_usage_mw", "sm_clock_mhz"],
        ages=ages,
    )


def _degrees(rows: Sequence[GpuRow]) -> str:
    """Return ` at 93 °C` for the hottest, empty if no temperature is known."""
    warmest = max((row.device.temperature_celsius or 0 for row in rows), default=0)
    return f" at {warmest} °C" if warmest else ""


@check
def stragglers(survey: Survey) -> Iterator[Symptom]:
    """GPUs slower than the others of their job and model, and why they are."""
    for key, rows in survey.by_job.items():
        for pace in paces_of(rows):
            # GPUs slowed down by heat have their own finding.
            slow = [row for row in pace.slow if row.device.status != HOT.id]
            slow = [*filter(survey.covers_gpu, slow)]
            if slow:
                yield _straggler(survey, key, rows, pace, slow)


def _straggler(
    survey: Survey, key: JobKey, rows: Sequence[GpuRow], pace: Pace, slow: Sequence[GpuRow]
) -> Symptom:
    job, name = survey.jobs.get(key), survey.job_name(rows[0].host, key[1])
    owner = f" of {job.user}" if job is not None and job.user else ""
    share = 100 * min(s.device.sm_clock_mhz or 0 for s in slow) / pace.clock_mhz
    run, them = ("runs", "it") if len(slow) == 1 else ("run", "them")
    models = {row.device.name for row in rows if row.device.parent_uuid is None}
    others, of_job = count_gpus(rows).total() - len(slow), f"of job {name}"
    if len(models) > 1:
        others, of_job = len(pace.busy) - len(slow), f"of the same model in job {name}"
    return symptom(
        STRAGGLER,
        "warn",
        f"{where(slow)} {run} at {share:.0f}% of the clock of the other "
        f"{others} {of_job}{owner}{_reason(slow, pace.busy)}",
        f"The others wait for {them}. {survey.drain([slow[0].host], 'slow GPU')}; see why: "
        f"{enter(slow[0].host)}",
        slow,
        subject=(key, pace.busy[0].device.name),
        fields=["sm_clock_mhz", "temperature_celsius", "power_usage_mw"],
        evidence=[number("sm_clock_mhz", pace.clock_mhz, f"median {of_job}")],
        ages=[survey.age(STRAGGLER, row, pace.slow_within) for row in slow],
    )


def _reason(slow: Sequence[GpuRow], peers: Sequence[GpuRow]) -> str:
    """Return what sets the first slow GPU apart, empty if nothing known does."""
    device = slow[0].device
    limits = [s.device.enforced_power_limit_mw for s in peers if s.device.enforced_power_limit_mw]
    degrees = [s.device.temperature_celsius for s in peers if s.device.temperature_celsius]
    usual = median(limits) if limits else 0
    limit = device.enforced_power_limit_mw
    first = where(slow[:1])
    if limit and limit < _LOW_LIMIT_SHARE * usual:
        watts, theirs = watts_in_words(limit), watts_in_words(usual)
        if len(slow) == 1:
            return f": its power limit is {watts}, theirs {theirs}"
        return f": the power limit of {first} is {watts}, that of most {theirs}"
    middle = median(degrees) if degrees else 0
    warm = device.temperature_celsius
    if warm is not None and degrees and warm >= middle + _HOTTER_CELSIUS:
        if len(slow) == 1:
            return f": it has {warm} °C, they have {middle:.0f} °C"
        return f": {first} has {warm} °C, most have {middle:.0f} °C"
    return ""
