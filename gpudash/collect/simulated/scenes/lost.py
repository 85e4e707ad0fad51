"""Four cards: GPU 2 fell off the bus, GPU 3 is held by workers that outlived their parent."""

from __future__ import annotations

from gpudash.collect.simulated.boards import RTX_A6000
from gpudash.collect.simulated.noise import digits
from gpudash.collect.simulated.scene import GIB, HOUR, MIB, Card, Program, Scene, Share, Xid, job
from gpudash.collect.simulated.signals import Rhythm
from gpudash.model.process import Holder
from gpudash.model.text import clean

_CONTAINER = job(kind="container", id=digits(64, 4901), runtime="docker")

_ORPHANS = tuple(
    Holder(
        pid=58_704 + number,
        start_ticks=41_217_733 + 3 * number,
        username=clean("erin"),
        command_line=tuple(map(clean, ("python", "train.py", "--num-workers=2"))),
    )
    for number in range(2)
)


def _diffusion(number: int) -> Program:
    """Return one of the two image trainings."""
    return Program(
        pid=66_120 + 13 * number,
        username=("carol", "dave")[number],
        command_line=("python", "train_diffusion.py", "--resolution=1024", f"--run={number}"),
        shares=(
            Share(
                gpu=number,
                memory=36_864 * MIB,
                rhythm=Rhythm(level=92, swing=6, period=27, pulse=-70, every=330, lasting=18),
                bandwidth=0.55,
            ),
        ),
        job=_CONTAINER if number else job(kind="slurm", id="77120", step="0"),
        cpu_percent=130.0,
        resident_memory=14 * GIB,
        lifetime=20 * HOUR,
        status="running",
    )


SCENE = Scene(
    name="lost",
    hostname="rack7-node12-demo",
    cards=(
        Card(board=RTX_A6000, bus=0x31, place=(0, 0, 0)),
        Card(board=RTX_A6000, bus=0x4B, place=(0, 1, 0)),
        Card(board=RTX_A6000, bus=0xB1, place=(1, 2, 0), state="lost"),
        Card(
            board=RTX_A6000,
            bus=0xCA,
            place=(1, 3, 0),
            orphaned=5_324 * MIB,
            holders=_ORPHANS,
            xids=(Xid(code=45, every=HOUR / 4),),
        ),
    ),
    programs=tuple(_diffusion(number) for number in range(2)),
    cpu_count=64,
    cpus_per_socket=32,
    memory=512 * GIB,
    memory_used=22 * GIB,
)
