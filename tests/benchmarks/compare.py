"""Compares gpudash with its peers on the stand-in driver and judges the figures."""

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path

from tests.benchmarks import collector, oneshot
from tests.benchmarks.commands import HOST, LARGE_HOST, Command, Host, cache_folder, gpudash, peers
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
    report.ratio(runs, "wall_ms", "gpudash", "gpustat", 0.12)
    report.ratio(runs, "wall_ms", "gpudash", "nvitop", 0.75)


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
    runs = _watch("screen", setting, report)
    report.ratio(runs, "cpu_s_per_min", "gpudash", "nvitop", 0.5)
    report.ratio(runs, "bytes_per_s", "gpudash", "nvitop", 1.5)
    report.ratio(runs, "first_frame_ms", "gpudash", "nvitop", 1.0)
    report.ratio(runs, "key_ms", "gpudash", "nvitop", 1.5)
    _bounds(runs, report, quit_ms=300, resident_mib=40, children_mib=20)


def compare_calls(setting: Setting, report: Report) -> None:
    """Calls to the driver by a screen a second, and the time that they take one of an H200."""
    from tests.benchmarks import calls

    commands = [
        Command("nvitop", (str(setting.scripts / "nvitop"), "--interval", "1")),
        Command("gpudash", gpudash("--no-config", "--interval", "1")),
    ]
    if nvtop := shutil.which("nvtop"):
        commands.append(Command("nvtop", (nvtop, "-d", "10")))
    # What is slow is read every ten seconds, what is settled every thirty.
    seconds = max(setting.window, 30.0)
    # Jobs that train use no codecs.
    env = {**setting.env, "FAKENVML_LOAD": "busy"}
    runs = {each.name: [calls.measure(each, env, setting.size, seconds)] for each in commands}
    report.table("calls", runs)
    report.ratio(runs, "driver_ms_per_s", "gpudash", "nvitop", 1.0)
    _bounds(runs, report, calls_per_s=90, lists_per_s=8)


def compare_viewers(setting: Setting, report: Report) -> None:
    """What 1, 10 and 30 attached screens cost, and the first picture of one on a slow driver."""
    from tests.benchmarks import full_screen, viewers

    nvitop = Command("nvitop", (str(setting.scripts / "nvitop"), "--interval", "1"))
    mine = Command("gpudash", gpudash("--no-config", "--interval", "1"))
    runs: dict[str, list[dict[str, float]]] = {}
    # What is slow is read every ten seconds, what is settled every thirty.
    seconds = max(setting.window, 30.0)
    for count in (1, 10, 30):
        for command, is_attached in ((nvitop, False), (mine, True)):
            figures = viewers.measure(
                command, count, setting.env, setting.size, seconds, attached=is_attached
            )
            runs[f"{command.name} {count}"] = [figures]
    report.table("viewers", runs)
    report.ratio(runs, "calls_per_s", "gpudash 30", "gpudash 1", 1.3)
    for count, limit in ((1, 1.0), (10, 0.5), (30, 0.5)):
        report.ratio(runs, "cpu_percent", f"gpudash {count}", f"nvitop {count}", limit)
    slow = {**setting.env, "FAKENVML_INIT_MS": "300", "FAKENVML_LATENCY_US": "200"}
    columns, rows = setting.size
    plan = full_screen.Plan(columns=columns, rows=rows, window_seconds=1, keys=1)
    first: dict[str, list[dict[str, float]]] = {"nvitop": [], "gpudash": []}
    with viewers.service(slow) as (env, _):
        for _ in range(min(setting.rounds, 5)):
            for command in (nvitop, mine):
                first[command.name].append(full_screen.measure(command, env, plan))
    report.table("first picture of an attached screen", first)
    report.ratio(first, "first_frame_ms", "gpudash", "nvitop", 0.25)


def compare_large(setting: Setting, report: Report) -> None:
    """The same on a host of 64 GPUs and 500 processes, in a terminal of 200x60."""
    with stand_in(LARGE_HOST) as env:
        _compare_tables("large one-shot", replace(setting, env=env), report, 0.75)
        runs = _watch("large", replace(setting, env=env, size=LARGE_HOST.size), report)
    report.ratio(runs, "cpu_s_per_min", "gpudash", "nvitop", 0.25)
    report.ratio(runs, "key_ms", "gpudash", "nvitop", 1.5)
    _bounds(runs, report, quit_ms=300, resident_mib=60, children_mib=35)


def compare_slow(setting: Setting, report: Report) -> None:
    """One-shots and first picture on a driver of 0.3 ms a call, 20 ms for PCIe rates."""
    latency = {"FAKENVML_LATENCY_US": "300", "FAKENVML_PCIE_MS": "20"}
    slow = replace(setting, env={**setting.env, **latency})
    _compare_tables("slow one-shot", slow, report, 1.0)
    runs = _watch("slow", slow, report)
    report.ratio(runs, "first_frame_ms", "gpudash", "nvitop", 1.0)


