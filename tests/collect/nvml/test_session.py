"""NVML that is opened anew for GPUs that come and go, through real pynvml on the stand-in."""

from __future__ import annotations

from pathlib import Path

from tests.fakenvml.asking import ask

WITHOUT_A_BUS = """
from gpudash.collect.nvml.bus import PciBus
from gpudash.collect.nvml.library import Library, load
from gpudash.collect.nvml.reader import NvmlReader

now = [0.0]
reader = NvmlReader(Library(load()), PciBus("/nowhere", "/nowhere", "/nowhere"), lambda: now[0])

def states(seconds=1.0):
    now[0] += seconds
    return [device.state for device in reader.read().devices]
"""


def test_a_gpu_that_returns_where_no_bus_can_be_seen_is_found_again(
    fakenvml: Path, tmp_path: Path
) -> None:
    answers = ask(
        fakenvml,
        """
        states()
        !told(REMOVED=1)
        states()
        !told()
        states(1)
        states(10)
        !told(REMOVED=1)
        states()
        states(60)
        !told()
        states()
        states(60)
        """,
        prelude=WITHOUT_A_BUS,
        DEVICES=3,
        CONTROL=tmp_path / "control",
    )
    whole, without = ["ok"] * 3, ["ok", "lost", "ok"]
    assert [answers[place] for place in (0, 3, 7)] == [whole] * 3
    assert [sorted(answers[place]) for place in (1, 2, 4, 5, 6)] == [sorted(without)] * 5
