"""`gpudash ack`: acknowledged findings, by host and GPU."""

from __future__ import annotations

import argparse
import socket
from contextlib import suppress
from datetime import datetime, timezone

from msgspec import json

from gpudash.analysis.health.acknowledged import (
    Acknowledgement,
    InForce,
    Place,
    acknowledgement,
    in_force,
    place_of,
    until_of,
    write,
)
from gpudash.cli.arguments import add_shared
from gpudash.cli.oneshot import write_json
from gpudash.cli.options import acknowledged_path
from gpudash.cli.verbs import Verb
from gpudash.collect.local import open_once
from gpudash.model.device import Device
from gpudash.model.errors import ActionError, ExitStatus, GpudashError, UsageError
from gpudash.model.text import did_you_mean
from gpudash.model.units import counted
from gpudash.system import terminal
from gpudash.system.fork import call_isolated

_SECONDS = 5.0
"""How long the driver may take to identify a GPU."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash ack` takes."""
    add = parser.add_argument
    text = "a host, HOST:GPU, or :GPU of this host; none lists what is in force"
    add("places", nargs="*", metavar="HOST[:GPU]", help=text)
    text = "for how long, or until when: 8h, 3d, 2026-11-27T08:00; without it until taken back, "
    text += "or until what is lost was back: lost again, it is new"
    add("--until", metavar="TIME", help=text)
    add("--reason", metavar="TEXT", help="what is known, such as a ticket")
    add("--take-back", action="store_true", help="what is wrong there is new again")
    text = "those of simulated hosts, which are kept apart"
    add_shared(parser, "json", "no-config", "demo", json="list as JSON", demo=text)


def run(options: argparse.Namespace) -> int:
    """Acknowledge, withdraw or list; raises UsageError, ActionError."""
    there = {} if options.demo is None else _simulated(options.demo)
    this_host = next(iter(there)) if len(there) == 1 else socket.gethostname()
    places = [place_of(text, this_host) for text in options.places]
    try:
        file = acknowledged_path(config=not options.no_config, is_demo=options.demo is not None)
    except KeyError:
        raise ActionError("no home for the file of acknowledgements") from None
    known = in_force(file)
    if not places:
        if options.until or options.reason or options.take_back:
            raise UsageError("a host is missing: gpudash ack HOST[:GPU]")
        return _list(known, as_json=options.json)
    if options.demo is not None:
        _check(places, there)
    unknown: list[Place] = []
    if options.take_back:
        in_effect = [each.place for each in known.found.values()]
        unknown = [
            each for each in places if each not in {p._replace(uuid=None) for p in in_effect}
        ]
        back = [each for each in in_effect if each._replace(uuid=None) in places]
        added = [acknowledgement(place, taken_back=True) for place in back]
    else:
        added = _added(options, _with_uuids(places, this_host, options.demo))
    if added:
        write(file, added)
    for each in added:
        text = "is new again" if each.taken_back else f"acknowledged: {each.text}"
        terminal.write_text(f"{each.title} {text}\n")
    if unknown:
        raise UsageError(f"{_named(unknown)} not acknowledged: gpudash ack lists what is")
    elsewhere = [each for each in places if each.host != this_host]
    if elsewhere and options.demo is None and not options.take_back:
        text = f"{_named(elsewhere, 'was', 'were')} not checked: ack asks no other host"
        terminal.write_message(f"gpudash: {text}\n")
    return ExitStatus.OK


def _simulated(demo: str) -> dict[str, int]:
    """Return how many GPUs each simulated host has; raises UsageError."""
    if demo.partition("-")[0] != "fleet":
        from gpudash.collect.simulated.scenes import load

        try:
            scene = load(demo)
        except UsageError as error:
            # A place may have been given where the name of simulated hosts belongs.
            raise UsageError(f"{error}; places follow --demo=NAME: --demo=fleet {demo}") from None
        return {scene.hostname: len(scene.cards)}
    from gpudash.fleet.demo import opened

    [source] = opened(argparse.Namespace(demo=demo), None)
    return {host.name: host.expected_devices or 0 for host in source.read().hosts}


def _check(places: list[Place], there: dict[str, int]) -> None:
    """Raise UsageError for a host or GPU that does not exist."""
    for host, gpu, _ in places:
        if host not in there:
            raise UsageError(f"no host {host}: {did_you_mean(host, there) or 'see --once'}")
        if gpu is not None and gpu >= there[host]:
            raise UsageError(f"{host} has {counted(there[host], 'GPU')}, and no GPU {gpu}")


def _with_uuids(places: list[Place], this_host: str, demo: str | None) -> list[Place]:
    """Return places with the UUIDs of this host's GPUs, as far as it answers in time."""
    if not any(each.host == this_host and each.gpu is not None for each in places):
        return places

    def sample() -> bytes:
        found: tuple[Device, ...] = ()
        with suppress(GpudashError):
            found = open_once(demo, _SECONDS, whole=False, wanted={"uuid"}).sample().devices
        return json.encode({each.index: each.uuid for each in found if not each.is_mig})

    (reply,) = call_isolated([sample], _SECONDS)
    uuids = json.decode(reply, type=dict[int, str | None]) if isinstance(reply, bytes) else {}
    return [
        each._replace(uuid=uuids.get(each.gpu))
        if each.host == this_host and each.gpu is not None
        else each
        for each in places
    ]


def _named(places: list[Place], one: str = "is", several: str = "are") -> str:
    """Return the names of hosts and GPUs with the verb for that many."""
    names = ", ".join(Acknowledgement(host=each.host, gpu=each.gpu).title for each in places)
    return f"{names} {one if len(places) == 1 else several}"


def _added(options: argparse.Namespace, places: list[Place]) -> list[Acknowledgement]:
    until = None if options.until is None else until_of(options.until, datetime.now(timezone.utc))
    return [acknowledgement(each, until=until, reason=options.reason or "") for each in places]


def _list(known: InForce, *, as_json: bool) -> int:
    """Print those in force, a line each; on stderr, the error in the file."""
    if known.problem is not None:
        terminal.write_message(f"gpudash: {known.problem}\n")
    found = sorted(known.found.values(), key=lambda each: (each.host, each.gpu or -1))
    if as_json:
        write_json(found)
    else:
        cells = max((len(each.title) for each in found), default=0)
        lines = [f"{each.title:{cells}}  {each.text}\n" for each in found]
        text = "".join(lines) or "nothing is acknowledged\n"
        terminal.write_text(text)
    return ExitStatus.OK


VERB = Verb(
    "acknowledge what is wrong with a host or GPU",
    add_arguments,
    run,
    "Findings about it are dimmed, with the reason, and are neither counted as new nor seen by "
    "--fail-on and --on-finding; pick and run still leave such a GPU out. A GPU of this host, and "
    "one chosen on the screen, is known by its UUID, whichever index it has; HOST:GPU of another "
    "is whichever has that index. What is acknowledged is kept in "
    "~/.local/state/gpudash/acknowledged.jsonl, or in the file of [fleet] acknowledged in "
    "the settings, which several people may share. On the screen: a.",
)
