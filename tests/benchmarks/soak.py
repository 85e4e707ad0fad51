"""Lets the dashboard run for long while processes come and go, and judges whether anything grows.

The real screen runs in a terminal over its real collector, on the stand-in driver. Every two
seconds, which is as often as the collector asks, all PIDs on all GPUs are others: some are
processes that live for two such turns, the rest are made up and belong to nobody. Views are opened
and left all the while, by a tour or, with --keys, by random keys. Memory is judged once the past
that the screen keeps is full.
"""

import argparse
import random
import string
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from tests.benchmarks.churn import Churn
from tests.benchmarks.commands import cache_folder, gpudash
from tests.benchmarks.process_tree import ProcessTree
from tests.benchmarks.pseudo_terminal import PseudoTerminal
from tests.benchmarks.vitals import Vitals, vitals
from tests.fakenvml.build import build, environment

_DEVICES, _SIZE = 8, (120, 40)
_TURN_SECONDS, _KEY_TURNS = 2.0, 3
_SETTLED_MINUTES = 1.0
_WARM_MINUTES = 31.0
"""By then the screen keeps as much of the past as it ever will: whole snapshots of ten minutes, and
numbers of thirty, which for eight GPUs grow by 0.16 MiB a minute.
"""
_GROWTH = 1.05
_DOWN, _ESCAPE = b"\x1b[B", b"\x1b"
_KEYS = (_DOWN, b"\r", _ESCAPE, b"d", _ESCAPE, b"m", _ESCAPE, b"u", _ESCAPE, b" ", b"p", b"p")
"""A tour: the views of a process, a GPU, the links and the users, a tag and a pause."""
_RANDOM_KEYS = (
    *(key.encode() for key in string.printable if key > " " and key not in "qQKTIXSW:+=-"),
    *(_DOWN, b"\x1b[A", b"\x1b[C", b"\x1b[D", b"\x1b[5~", b"\x1b[6~", b"\r", b"\t", b" "),
    *(_ESCAPE,) * 8,
)
"""All but those that quit, signal, write files, let go of the GPUs or change the interval, or
choose among these."""
_PROCESSES = ("screen", "collector")

Sample = tuple[float, tuple[Vitals, ...]]


