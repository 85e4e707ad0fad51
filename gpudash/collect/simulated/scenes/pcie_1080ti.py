"""Eight consumer cards in two PCIe islands: one `python` holds them all and works on one."""

from __future__ import annotations

from gpudash.collect.simulated.boards import GTX_1080_TI
from gpudash.collect.simulated.scene import GIB, HOUR, MIB, Card, Program, Scene, Share, job
from gpudash.collect.simulated.signals import IDLE, Rhythm

_BUSES = (0x04, 0x05, 0x08, 0x09, 0x84, 0x85, 0x88, 0x89)
_WORKING = Rhythm(level=78, swing=14, period=19, pulse=-60, every=240, lasting=20)

_HOLDER = Program(
    pid=20_817,
    username="bob",
    command_line=("python", "train_resnet.py", "--data", "/data/imagenet", "--epochs", "90"),
    shares=tuple(
        Share(
            gpu=gpu,
            memory=10_854 * MIB,
            rhythm=_WORKING if gpu == 0 else IDLE,
            intensity=0.95,
            bandwidth=0.6,
            pcie=2.5,
        )
        for gpu in range(8)
    ),
    job=job(kind="unit", id="session-41.scope"),
    cpu_percent=386.0,
    resident_memory=29 * GIB,
    lifetime=31 * HOUR,
    status="running",
    parent_pid=20_455,
)

SCENE = Scene(
    name="pcie-1080ti",
    hostname="lab-1080ti-demo",
    cards=tuple(
        Card(
            board=GTX_1080_TI,
            bus=bus,
            place=(index // 4, index // 4, index // 2),
            inlet=29.0 + index % 4,
            pcie_replays=17 if index == 5 else 0,
        )
        for index, bus in enumerate(_BUSES)
    ),
    programs=(_HOLDER,),
    driver_version="535.261.03",
    cuda_version=12020,
    cpu_count=40,
    cpus_per_socket=20,
    memory=256 * GIB,
    memory_used=14 * GIB,
    swap=8 * GIB,
)
