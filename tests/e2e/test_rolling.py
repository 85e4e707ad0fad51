import subprocess
from pathlib import Path

import pytest

from tests.e2e.run import Line, each_of, gpudash
from tests.fakenvml.build import environment
from tests.holders import Holder


@pytest.mark.parametrize(
    "words",
    [
        ("dmon", "-c", "1", "-s", "pucmet", "-o", "DT"),
        ("dmon", "-c", "1", "-i", "1,0", "-s", "ev"),
        ("dmon", "-c", "1", "-i", "1,9"),
        ("dmon", "-c", "2", "-s", "p", "--gpm-metrics", "1,2,20"),
        ("pmon", "-c", "1", "-s", "um", "-o", "T"),
        ("pmon", "-c", "1", "-s", "m"),
    ],
)
def test_the_lines_are_those_of_nvidia_smi(
    fakenvml: Path, nvidia_smi: str, job: Holder, words: tuple[str, ...]
) -> None:
    settings: dict[str, object] = {
        "DEVICES": 2,
        "PROCS_PER_DEVICE": 1,
        "PIDS": job.pid,
        "DRIVER": "535.261.03",
        "GPM": 1,
        "LOAD": "busy",
    }
    env = environment(fakenvml, **settings)
    theirs = subprocess.run(
        [nvidia_smi, *words], env=env, capture_output=True, text=True, timeout=60
    ).stdout
    ours = gpudash(*words, library=fakenvml, **settings).text
    assert ours.splitlines()[:2] == theirs.splitlines()[:2]
    # Values differ from instant to instant, but not where they stand.
    assert [len(line) for line in ours.splitlines()] == [len(line) for line in theirs.splitlines()]
    assert [len(line.split()) for line in ours.splitlines()] == [
        len(line.split()) for line in theirs.splitlines()
    ]


def test_they_end_at_the_count_and_write_to_a_file(fakenvml: Path, tmp_path: Path) -> None:
    file = tmp_path / "rolling.txt"
    words = ("-d", "0.1", "-c", "3", "-f", str(file))
    run = gpudash("dmon", *words, library=fakenvml, DEVICES=2)
    assert (run.status, run.stdout, run.stderr) == (0, b"", "")
    assert len(file.read_text().splitlines()) == 2 + 3 * 2


def test_headings_rows_and_statuses(fakenvml: Path) -> None:
    lines: list[Line] = [
        ("dmon -d 0.1 -c 1", {"DEVICES": 45}),
        ("dmon -s v -c 1", {"DEVICES": 1}),
        *((f"{verb} -c 1 -i 7", {"DEVICES": 2}) for verb in ("dmon", "pmon")),
    ]
    many, clocks, *none = each_of(lines, fakenvml)
    numbers = [number for number, line in enumerate(many[1].splitlines()) if line[0] == "#"]
    assert numbers == [0, 1, 46, 47]
    # What holds the clocks back is known in the first line.
    assert clocks[1].splitlines()[-1].split() == ["0", "0", "0"]
    for status, text, errors in none:
        assert (status, text, errors.count("\n")) == (6, "", 1)


def test_a_lost_gpu_keeps_its_row_and_is_in_the_status(fakenvml: Path) -> None:
    verbs = {"dmon": "1 -", "pmon": "1 N/A"}
    found = each_of([(f"{verb} -c 1", {"DEVICES": 2, "LOST": "1"}) for verb in verbs], fakenvml)
    for (status, text, _), row in zip(found, verbs.values(), strict=True):
        assert status == 15
        assert " ".join(text.splitlines()[-1].split()).startswith(row)


def test_without_gpus_there_is_one_line_and_their_status(fakenvml: Path) -> None:
    told = {6: {"DEVICES": 0}, 10: {"HANG": "nvmlInitWithFlags:*:inf"}, 9: {"INIT_ERR": 9}}
    found = each_of([("dmon -d 0.1 -c 1", each) for each in told.values()], fakenvml)
    for expected, (status, text, errors) in zip(told, found, strict=True):
        assert (status, text) == (expected, "")
        assert errors.startswith("gpudash: ")


def test_pcie_rates_are_read_where_there_is_no_counter(fakenvml: Path) -> None:
    words = ("dmon", "-s", "t", "-d", "0.5", "-c", "1")
    run = gpudash(*words, library=fakenvml, DEVICES=1, FAIL="nvmlDeviceGetFieldValues:*:3")
    _, received, sent = run.text.splitlines()[-1].split()
    assert received.isdecimal()
    assert sent.isdecimal()
