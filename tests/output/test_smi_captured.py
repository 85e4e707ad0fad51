"""Against what nvidia-smi 535.309 printed on the stand-in library, cell by cell."""

import re
from pathlib import Path

import pytest

from gpudash.output.queries import QUERIES
from tests.e2e.run import gpudash
from tests.output.newer import newer

CAPTURED = Path(__file__).parent / "captured"
MOMENT = 1_795_000_000

# Read through nvidia-smi's unnamed table, which the stand-in cannot answer truly.
NOT_CAPTURED = {
    "timestamp",
    "temperature.gpu.tlimit",
    "enforced.power.limit",
    "addressing_mode",
    "pcie.link.gen.hostmax",
    # In local time.
    "retired_pages.timestamp",
}


@pytest.mark.parametrize(
    ("query", "model", "gpus"),
    [
        ("gpu", "sxm", 3),
        ("gpu", "pcie", 3),
        ("gpu", "geforce", 3),
        ("remapped-rows", "sxm", 3),
        ("retired-pages", "sxm", 3),
        ("supported-clocks", "sxm", 1),
        ("accounted-apps", "sxm", 3),
    ],
)
def test_every_field_under_each_of_its_names(
    fakenvml: Path, query: str, model: str, gpus: int
) -> None:
    fields = QUERIES[query].fields
    names = [name for name in fields if name not in NOT_CAPTURED | newer(query)]
    words = f"--query-{query}={','.join(names)}", "--format=csv"
    settings = {"DEVICES": gpus, "MODEL": model, "TIME": MOMENT, "WORN": 1}
    run = gpudash(*words, library=fakenvml, **settings)
    theirs = (CAPTURED / f"{query}-{model}.csv").read_text()
    heading, *rows = [line.split(", ") for line in run.text.splitlines()]
    their_heading, *their_rows = [line.split(", ") for line in theirs.splitlines()]
    assert len(rows) == len(their_rows)
    for row, expected in zip(rows, their_rows, strict=True):
        cells = dict(zip(their_heading, expected, strict=True))
        pairs = zip(names, heading, row, strict=True)
        assert [each for each in pairs if cells[each[1]] != each[2]] == []


@pytest.mark.parametrize(
    ("code", "word"), [(999, "Unknown Error"), (19, "In use by another client")]
)
def test_a_value_that_could_not_be_read_is_its_error(fakenvml: Path, code: int, word: str) -> None:
    fail = {"FAIL": f"nvmlDeviceGetPerformanceState:*:{code}"}
    query = "--query-gpu=pstate,name", "--format=csv,noheader"
    run = gpudash(*query, library=fakenvml, DEVICES=1, **fail)
    assert run.text == f"[{word}], NVIDIA A100-SXM4-80GB\n"
    run = gpudash("-q", "-d", "PERFORMANCE", library=fakenvml, DEVICES=1, **fail)
    assert re.search(f"Performance State  +: {word}\n", run.text)


def test_fields_of_a_newer_driver(fakenvml: Path) -> None:
    names = "remapped_rows.correctable_inactive,remapped_rows.uncorrectable_inactive"
    words = f"--query-gpu={names},inforom.checksum_validation", "--format=csv,noheader"
    answer = "nvmlDeviceGetRemappedRows_v2:0:3/1"
    run = gpudash(*words, library=fakenvml, DEVICES=1, DRIVER="580.1", ANSWER=answer)
    assert run.text == "3, 1, valid\n"


def test_the_list_of_gpus_and_instances(fakenvml: Path) -> None:
    run = gpudash("-L", library=fakenvml, DEVICES=3, MIG=1)
    assert run.text == (CAPTURED / "list-mig.txt").read_text()
