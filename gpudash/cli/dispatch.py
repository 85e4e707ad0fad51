"""The verbs: what the command line says, put into the words of each command."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpudash.cli.arguments.verbs import DOCTOR_TIMEOUT
from gpudash.cli.given import DEFAULT_INTERVAL, begin, collector, color, for_this_run, is_utf8
from gpudash.cli.looks import look, topo
from gpudash.model.errors import UsageError
from gpudash.system import startup as quick

if TYPE_CHECKING:
    import argparse

    from gpudash.actions.lease.choose import Wish


def _kill(options: argparse.Namespace) -> int:
    begin()
    from gpudash.cli.verbs import kill

    return kill.run(
        collector(options),
        pids=options.pids,
        signal=options.signal,
        tree=options.tree,
        yes=options.yes,
        read_only=options.read_only,
        config=not options.no_config,
        show_secrets=options.show_secrets,
    )


def _doctor(options: argparse.Namespace) -> int:
    begin()
    from gpudash.cli.verbs import doctor

    return doctor.run(
        json=options.json,
        timeout=options.timeout or DOCTOR_TIMEOUT,
        ascii=options.ascii or not is_utf8(),
        color=color(),
        config=not options.no_config,
    )


def _wish(options: argparse.Namespace) -> Wish:
    from gpudash.actions.lease.choose import Wish

    return Wish(
        count=options.count,
        min_free_bytes=options.min_free,
        max_utilization_percent=options.max_util,
        model=options.model,
        linked=options.linked,
        share=options.share,
    )


def _pick(options: argparse.Namespace) -> int:
    begin()
    from gpudash.cli.verbs import pick

    wait = options.command == "wait"
    return pick.run(
        collector(options),
        _wish(options),
        window=options.window,
        format=options.format,
        wait=wait,
        timeout=options.patience if wait else None,
    )


def _lease_and_run(options: argparse.Namespace) -> int:
    begin()
    from gpudash.cli.verbs import run

    return run.run(
        collector(options),
        _wish(options),
        options.argv,
        window=options.window,
        wait=options.wait,
        timeout=options.patience,
    )


def _leases(options: argparse.Namespace) -> int:
    begin()
    from gpudash.cli.verbs import leases

    return leases.run(collector(options), json=options.json, color=color())


def _record(options: argparse.Namespace) -> int:
    if options.show_secrets:
        raise UsageError("a recording is read by others, too: its secrets stay masked")
    begin()
    from gpudash.cli.verbs import record

    return record.run(
        collector(options),
        options.file,
        interval=options.interval or DEFAULT_INTERVAL,
        duration_seconds=options.duration,
        max_bytes=options.max_size,
        keep=options.keep,
    )


def _replay(options: argparse.Namespace) -> int:
    if options.gpu is not None or options.demo is not None or options.interval is not None:
        raise UsageError("replay shows what was recorded: --gpu, --interval go with record")
    quick.begin()
    from gpudash.cli.verbs import replay

    return replay.run(
        options.file,
        options.at,
        speed=options.speed,
        repeats=options.loop_again,
        config=not options.no_config,
        **for_this_run(options),
    )


def _config(options: argparse.Namespace) -> int:
    from gpudash.cli.verbs import config

    return config.run(options.action)


def _completion(options: argparse.Namespace) -> int:
    from gpudash.cli.verbs import completion

    return completion.run(options.shell)


VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "topo": lambda options: look(options, topo),
    "kill": _kill,
    "pick": _pick,
    "wait": _pick,
    "run": _lease_and_run,
    "leases": _leases,
    "record": _record,
    "replay": _replay,
    "doctor": _doctor,
    "config": _config,
    "completion": _completion,
}
