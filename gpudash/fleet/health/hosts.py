"""Rules about hosts and their data: no answer, old values, drivers, free GPUs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpudash.analysis.health.rule import Symptom, number, rough_duration
from gpudash.analysis.health.rules.reliability import FLAPPING
from gpudash.fleet.health.survey import (
    MAX_EVIDENCE,
    Survey,
    at,
    check,
    enter,
    listed,
    node,
    plain,
    rule,
    symptom,
)
from gpudash.fleet.sources import ANNOTATING
from gpudash.model.fleet import FleetHost, HostState
from gpudash.model.host_words import HOST_STATES
from gpudash.model.snapshot import FindingLevel
from gpudash.model.units import counted, grouped

NOT_SILENT = "ok", "connecting", "powered-down"
SILENT = {
    state: rule(60 + rank, f"host-{state}", f"a host {words.sentence}")
    for rank, (state, words) in enumerate(HOST_STATES.items())
    if state not in NOT_SILENT
}
SOURCE_FAILED = rule(80, "source-failed", "a Prometheus, exporters or Slurm do not answer")
SOURCE_PARTIAL = rule(81, "source-partial", "a Prometheus answers in part")
FLAPPING_HOST = rule(75, "host-flapping", "hosts that went away three times or more in a day")
VALUES_OLD = rule(130, "values-old", "hosts that answer with values older than 5 minutes")
FRAGMENTED = rule(160, "fragmented", "many free GPUs, but few hosts on which all are free")
RENAMED = rule(165, "host-renamed", "a host that has had another name until a short time ago")
DRIVER_SKEW = rule(170, "driver-skew", "hosts with another driver than most")
DRAINED = rule(180, "hosts-drained", "hosts on which the scheduler starts no job, and why")

_MIN_FREE_HOSTS, _WHOLE_SHARE = 4, 0.35
"""Fragmented: at least as many free GPUs as this many hosts have, less than this share of them
on hosts that are wholly free.
"""
_MIN_SKEW_HOSTS = 3
_MANY, _MANY_SHARE, _MAX_GROUPS = 8, 0.1, 3
"""This many hosts, and this share of all, are hardly silent for separate reasons."""


@check
def silent_hosts(survey: Survey) -> Iterator[Symptom]:
    """Hosts that do not answer, and why."""
    by_state = grouped(
        (host.state, host)
        for host in survey.snapshot.hosts
        if host.state not in NOT_SILENT and not _is_put_away(host) and survey.covers(host)
    )
    for state, hosts in by_state.items():
        words = HOST_STATES[state]
        first = hosts[0]
        sentence = f"{first.name} {words.sentence}"
        if len(hosts) > 1:
            names = listed([host.name for host in hosts], "host")
            sentence = f"Each of {len(hosts):,} hosts{_of_groups(hosts)} {words.sentence}: {names}"
        reasons = {host.message for host in hosts}
        if first.message:
            sentence += f"; {first.name}" if len(reasons) > 1 else ""
            sentence += f": {first.message}"
        has_lost = state == "no-gpus" and any(host.expected_devices for host in hosts)
        is_critical = has_lost or words.level == "critical"
        level: FindingLevel = "critical" if is_critical else "warn"
        yield symptom(
            SILENT[state],
            level,
            sentence,
            _advice(state, hosts, survey),
            hosts=hosts,
            evidence=[
                number("state", state, host.name)
                if host.age_seconds is None
                else number("age_seconds", host.age_seconds, host.name)
                for host in hosts[:MAX_EVIDENCE]
            ],
            ages=[host.age_seconds for host in hosts],
        )


def _is_put_away(host: FleetHost) -> bool:
    """Whether only its scheduler knows a host, and says why it is not in use: not news."""
    return host.state == "no-metrics" and host.drain_reason is not None


@check
def flapping_hosts(survey: Survey) -> Iterator[Symptom]:
    """Hosts that go away again and again, whether they are there now or not."""
    hosts = [
        host
        for host in survey.snapshot.hosts
        if (host.losses or 0) >= FLAPPING and survey.covers(host)
    ]
    if not hosts:
        return
    most = max(host.losses or 0 for host in hosts)
    names = listed([host.name for host in hosts], "host")
    yield symptom(
        FLAPPING_HOST,
        "warn",
        f"{counted(len(hosts), 'host')} went away up to {most} times in a day: {names}",
        f"{at(hosts[0])}see whether it restarts, or its exporter alone: ssh {plain(hosts[0])} "
        "last reboot",
        hosts=hosts,
        evidence=[number("losses", host.losses or 0, host.name) for host in hosts[:MAX_EVIDENCE]],
    )


def _advice(state: HostState, hosts: Sequence[FleetHost], survey: Survey) -> str:
    """Return advice about hosts of a state, with the names of the first few."""
    first, advice = hosts[0], _ADVICE[state]
    if state == "stale" and _is_by_ssh(first, survey):
        advice = _SILENT_BY_SSH
    if state == "down" and "slurm" in survey.schedulers:
        advice = _DOWN_IN_SLURM
    is_shared = len(hosts) >= max(_MANY, _MANY_SHARE * len(survey.snapshot.hosts))
    if is_shared and state in ("down", "lost-contact", "stale"):
        advice = f"{_SHARED} {advice}"
    names = {"SSH": f"ssh {plain(first)} true", "HOST": plain(first), "NODE": node(first)}
    return at(first) + re.sub("|".join(names), lambda found: names[found[0]], advice)


def _of_groups(hosts: Iterable[FleetHost]) -> str:
    """Return ` of r07, r08`, empty for hosts of many groups or none."""
    groups = sorted({host.group or "" for host in hosts})
    return f" of {', '.join(groups)}" if all(groups) and len(groups) <= _MAX_GROUPS else ""


@check
def renamed_hosts(survey: Survey) -> Iterator[Symptom]:
    """Hosts whose GPUs had another host's name, which no host has any more."""
    hosts = [
        host
        for host in survey.snapshot.hosts
        if host.former_name is not None and survey.covers(host)
    ]
    if not hosts:
        return
    names = listed([f"{host.former_name} is now {host.name}" for host in hosts], "host")
    yield symptom(
        RENAMED,
        "info",
        f"{counted(len(hosts), 'host')} with another name than before: {names}",
        "Their GPUs are those of before. Use the new names, in lists of hosts too.",
        hosts=hosts,
    )


