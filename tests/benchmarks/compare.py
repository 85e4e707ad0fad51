"""Compares gpudash with its peers on the stand-in driver and judges the figures."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks import collector, oneshot
from tests.benchmarks.commands import (
    DEVICES,
    PROCESSES,
    PROCESSES_PER_DEVICE,
    Command,
    cache_folder,
    gpudash,
    peers,
)
from tests.benchmarks.report import Report
from tests.fakenvml.build import build, environment
from tests.holders import hold, pid_list


@dataclass(frozen=True)
class Setting:
    """What every part needs to know."""

    env: Mapping[str, str]
    scripts: Path
    rounds: int
    window: float
    ticks: int
    size: tuple[int, int]


def compare_oneshot(setting: Setting, report: Report) -> None:
    """Wall time, CPU and memory of one document, where each peer gives one."""
    commands = [
        Command("gpustat", (str(setting.scripts / "gpustat"), "--json")),
        Command("nvitop", (str(setting.scripts / "nvitop"), "-1")),
        Command("gpudash", gpudash("--once", "--json")),
    ]
    runs = oneshot.measure(commands, setting.env, setting.rounds)
    report.table("one-shot", runs)
    report.ratio(runs, "wall_ms", "gpudash", "gpustat", 0.08)
    report.ratio(runs, "wall_ms", "gpudash", "nvitop", 0.65)


def judge_collector(setting: Setting, report: Report) -> None:
    """CPU of the stream at one sample a second."""
    print("\ncollector")
    share = collector.cpu_percent(setting.env, setting.window)
    report.bound("cpu of gpudash --json --interval 1", share, 1.0, "% of a core")


def judge_memory(setting: Setting, report: Report) -> None:
    """Whether resident memory stays as it is over many ticks."""
    print("\nmemory")
    early, late = collector.resident_mib(sys.executable, setting.env, setting.ticks)
    what = f"resident memory: tick {setting.ticks} / tick {setting.ticks // 10} ({late:.1f} MiB)"
    report.bound(what, late / early, 1.02, "x")


def compare_screen(setting: Setting, report: Report) -> None:
    """The live screens side by side, screen and collector together."""
    # Imported late: the memory of this process is the least that a one-shot's peak can read.
    from tests.benchmarks import full_screen

    commands = [
        Command("nvitop", (str(setting.scripts / "nvitop"), "--interval", "1")),
        Command("gpudash", gpudash("--interval", "1")),
    ]
    columns, rows = setting.size
    plan = full_screen.Plan(columns=columns, rows=rows, window_seconds=setting.window)
    runs: dict[str, list[dict[str, float]]] = {command.name: [] for command in commands}
    for _ in range(min(setting.rounds, 3)):
        for command in commands:
            runs[command.name].append(full_screen.measure(command, setting.env, plan))
    report.table("screen", runs)
    report.ratio(runs, "cpu_s_per_min", "gpudash", "nvitop", 0.5)
    report.ratio(runs, "bytes_per_s", "gpudash", "nvitop", 2.0)
    report.ratio(runs, "first_frame_ms", "gpudash", "nvitop", 1.0)
    report.ratio(runs, "key_ms", "gpudash", "nvitop", 1.5)
    for metric, limit, unit in (("quit_ms", 300, "ms"), ("resident_mib", 65, "MiB")):
        report.bound(metric, max(run[metric] for run in runs["gpudash"]), limit, unit)


PARTS: dict[str, Callable[[Setting, Report], None]] = {
    "oneshot": compare_oneshot,
    "collector": judge_collector,
    "memory": judge_memory,
    "screen": compare_screen,
}


def main() -> int:
    """Run the parts asked for; 1 when a bound does not hold."""
    options = _options()
    scripts = peers(options.peers)
    library = build(cache_folder() / "fakenvml")
    holders = hold(PROCESSES)
    try:
        env = environment(
            library,
            DEVICES=DEVICES,
            PROCS_PER_DEVICE=PROCESSES_PER_DEVICE,
            PIDS=pid_list(holders),
        )
        columns, rows = map(int, options.size.split("x"))
        setting = Setting(
            env, scripts, options.rounds, options.window, options.ticks, (columns, rows)
        )
        report = Report()
        for part in options.parts or PARTS:
            PARTS[part](setting, report)
    finally:
        for holder in holders:
            holder.end()
    if options.json:
        options.json.write_text(json.dumps(report.figures, indent=1))
    return 1 if report.failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.compare", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}: all")
    parser.add_argument("--peers", type=Path, metavar="VENV", help="has nvitop and gpustat")
    parser.add_argument("--rounds", type=int, default=11, help="turns of each command (11)")
    parser.add_argument("--window", type=float, default=20, help="seconds watched (20)")
    parser.add_argument("--ticks", type=int, default=10_000, help="samples for memory (10000)")
    parser.add_argument("--size", default="120x40", help="of the terminal (120x40)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"no part {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
