import subprocess
from pathlib import Path

from gpudash.model.wire import decode
from tests.e2e.forking import GPUDASH, run, start
from tests.e2e.run import Line, complete, each_of, gpudash
from tests.fakenvml.build import environment
from tests.holders import Holders, pid_list
from tests.waiting import LIMIT_SECONDS


def test_eight_gpus_and_thirty_processes_are_one_document(fakenvml: Path, holders: Holders) -> None:
    held = holders(30)
    run = gpudash("--once", "--json", library=fakenvml, PROCS_PER_DEVICE=4, PIDS=pid_list(held))
    assert (run.status, run.stderr) == (0, "")
    assert run.stdout.count(b"\n") == 1
    snapshot = run.snapshot
    assert [device.index for device in snapshot.devices] == [*range(8)]
    assert all(complete(device) for device in snapshot.devices)
    assert {process.pid for process in snapshot.processes} == {holder.pid for holder in held}
    assert {process.command_line for process in snapshot.processes} == {("sleep", "600")}
    assert sum(len(process.devices) for process in snapshot.processes) == 32
    assert snapshot.host.driver_version == "550.163.01"
    assert not snapshot.host.simulated


def test_what_a_model_lacks_is_null_and_no_fault(fakenvml: Path) -> None:
    models = "sxm", "pcie", "geforce"
    found = each_of([("--once --json", {"MODEL": model}) for model in models], fakenvml, DEVICES=1)
    for model, (_, text, _) in zip(models, found, strict=True):
        (device,) = decode(text.encode()).devices
        assert complete(device)
        assert device.fault is None
        assert (device.fan_speed_percent is None) == (model != "geforce")
        assert (device.ecc_mode is None) == (model == "geforce")


def test_what_is_asked_for_is_what_is_printed(fakenvml: Path, holders: Holders) -> None:
    held = holders(3)
    wanted, others = held[1].pid, {held[0].pid, held[2].pid}
    chosen = f"--pid {wanted} --filter sleep --sort user,pid"
    one: dict[str, object] = {"DEVICES": 1, "PROCS_PER_DEVICE": 3}
    lines: list[Line] = [
        (f"--once --json {chosen}", one),
        (f"--once --format table {chosen}", one),
        ("--once", one),
        ("--once --json --gpu 0,2", {"DEVICES": 4}),
        ("--once --json --gpu GPU-10000003", {"DEVICES": 4}),
        ("--once --json", {"DEVICES": 0}),
    ]
    found = each_of(lines, fakenvml, PIDS=pid_list(held))
    assert [status for status, _, _ in found] == [0, 0, 0, 0, 0, 6]
    process, narrow, table, some, single, nothing = (text for _, text, _ in found)
    (shown,) = decode(process.encode()).processes
    assert shown.pid == wanted
    pids = {word for line in narrow.splitlines() for word in line.split()[:1]}
    assert pids & {*map(str, (wanted, *others))} == {str(wanted)}
    assert max(map(len, table.splitlines())) <= 80
    assert "\x1b" not in table
    assert all(str(holder.pid) in table for holder in held)
    assert "sleep 600" in table
    assert [each.index for each in decode(some.encode()).devices] == [0, 2]
    assert [each.index for each in decode(single.encode()).devices] == [3]
    assert decode(nothing.encode()).devices == ()


NOT_OF_A_LOOK = {
    *("asyncio", "dataclasses", "difflib", "inspect", "json", "platform", "plotext"),
    *("psutil", "rich", "shlex", "statistics", "tempfile", "textual"),
    *("gpudash.actions.kill", "gpudash.actions.lease", "gpudash.analysis.columns"),
    *("gpudash.analysis.filter", "gpudash.analysis.history", "gpudash.analysis.links"),
    *("gpudash.collect.simulated", "gpudash.config", "gpudash.feed.live"),
    *("gpudash.feed.recording", "gpudash.output.table", "gpudash.output.smi", "gpudash.tui"),
}
"""What a single look pays for if it is imported: it spends nearly all of its time importing."""


def test_json_loads_only_what_it_needs(fakenvml: Path) -> None:
    argv = [GPUDASH[0], "-X", "importtime", *GPUDASH[1:], "--once", "--json"]
    done = run(argv, environment(fakenvml))
    assert done.returncode == 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    loaded = {line.rpartition("|")[2].strip() for line in lines}
    assert "pynvml" in loaded
    assert NOT_OF_A_LOOK & loaded == set()


def test_a_table_is_repeated_until_its_reader_leaves(fakenvml: Path) -> None:
    with start(
        [*GPUDASH, "--once", "-l", "0.2", "--pid", "1"],
        environment(fakenvml, DEVICES=1),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        headings = 0
        for line in process.stdout:
            headings += line.startswith("GPU ")
            if headings == 3:
                break
        process.stdout.close()
        process.wait(LIMIT_SECONDS)
    assert headings == 3
