"""What `gpudash kill` says while a process takes its time to end, on a real terminal."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpudash.model.errors import ExitStatus
from tests.e2e.killing import DEAF, ENDLESS, command
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.holders import Holder, Holders, pid_list
from tests.waiting import name_of, until


def deaf(holders: Holders, count: int = 1) -> list[Holder]:
    """Processes that ignore SIGTERM by now."""
    started = holders(count, DEAF)
    until(lambda: all(name_of(each.pid) == "sleep" for each in started))
    return started


@contextmanager
def agreed(library: Path, held: list[Holder], **options: object) -> Iterator[Terminal]:
    """A terminal on which the question about all of them was just answered by yes."""
    told = {"DEVICES": 1, "PROCS_PER_DEVICE": len(held), "PIDS": pid_list(held)}
    argv = command(*(each.pid for each in held), first=ENDLESS, **options)
    with Terminal(argv, env=environment(library, **told), columns=160) as terminal:
        terminal.wait_for("[y/N]")
        terminal.send("y", "enter")
        yield terminal


def test_a_wait_is_given_while_it_lasts_and_what_was_sent_after_ctrl_c(
    fakenvml: Path, holders: Holders
) -> None:
    (job,) = deaf(holders)
    with agreed(fakenvml, [job]) as terminal:
        terminal.wait_for(
            re.compile(rf"SIGTERM sent to {job.pid} \(\w+\); waiting up to 600 s for it to end")
        )
        terminal.send("ctrl+c")
        assert terminal.wait_exit() == ExitStatus.INTERRUPTED
        last = terminal.text.rstrip().splitlines()[-1]
        assert re.fullmatch(
            rf"gpudash: SIGTERM was sent to {job.pid} \(\w+\), which still runs", last
        )
        assert job.alive


def test_of_several_it_tells_how_many_had_ended_by_then(fakenvml: Path, holders: Holders) -> None:
    (plain,) = holders(1)
    held = [*deaf(holders), plain]
    with agreed(fakenvml, held) as terminal:
        terminal.wait_for("SIGTERM sent to 2 processes; waiting up to 600 s for them to end")
        terminal.wait_until(lambda: not plain.alive)
        terminal.send("ctrl+c")
        assert terminal.wait_exit() == ExitStatus.INTERRUPTED
        sent = "gpudash: SIGTERM was sent to 2 processes, of which 1 has ended"
        assert sent in " ".join(terminal.text.split())


def test_memory_that_stays_is_waited_for_with_a_word(fakenvml: Path, job: Holder) -> None:
    with agreed(fakenvml, [job], signal="KILL") as terminal:
        terminal.wait_for(re.compile(r"killed.*waiting for the driver to release the memory"))
        terminal.send("ctrl+c")
        assert terminal.wait_exit() == ExitStatus.INTERRUPTED
        assert re.search(
            rf"gpudash: SIGKILL was sent to {job.pid} \(\w+\), which has ended; cannot tell "
            "whether GPU memory was freed",
            " ".join(terminal.text.split()),
        )
