"""Two A100: the first split into three MIG instances, two of them in use, the second whole."""

from __future__ import annotations

from gpudash.collect.simulated.boards import A100_PCIE
from gpudash.collect.simulated.noise import digits
from gpudash.collect.simulated.scene import (
    DAY,
    GIB,
    HOUR,
    MIB,
    Card,
    MigSlice,
    Program,
    Scene,
    Share,
    job,
)
from gpudash.collect.simulated.signals import Rhythm

_SLICES = (
    MigSlice(
        slot=0,
        profile="3g.40gb",
        gpu_instance=2,
        compute_instance=0,
        memory=40_192 * MIB,
        multiprocessor_count=42,
        slices=3,
    ),
    MigSlice(
        slot=1,
        profile="2g.20gb",
        gpu_instance=3,
        compute_instance=0,
        memory=19_968 * MIB,
        multiprocessor_count=28,
        slices=2,
    ),
    MigSlice(
        slot=3,
        profile="1g.10gb",
        gpu_instance=9,
        compute_instance=0,
        memory=9_728 * MIB,
        multiprocessor_count=14,
        slices=1,
    ),
)

SCENE = Scene(
    name="mig",
    hostname="a100-mig-demo",
    cards=(
        Card(board=A100_PCIE, bus=0x17, slices=_SLICES, mig=True),
        Card(board=A100_PCIE, bus=0xCA, place=(1, 1, 0)),
    ),
    programs=(
        Program(
            pid=7_781,
            username="alice",
            command_line=("python3", "finetune.py", "--model", "bert-large"),
            shares=(
                Share(
                    gpu=0, slot=0, memory=31_744 * MIB, rhythm=Rhythm(level=38, swing=4, period=29)
                ),
            ),
            job=job(
                kind="pod",
                id="e1b7b0aa-5a52-4bb5-9f0c-6f8f8d9d3c11",
                runtime="cri-containerd",
                container=digits(64, 4801),
            ),
            cpu_percent=98.0,
            resident_memory=9 * GIB,
            lifetime=14 * HOUR,
            status="running",
        ),
        Program(
            pid=7_902,
            username="bob",
            command_line=("python3", "-m", "ipykernel_launcher", "-f", "/tmp/kernel-81.json"),
            shares=(Share(gpu=0, slot=1, memory=4_608 * MIB),),
            job=job(kind="unit", id="jupyter-bob.service"),
            cpu_percent=0.2,
            lifetime=6 * HOUR,
        ),
        Program(
            pid=9_340,
            username="carol",
            command_line=("/opt/conda/bin/python", "simulate.py", "--steps=2000000"),
            shares=(
                Share(
                    gpu=1,
                    memory=22_528 * MIB,
                    rhythm=Rhythm(level=88, swing=7, period=37),
                    bandwidth=0.7,
                ),
            ),
            job=job(kind="slurm", id="184377", step="batch"),
            cpu_percent=100.0,
            lifetime=DAY,
            status="running",
        ),
    ),
    cpu_count=64,
    cpus_per_socket=32,
    memory=512 * GIB,
    memory_used=40 * GIB,
)