def compare_views(setting: Setting, report: Report) -> None:
    """Bytes that open and close each view and each dialog."""
    from tests.benchmarks import views

    runs = views.measure(setting.env, setting.size)
    report.table("views", runs)
    for metric in ("open_bytes", "close_bytes"):
        name, most = max(((name, run[0][metric]) for name, run in runs.items()), key=itemgetter(1))
        report.bound(f"{metric}: {name}", most, 10_000, "bytes")


def compare_link(setting: Setting, report: Report) -> None:
    """The live screens over 10 KB/s: the age of the picture, and a key to its answer."""
    from tests.benchmarks import link

    nvitop = Command("nvitop", (str(setting.scripts / "nvitop"), "--interval", "1"))
    mine = Command("gpudash", gpudash("--no-config", "--interval", "1"))
    both = (link.Watched(nvitop, "Press any key"), link.Watched(mine, "also Ctrl-C"))
    runs: dict[str, list[dict[str, float]]] = {each.command.name: [] for each in both}
    for _ in range(min(setting.rounds, 3)):
        for each in both:
            figures = link.measure(each, setting.env, setting.size, setting.window, keys=3)
            runs[each.command.name].append(figures)
    report.table("link", runs)
    # The clock leaves out up to a second, and the next picture comes in a second.
    _bounds(runs, report, oldest_s=2.5, help_ms=1000)


def _compare_tables(title: str, setting: Setting, report: Report, limit: float) -> None:
    """Judge the wall time of what is printed once, beside nvitop's."""
    commands = [
        Command("nvitop", (str(setting.scripts / "nvitop"), "-1")),
        Command("table", gpudash("--once")),
        Command("document", gpudash("--once", "--json")),
    ]
    runs = oneshot.measure(commands, setting.env, setting.rounds)
    report.table(title, runs)
    for name in ("table", "document"):
        report.ratio(runs, "wall_ms", name, "nvitop", limit)


def _watch(title: str, setting: Setting, report: Report) -> dict[str, list[dict[str, float]]]:
    """Run the screens in turns."""
    # Imported late: the memory of this process is the least that a one-shot's peak can read.
    from tests.benchmarks import full_screen

    commands = [
        Command("nvitop", (str(setting.scripts / "nvitop"), "--interval", "1")),
        Command("gpudash", gpudash("--no-config", "--interval", "1")),
    ]
    columns, rows = setting.size
    plan = full_screen.Plan(columns=columns, rows=rows, window_seconds=setting.window)
    runs: dict[str, list[dict[str, float]]] = {command.name: [] for command in commands}
    for _ in range(min(setting.rounds, 3)):
        for command in commands:
            runs[command.name].append(full_screen.measure(command, setting.env, plan))
    report.table(title, runs)
    return runs


def _bounds(
    runs: Mapping[str, Sequence[Mapping[str, float]]], report: Report, **limits: float
) -> None:
    """Judge the worst of gpudash's own figures."""
    for metric, limit in limits.items():
        worst = max(run[metric] for run in runs["gpudash"])
        report.bound(metric, worst, limit, metric.rpartition("_")[2].replace("mib", "MiB"))


@contextmanager
def stand_in(host: Host) -> Iterator[dict[str, str]]:
    """Hold the processes of a made-up host; yield the environment in which it is seen."""
    library = build(cache_folder() / "fakenvml")
    holders = hold(host.processes, ("sleep", "infinity"))
    try:
        env = environment(
            library,
            DEVICES=host.devices,
            PROCS_PER_DEVICE=host.processes_per_device,
            PIDS=pid_list(holders),
        )
        # An installed program has its bytecode; one in a working tree may write it.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        yield env
    finally:
        for holder in holders:
            holder.end()


PARTS: dict[str, Callable[[Setting, Report], None]] = {
    "oneshot": compare_oneshot,
    "collector": judge_collector,
    "memory": judge_memory,
    "screen": compare_screen,
    "calls": compare_calls,
    "viewers": compare_viewers,
    "large": compare_large,
    "slow": compare_slow,
    "link": compare_link,
    "views": compare_views,
}


def main() -> int:
    """Run the parts asked for; 1 when a bound does not hold."""
    options = _options()
    scripts = peers(options.peers)
    report = Report()
    with stand_in(HOST) as env:
        size = tuple(map(int, options.size.split("x"))) if options.size else HOST.size
        setting = Setting(env, scripts, options.rounds, options.window, options.ticks, size)
        for part in options.parts or PARTS:
            PARTS[part](setting, report)
    if options.json:
        options.json.write_text(json.dumps(report.figures, indent=1))
    return 1 if report.failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.compare",
        description=__doc__,
        epilog=_told_parts(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}: all")
    parser.add_argument("--peers", type=Path, metavar="VENV", help="has nvitop and gpustat")
    parser.add_argument("--rounds", type=int, default=11, help="turns of each command (11)")
    parser.add_argument("--window", type=float, default=20, help="seconds watched (20)")
    parser.add_argument("--ticks", type=int, default=10_000, help="samples for memory (10000)")
    parser.add_argument("--size", help="of the terminal, but that of `large` (120x40)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"no part {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    return options


def _told_parts() -> str:
    lines = (f"  {name:<10} {part.__doc__}" for name, part in PARTS.items())
    return "\n".join(["parts:", *lines])


if __name__ == "__main__":
    sys.exit(main())
