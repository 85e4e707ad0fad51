"""Against what nvidia-smi 535.309 printed on the stand-in library, cell by cell."""

from pathlib import Path

import pytest

from gpudash.output.smi import GPU_FIELDS
from tests.e2e.run import gpudash

CAPTURED = Path(__file__).parent / "captured"
MOMENT = 1_795_000_000

# Read through nvidia-smi's unnamed table, which the stand-in cannot answer truly.
NOT_CAPTURED = {"timestamp", "temperature.gpu.tlimit", "enforced.power.limit"}


@pytest.mark.parametrize("model", ["sxm", "pcie", "geforce"])
def test_every_field_under_each_of_its_names(fakenvml: Path, model: str) -> None:
    names = [name for name in GPU_FIELDS if name not in NOT_CAPTURED]
    words = f"--query-gpu={','.join(names)}", "--format=csv"
    run = gpudash(*words, library=fakenvml, DEVICES=3, MODEL=model, TIME=MOMENT)
    mine = [line.split(", ") for line in run.text.splitlines()]
    theirs = [line.split(", ") for line in (CAPTURED / f"{model}.csv").read_text().splitlines()]
    assert len(mine) == len(theirs) == 4
    for row, expected in zip(mine, theirs, strict=True):
        cells = dict(zip(theirs[0], expected, strict=True))
        pairs = zip(names, mine[0], row, strict=True)
        assert [each for each in pairs if cells[each[1]] != each[2]] == []


def test_the_list_of_gpus_and_instances(fakenvml: Path) -> None:
    run = gpudash("-L", library=fakenvml, DEVICES=3, MIG=1)
    assert run.text == (CAPTURED / "list-mig.txt").read_text()
