"""An eight-way NVSwitch machine shared by four people.

GPUs 0-3 train one model (GPU 2 is hot and power-capped), 4-5 serve another, 5 with a neighbour,
6 is held by an idle notebook, 7 is free.
"""

from __future__ import annotations

from gpudash.collect.simulated.boards import H100_SXM
from gpudash.collect.simulated.noise import digits
from gpudash.collect.simulated.scene import DAY, GIB, HOUR, MIB, Card, Program, Scene, Share, job
from gpudash.collect.simulated.signals import Rhythm

_BUSES = (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)
_HOT = 2

_TRAINING = Rhythm(level=97, swing=3, period=31, pulse=-88, every=420, lasting=14)
_STRAGGLER = Rhythm(level=98, swing=2, period=31)
_SERVING = Rhythm(level=54, swing=24, period=71)
_RANKING = Rhythm(level=9, swing=5, period=23)

_SLURM = job(kind="slurm", id="184203", step="0")
_SERVER = job(kind="container", id=digits(64, 4711), runtime="docker")
_POD = job(
    kind="pod",
    id="7c1d0f52-93ab-4e0d-8a56-2f0b6c1e9d34",
    runtime="cri-containerd",
    container=digits(64, 4712),
)


def _rank(number: int) -> Program:
    """Return one rank of the training, on the GPU of its number."""
    hot = number == _HOT
    return Program(
        pid=412_907 + number,
        username="alice",
        command_line=(
            "/home/alice/envs/llm/bin/python",
            "-u",
            "train.py",
            "--config=configs/llama3-8b-sft.yaml",
            "--fsdp=full_shard",
            "--bf16",
            "--output=/scratch/alice/runs/sft-041",
        ),
        shares=(
            Share(
                gpu=number,
                memory=71_240 * MIB + number * 38 * MIB,
                rhythm=_STRAGGLER if hot else _TRAINING,
                intensity=1.15 if hot else 0.92,
                bandwidth=0.62,
                pcie=1.4,
                nvlink=210.0,
            ),
        ),
        job=_SLURM,
        cpu_percent=104.0 + 3 * number,
        resident_memory=23 * GIB,
        lifetime=2 * DAY,
        status="running",
        parent_pid=412_861,
        leases=(number,),
    )


def _worker(number: int) -> Program:
    """Return one tensor-parallel worker of the server, on GPU 4 or 5."""
    return Program(
        pid=88_214 + number,
        username="carol",
        command_line=(
            "/usr/bin/python3",
            "/usr/local/bin/vllm",
            "serve",
            "mistralai/Mixtral-8x7B-Instruct-v0.1",
            "--tensor-parallel-size=2",
            "--gpu-memory-utilization=0.85",
            "--port=8000",
        ),
        shares=(
            Share(
                gpu=4 + number,
                memory=68_932 * MIB,
                rhythm=_SERVING,
                intensity=0.7,
                bandwidth=0.8,
                pcie=0.5,
                nvlink=45.0,
            ),
        ),
        job=_SERVER,
        cpu_percent=61.0,
        resident_memory=11 * GIB,
        lifetime=3 * DAY,
        status="running",
        parent_pid=88_140,
    )


_NOTEBOOK = Program(
    pid=301_556,
    username="bob",
    command_line=(
        "/home/bob/miniforge3/envs/lab/bin/python",
        "-m",
        "ipykernel_launcher",
        "-f",
        "/home/bob/.local/share/jupyter/runtime/kernel-5e0c1f2a.json",
    ),
    shares=(Share(gpu=6, memory=60 * GIB),),
    job=job(kind="unit", id="jupyter-bob.service"),
    cpu_percent=0.1,
    resident_memory=7 * GIB,
    lifetime=9 * HOUR,
    parent_pid=301_120,
)

_RANKER = Program(
    pid=519_033,
    username="dave",
    command_line=("tritonserver", "--model-repository=/models", "--http-port=8080"),
    shares=(Share(gpu=5, memory=6_318 * MIB, rhythm=_RANKING, intensity=0.5, bandwidth=0.4),),
    job=_POD,
    cpu_percent=12.0,
    resident_memory=3 * GIB,
    lifetime=DAY,
    parent_pid=518_976,
)

SCENE = Scene(
    name="dgx-h100",
    hostname="dgx-h100-demo",
    cards=tuple(
        Card(
            board=H100_SXM,
            bus=bus,
            place=(index // 4, index, 0),
            inlet=46.0 if index == _HOT else 27.0 + index % 4,
            corrected_errors=3 if index == 1 else 0,
            remapped_rows=1 if index == 1 else 0,
        )
        for index, bus in enumerate(_BUSES)
    ),
    programs=(
        *(_rank(number) for number in range(4)),
        *(_worker(number) for number in range(2)),
        _NOTEBOOK,
        _RANKER,
    ),
    cpu_count=224,
    cpus_per_socket=112,
    memory=2048 * GIB,
    memory_used=164 * GIB,
)
