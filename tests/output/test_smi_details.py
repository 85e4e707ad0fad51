"""`-q` beside what nvidia-smi 535.309 printed on the stand-in library, line by line."""

import os
import subprocess
from pathlib import Path

import pytest

from gpudash.model import wire
from gpudash.model.errors import UsageError
from gpudash.model.snapshot import Snapshot
from gpudash.output import smi_details
from gpudash.output.smi_details import SECTIONS, details, reads, sections
from tests.e2e.run import gpudash
from tests.factories import make_device, make_snapshot
from tests.fakenvml.build import environment

CAPTURED = Path(__file__).parent / "captured"
SETTINGS = {"DEVICES": 2, "TIME": 1_795_000_000, "WORN": 1}
LISTED = ",".join(SECTIONS)

# nvidia-smi reads these from its own unnamed table, or from calls that this driver lacks; the
# moment differs.
DIFFER = {
    "Addressing Mode",
    "Host Max",
    "SRAM Correctable",
    "GPU T.Limit Temp",
    "Timestamp",
}
# The older names of what newer GPUs report as margins; the sum of what newer drivers split.
OURS = {
    "GPU Shutdown Temp",
    "GPU Slowdown Temp",
    "GPU Max Operating Temp",
    "SRAM Uncorrectable",
}

Path_ = tuple[str, ...]


def values(text: str) -> list[tuple[Path_, str]]:
    """Return the value of each line by the labels above it."""
    above: list[str] = []
    found = []
    for line in filter(str.strip, text.splitlines()):
        depth = (len(line) - len(line.lstrip())) // 4
        label, _, value = line.strip().partition(" : ")
        above = [*above[:depth], label.strip()]
        found.append((tuple(above), value))
    return found


def compare(mine: str, theirs: str) -> None:
    """Assert that each of our lines stands there, in this order and with this value."""
    ours = [each for each in values(mine) if each[0][-1] not in OURS]
    paths = {path for path, _ in ours}
    assert [path for path, _ in ours] == [path for path, _ in values(theirs) if path in paths]
    left = {each for each in values(theirs) if each[0][-1] not in DIFFER}
    assert [each for each in ours if each[0][-1] not in DIFFER and each not in left] == []


ASKED = pytest.mark.parametrize(
    ("model", "name", "words"),
    [("sxm", "whole", ()), ("geforce", "whole", ()), ("sxm", "sections", ("-d", LISTED))],
)


@ASKED
def test_every_line_beside_what_nvidia_smi_printed(
    fakenvml: Path, model: str, name: str, words: tuple[str, ...]
) -> None:
    run = gpudash("-q", *words, library=fakenvml, MODEL=model, **SETTINGS)
    assert run.status == 0
    compare(run.text, (CAPTURED / f"details-{name}-{model}.txt").read_text())


def printed(*command: str, library: Path, **settings: object) -> str:
    env = environment(library, **settings)
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


@ASKED
def test_every_line_beside_nvidia_smi(
    nvidia_smi: str, fakenvml: Path, model: str, name: str, words: tuple[str, ...]
) -> None:
    settings = {**SETTINGS, "MODEL": model}
    theirs = printed(nvidia_smi, "-q", *words, library=fakenvml, **settings)
    compare(gpudash("-q", *words, library=fakenvml, **settings).text, theirs)


def test_processes_beside_nvidia_smi(nvidia_smi: str, fakenvml: Path) -> None:
    settings = {**SETTINGS, "PROCS_PER_DEVICE": 1, "PIDS": os.getpid()}
    words = "-q", "-i", "1", "-d", "MEMORY,PIDS,PERFORMANCE"
    theirs = printed(nvidia_smi, *words, library=fakenvml, **settings)
    mine = gpudash(*words, library=fakenvml, **settings).text
    # In its own table all processes are of every type, with the driver's name for them.
    kept = [line for line in theirs.splitlines() if "Type" not in line and "Name" not in line]
    ours = [line for line in mine.splitlines() if "Type" not in line and "Name" not in line]
    compare("\n".join(ours), "\n".join(kept))


def test_what_is_not_known_is_not_zero() -> None:
    device = make_device(memory_used_bytes=None, accounting_mode=None)
    lines = text(make_snapshot(devices=(device,)), "MEMORY,ACCOUNTING,SUPPORTED_CLOCKS")
    assert "        Used                              : N/A" in lines
    assert "    Accounted Processes                   : N/A" in lines
    assert "    Supported Clocks                      : N/A" in lines


def test_what_is_free_of_the_aperture_is_the_difference_of_what_is_shown() -> None:
    """An H200 under driver 580: 1.6 of 262,144 MiB in use."""
    device = make_device(bar1_total_bytes=274_877_906_944, bar1_used_bytes=1_703_936)
    lines = text(make_snapshot(devices=(device,)), "MEMORY")
    start = lines.index("    BAR1 Memory Usage") + 1
    assert [line.partition(": ")[2] for line in lines[start : start + 3]] == [
        "262144 MiB",
        "1 MiB",
        "262143 MiB",
    ]


def test_the_processes_of_a_lost_gpu_are_not_known() -> None:
    gpus = make_device(), make_device(index=1, uuid=None, state="lost")
    lines = text(make_snapshot(devices=gpus, processes=()), "PIDS")
    assert [line.split(": ")[1] for line in lines if "Processes" in line] == ["None", "N/A"]


def test_a_process_cannot_add_a_line() -> None:
    told = make_snapshot(devices=(make_device(name="evil\nGPU\x1b[2J"),))
    lines = text(wire.decode(wire.encode(told)), None)
    assert all(line.isprintable() for line in lines)


def text(snapshot: Snapshot, wanted: str | None) -> list[str]:
    keys = {device.key for device in snapshot.devices}
    return list(details(snapshot, keys, sections(wanted)))


def test_sections_read_what_they_print() -> None:
    assert reads(("COMPUTE",)) == {"compute_mode"}
    assert "supported_clocks" not in reads(())
    assert sections("ecc, power") == ("ECC", "POWER")


def test_a_wrong_section_is_reported_in_a_line() -> None:
    with pytest.raises(UsageError, match="did you mean ECC"):
        smi_details.sections("EC")


def test_there_is_no_xml(fakenvml: Path) -> None:
    run = gpudash("-q", "-x", library=fakenvml)
    assert (run.status, run.stderr.count("\n")) == (2, 1)
    assert "--json" in run.stderr