@check
def drained_hosts(survey: Survey) -> Iterator[Symptom]:
    """Hosts on which the scheduler starts nothing, by the reason."""
    by_reason = grouped(
        (host.drain_reason, host)
        for host in survey.snapshot.hosts
        if host.drain_reason is not None and survey.covers(host)
    )
    if not by_reason:
        return
    hosts = [host for some in by_reason.values() for host in some]
    reasons = (
        f"{listed([host.name for host in some], 'host')}: {reason}"
        for reason, some in by_reason.items()
    )
    yield symptom(
        DRAINED,
        "info",
        f"{counted(len(hosts), 'host')} {'is' if len(hosts) == 1 else 'are'} drained: "
        f"{'; '.join(reasons)}",
        f"Once it is repaired: {at(hosts[0])}scontrol update NodeName={node(hosts[0])} "
        "State=RESUME",
        hosts=hosts,
        evidence=[number("host_count", len(hosts))],
    )


def _is_by_ssh(host: FleetHost, survey: Survey) -> bool:
    """Whether a host is known by ssh, so that there is no exporter."""
    sources = survey.snapshot.sources
    return host.source < len(sources) and sources[host.source].kind == "ssh"


_ADVICE: Mapping[HostState, str] = {
    "stale": "Restart its exporter, such as nvidia-dcgm-exporter, and see whether the driver "
    "answers on HOST: nvidia-smi -L",
    "lost-contact": "What is shown of it is old. Try: SSH",
    "down": "See whether it is up, by its console. Then: SSH",
    "auth": "Log in once by hand, and load the key with ssh-add: SSH",
    "host-key": "Compare its host key with the one that you know, then log in by hand: SSH",
    "no-access": "Only users with a job get in; what runs there: squeue -w NODE",
    "no-gpudash": "Install gpudash there, or set its path as [fleet] remote in the settings.",
    "no-gpus": "See whether its driver is loaded, on HOST: nvidia-smi",
    "no-metrics": "See whether its exporter runs and is a target of the Prometheus: SSH",
    "garbled": "Something prints on login there, such as .bashrc. See it with: SSH",
}
_SHARED = "So many at once share a cause, such as a switch, power, or the way to them."
_DOWN_IN_SLURM = "See whether it is up, by its console or: scontrol show node NODE. Then: SSH"
_SILENT_BY_SSH = "The connection stands but brings nothing. See whether another one works: SSH"


