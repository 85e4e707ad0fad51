"""`gpudash kill PID...`: shows whom it hits, asks, signals, and says what came of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING

from gpudash.model.errors import ActionError, ExitStatus, SettingsError, UsageError

if TYPE_CHECKING:
    from gpudash.cli.verbs.kill.aim import Aimed

_INTERVAL = 0.5


def run(
    collector: Sequence[str],
    *,
    pids: Sequence[str],
    signal: str = "TERM",
    tree: bool = False,
    yes: bool = False,
    read_only: bool = False,
    config: bool = True,
    show_secrets: bool = False,
) -> int:
    """Signal processes that use GPUs; returns 0 if all ended, or got a signal that ends none.

    `collector` is the command that looks at the driver, apart, since that may hang. Without
    `config` the file of settings is left alone. Raises UsageError for a PID or a signal that is
    none and where nobody can be asked, ActionError when nothing can be signalled at all.
    """
    _refuse_read_only(asked=read_only, config=config)
    # A read-only gpudash does not even load what can signal.
    from gpudash.actions.kill.pin import refuse_host, refuse_pid
    from gpudash.actions.kill.signals import find_signal
    from gpudash.cli.verbs.kill.agree import agreed
    from gpudash.cli.verbs.kill.aim import aim, named
    from gpudash.cli.verbs.kill.carry_out import carry_out, newest
    from gpudash.feed.sampler import Survey

    names, chosen = list(dict.fromkeys(map(named, pids))), find_signal(signal)
    if not yes and not os.isatty(0):
        for name in names:
            refuse_pid(name.pid)
        raise UsageError("kill asks before it acts and there is no terminal: add --yes")
    with ExitStack() as held:
        asked = Survey(collector, interval=_INTERVAL, keep=1, takes_silence=True)
        survey = held.enter_context(closing(asked))
        survey.fill()
        before = survey.samples[-1]
        refuse_host(before.host)
        show = partial(aim, whole=tree, held=held, show_secrets=show_secrets)
        found = (show(name, before) for name in names)
        aimed: list[Aimed] = [each for each in found if each is not None]
        if not aimed or not agreed(aimed, chosen, yes=yes):
            return ExitStatus.FAILURE
        done = carry_out([each.hit for each in aimed], chosen, before, partial(newest, survey))
    return ExitStatus.OK if done and len(aimed) == len(names) else ExitStatus.FAILURE


def _refuse_read_only(*, asked: bool, config: bool) -> None:
    """Raise ActionError where the command line, the environment or the settings forbid signals."""
    if asked:
        raise ActionError("gpudash is read-only (--read-only): nothing was sent")
    if os.environ.get("GPUDASH_READ_ONLY", "0") not in ("", "0"):
        raise ActionError("gpudash is read-only (GPUDASH_READ_ONLY): nothing was sent")
    if not config:
        return
    from gpudash import config as settings

    file = settings.path()
    try:
        if settings.is_read_only(file):
            raise ActionError(f"gpudash is read-only ({file}): nothing was sent")
    except SettingsError as error:
        raise ActionError(f"{error}; nothing was sent, --no-config does without it") from None