def main() -> int:
    """Run; 1 when something grew, or ended."""
    options = _options()
    library = build(cache_folder() / "fakenvml")
    with tempfile.TemporaryDirectory() as folder:
        control = Path(folder) / "control"
        churn = Churn(control, size=options.churn, real=min(options.real, options.churn))
        churn.turn()
        env = environment(
            library,
            DEVICES=_DEVICES,
            PROCS_PER_DEVICE=-(-options.churn // _DEVICES),
            CONTROL=control,
        )
        demo = ["--demo"] if options.demo else []
        argv = gpudash(*demo, "--no-config", "--interval", str(options.interval))
        terminal = PseudoTerminal(argv, env, _SIZE)
        samples: list[Sample] = []
        try:
            for sample in _watch(terminal, churn, options):
                samples.append(sample)
        except ProcessLookupError as gone:
            print(f"FAIL process {gone} has ended; last words: {terminal.last[-300:]!r}")
            return 1
        except KeyboardInterrupt:
            print("interrupted")
        finally:
            terminal.close()
            churn.end()
    return _verdict(samples)


def _watch(terminal: PseudoTerminal, churn: Churn, options: argparse.Namespace) -> Iterator[Sample]:
    """Yield the vitals of screen and collector from time to time.

    Raises ProcessLookupError when one of them has ended.
    """
    print("minutes   PIDs (real)     kB/s", *(f"| {name:<33}" for name in _PROCESSES))
    print(" " * 33, *("| RSS MiB  Pss MiB  files  threads  " for _ in _PROCESSES))
    start = now = time.monotonic()
    pids: list[int] = []
    keys, turns, due, sent = cycle(_KEYS), 0, start, 0
    while now < start + 60 * options.minutes:
        turns += 1
        _press_random_keys(terminal, start + (turns - 1) * _TURN_SECONDS, options.keys)
        if not terminal.drain(start + turns * _TURN_SECONDS):
            raise ProcessLookupError(terminal.pid)
        churn.turn()
        if turns % _KEY_TURNS == 0 and not options.keys:
            terminal.send(next(keys))
        now = time.monotonic()
        if now < due + options.every:
            continue
        pids = pids or ProcessTree(terminal.pid).pids()
        sample = (now - start) / 60, tuple(map(vitals, pids))
        rate = (terminal.received - sent) / (now - due) / 1000
        due, sent = now, terminal.received
        _tell(sample, f"{churn.listed:>7} ({churn.started}) {rate:9.1f}")
        yield sample


def _press_random_keys(terminal: PseudoTerminal, start: float, per_second: float) -> None:
    """Press keys of a turn that began at an instant, evenly."""
    count = int(per_second * _TURN_SECONDS)
    for number in range(count):
        terminal.drain(start + number * _TURN_SECONDS / count)
        terminal.send(random.choice(_RANDOM_KEYS))


def _tell(sample: Sample, traffic: str) -> None:
    minutes, processes = sample
    cells = (
        f"| {v.resident_mib:7.1f} {v.proportional_mib:8.1f} {v.descriptors:6} {v.threads:8}  "
        for v in processes
    )
    print(f"{minutes:7.1f} {traffic:>25}", *cells, flush=True)


def _verdict(samples: list[Sample]) -> int:
    """Print what was flat and what was not."""
    settled = [processes for minutes, processes in samples if minutes >= _SETTLED_MINUTES]
    warm = [processes for minutes, processes in samples if minutes >= _WARM_MINUTES]
    if len(settled) < 2:
        print(f"FAIL too short to judge anything: {len(settled)} lines after the first minute")
        return 1
    failed = False
    for place, name in enumerate(_PROCESSES):
        for what in ("descriptors", "threads"):
            counts = [getattr(processes[place], what) for processes in settled]
            failed |= _judge(
                f"{name}: {what} from {min(counts)} to {max(counts)}", len({*counts}) == 1
            )
        if len(warm) < 2:
            print(f"--   {name}: memory is judged from minute {_WARM_MINUTES:g} on")
            continue
        sizes = [processes[place].resident_mib for processes in warm]
        ratio = max(sizes) / sizes[0]
        what = f"{name}: resident memory from {sizes[0]:.1f} to at most {max(sizes):.1f} MiB"
        failed |= _judge(f"{what}, {ratio:.3f} x (at most {_GROWTH})", ratio <= _GROWTH)
    return int(failed)


def _judge(what: str, holds: bool) -> bool:
    """Print whether something holds, and return whether it does not."""
    print(f"{'ok  ' if holds else 'FAIL'} {what}")
    return not holds


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=61, help="how long (61)")
    parser.add_argument("--interval", type=float, default=0.1, help="seconds to a refresh (0.1)")
    parser.add_argument(
        "--churn",
        type=int,
        default=112,
        metavar="N",
        help="PIDs that are replaced every two seconds (112: 100000 in half an hour)",
    )
    parser.add_argument("--demo", action="store_true", help="watch a simulated host instead")
    parser.add_argument("--real", type=int, default=16, help="of them, how many are processes (16)")
    parser.add_argument(
        "--keys", type=float, default=0, metavar="N", help="random keys a second (0: a tour)"
    )
    parser.add_argument("--every", type=float, default=60, help="seconds between two lines (60)")
    options = parser.parse_args()
    if not 0 < options.churn <= 4096 or options.real < 0 or options.minutes <= 0:
        parser.error("--churn goes from 1 to 4096, --real from 0, --minutes above 0")
    return options


if __name__ == "__main__":
    sys.exit(main())