@check
def sources(survey: Survey) -> Iterator[Symptom]:
    """Sources that fail, or answer in part."""
    for source in survey.snapshot.sources:
        # Over ssh, each host has its own state.
        if source.state in ("failed", "stale") and source.kind != "ssh":
            shown = (
                "nothing of it is known" if source.state == "failed" else "its last answer is shown"
            )
            yield symptom(
                SOURCE_FAILED,
                "warn" if source.state == "stale" or source.kind in ANNOTATING else "critical",
                f"{source.kind} {source.name} fails: {source.message or 'no answer'}; {shown}",
                "See whether it answers and whether its address and credentials are right.",
                subject=(source.kind, source.name),
                held_seconds=source.age_seconds,
            )
        if source.warnings:
            yield symptom(
                SOURCE_PARTIAL,
                "warn",
                f"{source.kind} {source.name} answers in part: {source.warnings[0]}",
                "Hosts and GPUs may be missing from all that is shown here.",
                subject=(source.kind, source.name),
                evidence=[number("warning_count", len(source.warnings))],
            )


@check
def driver_skew(survey: Survey) -> Iterator[Symptom]:
    """Hosts with another driver than most."""
    hosts = [host for host in survey.hosts if host.driver_version is not None]
    versions = Counter(host.driver_version for host in hosts)
    if len(versions) < 2 or len(hosts) < _MIN_SKEW_HOSTS:
        return
    usual, _ = versions.most_common(1)[0]
    others = [host for host in hosts if host.driver_version != usual and survey.covers(host)]
    if not others:
        return
    which = listed([f"{version} on {n}" for version, n in versions.most_common()[1:]], "version")
    names = listed([host.name for host in others], "host")
    yield symptom(
        DRIVER_SKEW,
        "info",
        f"{counted(len(others), 'host')} of {len(hosts):,} with another driver than {usual}: "
        f"{which} ({names})",
        f"Bring them to one version when they are next drained: {enter(others[0], 'nvidia-smi')}",
        hosts=others,
        evidence=[number("host_count", n, f"driver {version}") for version, n in versions.items()],
    )


@check
def fragmented(survey: Survey) -> Iterator[Symptom]:
    """Many GPUs are free, but hardly a host has all of them free: a job of a whole host waits."""
    if not survey.sizes:
        return
    size = survey.sizes.most_common(1)[0][0]
    free = sum(n for _, n, _ in survey.free)
    whole = [host for host, n, is_whole in survey.free if is_whole and n >= size]
    if size < 2 or free < _MIN_FREE_HOSTS * size or len(whole) * size >= _WHOLE_SHARE * free:
        return
    partly = [host for host, n, is_whole in survey.free if not (is_whole and n >= size)]
    yield symptom(
        FRAGMENTED,
        "info",
        f"{free:,} GPUs are free for jobs, but "
        f"{'only ' + counted(len(whole), 'host') if whole else 'no host'} with {size} of them: "
        f"they are spread over {counted(len(survey.free), 'host')}",
        "Jobs of a whole host wait. Pack small jobs: in Slurm SchedulerParameters with "
        "pack_serial_at_end or CR_Pack_Nodes, LLN off.",
        hosts=[*whole, *partly],
        evidence=[
            number("free_gpu_count", free),
            number("whole_host_count", len(whole)),
            number("host_count", len(survey.free)),
        ],
    )


@check
def old_values(survey: Survey) -> Iterator[Symptom]:
    """Hosts whose values are old although they answer."""
    hosts = filter(survey.covers, survey.hosts)
    old = [host for host in hosts if (host.age_seconds or 0.0) > _OLD_SECONDS]
    if not old:
        return
    oldest = max(host.age_seconds or 0.0 for host in old)
    names = listed([host.name for host in old], "host")
    yield symptom(
        VALUES_OLD,
        "warn",
        f"The values of {counted(len(old), 'host')} are up to {rough_duration(oldest)} old: "
        f"{names}",
        "See how often it is scraped, and whether its exporter keeps up.",
        hosts=old,
        evidence=[number("age_seconds", oldest)],
    )


_OLD_SECONDS = 300.0
