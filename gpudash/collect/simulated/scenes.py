"""The simulated hosts, and the programs on them."""

from __future__ import annotations

from gpudash.collect.simulated.boards import (
    A100_PCIE,
    GTX_1080_TI,
    H100_SXM,
    L40S,
    RTX_4070_LAPTOP,
    RTX_4090,
    RTX_A6000,
)
from gpudash.collect.simulated.scene import GIB, MIB, Card, MigSlice, Program, Scene, job
from gpudash.collect.simulated.signals import IDLE, Rhythm, digits, unit
from gpudash.model.errors import UsageError
from gpudash.model.process import Holder, Job
from gpudash.model.text import clean

_BUSES = (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)
_HOT = 2


def rank(number: int) -> Program:
    """Return one rank of the training, on the GPU of the same number."""
    hot = number == _HOT
    return Program(
        pid=412_907 + number,
        username="alice",
        command="/home/alice/envs/llm/bin/python -u train.py --config=configs/llama3-8b-sft.yaml"
        " --fsdp=full_shard --bf16 --output=/scratch/alice/runs/sft-041",
        gpus=(number,),
        memory=71_240 * MIB + number * 38 * MIB,
        load=Rhythm(98, 2) if hot else Rhythm(97, 3, dip=88),
        intensity=1.15 if hot else 0.92,
        bandwidth=0.62,
        pcie=1.4,
        nvlink=210.0,
        job=job("slurm", "184203", step="0"),
        cpu_percent=104.0 + 3 * number,
        resident_memory=23 * GIB,
        parent_pid=412_861,
        leases=(number,),
    )


def worker(number: int) -> Program:
    """Return one tensor-parallel worker of the server, on GPU 4 or 5."""
    return Program(
        pid=88_214 + number,
        username="carol",
        command="/usr/bin/python3 /usr/local/bin/vllm serve mistralai/Mixtral-8x7B-Instruct-v0.1"
        " --tensor-parallel-size=2 --gpu-memory-utilization=0.85 --port=8000",
        gpus=(4 + number,),
        memory=68_932 * MIB,
        load=Rhythm(54, 24),
        intensity=0.7,
        bandwidth=0.8,
        pcie=0.5,
        nvlink=45.0,
        job=job("container", digits(64, 4711), runtime="docker"),
        cpu_percent=61.0,
        resident_memory=11 * GIB,
        parent_pid=88_140,
    )


NOTEBOOK = Program(
    pid=301_556,
    username="bob",
    command="/home/bob/miniforge3/envs/lab/bin/python -m ipykernel_launcher"
    " -f /home/bob/.local/share/jupyter/runtime/kernel-5e0c1f2a.json",
    gpus=(6,),
    memory=60 * GIB,
    job=job("unit", "jupyter-bob.service"),
    cpu_percent=0.1,
    resident_memory=7 * GIB,
    parent_pid=301_120,
)

_RANKER = Program(
    pid=519_033,
    username="dave",
    command="tritonserver --model-repository=/models --http-port=8080",
    gpus=(5,),
    memory=6_318 * MIB,
    load=Rhythm(9, 5),
    intensity=0.5,
    bandwidth=0.4,
    job=job(
        "pod",
        "7c1d0f52-93ab-4e0d-8a56-2f0b6c1e9d34",
        runtime="cri-containerd",
        container=digits(64, 4712),
    ),
    cpu_percent=12.0,
    resident_memory=3 * GIB,
    parent_pid=518_976,
)

DGX_H100 = Scene(
    name="dgx-h100",
    hostname="dgx-h100-demo",
    cards=tuple(
        Card(
            board=H100_SXM,
            bus=bus,
            location=(index // 4, index, 0),
            inlet=46.0 if index == _HOT else 27.0 + index % 4,
            corrected_errors=3 if index == 1 else 0,
            remapped_rows=1 if index == 1 else 0,
        )
        for index, bus in enumerate(_BUSES)
    ),
    programs=(*map(rank, range(4)), *map(worker, range(2)), NOTEBOOK, _RANKER),
    cpu_count=224,
    sockets=2,
    memory=2048 * GIB,
    memory_used=164 * GIB,
)


EMPTY_HOST = Scene(
    name="empty",
    hostname="spare-demo",
    cards=(
        Card(board=L40S, bus=0x21, location=(0, 0, 0)),
        Card(board=L40S, bus=0x22, location=(0, 0, 1)),
    ),
    sockets=2,
)


LAPTOP = Scene(
    name="laptop",
    hostname="laptop-demo",
    cards=(Card(board=RTX_4070_LAPTOP, bus=0x01, state="suspended"),),
    cpu_count=16,
    memory=32 * GIB,
    memory_used=9 * GIB,
    swap=8 * GIB,
    cpu_percent=6.0,
)


_DESKTOP = (
    Program(
        pid=1_904,
        username="root",
        command="/usr/lib/xorg/Xorg vt2 -displayfd 3 -nolisten tcp",
        gpus=(0,),
        type="G",
        memory=394 * MIB,
        load=Rhythm(4, 2),
        intensity=0.4,
        job=job("unit", "session-2.scope"),
        cpu_percent=3.0,
        resident_memory=180 * MIB,
    ),
    Program(
        pid=2_317,
        username="alice",
        command="/usr/bin/gnome-shell",
        gpus=(0,),
        type="G",
        memory=212 * MIB,
        job=job("unit", "org.gnome.Shell@x11.service"),
        cpu_percent=5.0,
        resident_memory=420 * MIB,
        parent_pid=2_101,
    ),
    Program(
        pid=18_442,
        username="alice",
        command="/opt/blender/blender /home/alice/scenes/harbour.blend",
        gpus=(0,),
        type="C+G",
        memory=9_830 * MIB,
        load=Rhythm(62, 18),
        bandwidth=0.35,
        job=job("unit", "app-gnome-blender-18442.scope"),
        cpu_percent=212.0,
        resident_memory=11 * GIB,
        parent_pid=2_101,
    ),
    Program(
        pid=19_007,
        username="alice",
        command="obs --startrecording",
        gpus=(0,),
        type="C+G",
        memory=388 * MIB,
        load=Rhythm(6, 2),
        intensity=0.5,
        encoder=2.5,
        job=job("unit", "app-gnome-obs-19007.scope"),
        cpu_percent=24.0,
        resident_memory=640 * MIB,
        parent_pid=2_101,
    ),
)

SINGLE = Scene(
    name="single",
    hostname="workstation-demo",
    cards=(Card(board=RTX_4090, bus=0x01, display=True, power_limit=400),),
    programs=_DESKTOP,
    memory=64 * GIB,
    memory_used=8 * GIB,
    swap=16 * GIB,
)


def _diffusion(number: int) -> Program:
    slurm, docker = job("slurm", "77120", step="0"), digits(64, 4901)
    return Program(
        pid=66_120 + 13 * number,
        username=("carol", "dave")[number],
        command=f"python train_diffusion.py --resolution=1024 --run={number}",
        gpus=(number,),
        memory=36_864 * MIB,
        load=Rhythm(92, 6, dip=70),
        bandwidth=0.55,
        job=job("container", docker, runtime="docker") if number else slurm,
        cpu_percent=130.0,
        resident_memory=14 * GIB,
    )


_ORPHANS = tuple(
    Holder(
        pid=58_704 + number,
        start_ticks=21_217_733 + 3 * number,
        username=clean("erin"),
        command_line=tuple(map(clean, ("python", "train.py", "--num-workers=2"))),
    )
    for number in range(2)
)

LOST = Scene(
    name="lost",
    hostname="rack7-node12-demo",
    cards=(
        Card(board=RTX_A6000, bus=0x31, location=(0, 0, 0)),
        Card(board=RTX_A6000, bus=0x4B, location=(0, 1, 0)),
        Card(board=RTX_A6000, bus=0xB1, location=(1, 2, 0), state="lost"),
        Card(
            board=RTX_A6000,
            bus=0xCA,
            location=(1, 3, 0),
            orphaned=5_324 * MIB,
            holders=_ORPHANS,
            xid=45,
        ),
    ),
    programs=tuple(map(_diffusion, range(2))),
    cpu_count=64,
    sockets=2,
    memory=512 * GIB,
    memory_used=22 * GIB,
)


_PCIE_BUSES = (0x04, 0x05, 0x08, 0x09, 0x84, 0x85, 0x88, 0x89)

RESNET = Program(
    pid=20_817,
    username="bob",
    command="python train_resnet.py --data /data/imagenet --epochs 90",
    gpus=(0,),
    holds=tuple(range(1, 8)),
    memory=10_854 * MIB,
    load=Rhythm(78, 14, dip=60),
    intensity=0.95,
    bandwidth=0.6,
    pcie=2.5,
    job=job("unit", "session-41.scope"),
    cpu_percent=386.0,
    resident_memory=29 * GIB,
    parent_pid=20_455,
)

PCIE_1080TI = Scene(
    name="pcie-1080ti",
    hostname="lab-1080ti-demo",
    cards=tuple(
        Card(
            board=GTX_1080_TI,
            bus=bus,
            location=(index // 4, index // 4, index // 2),
            inlet=29.0 + index % 4,
            pcie_replays=17 if index == 5 else 0,
        )
        for index, bus in enumerate(_PCIE_BUSES)
    ),
    programs=(RESNET,),
    driver_version="535.261.03",
    cuda_version=12020,
    cpu_count=40,
    sockets=2,
    memory=256 * GIB,
    memory_used=14 * GIB,
    swap=8 * GIB,
)


_SLICES = (
    MigSlice(0, "3g.40gb", 2, memory=40_192 * MIB, multiprocessor_count=42, slices=3),
    MigSlice(1, "2g.20gb", 3, memory=19_968 * MIB, multiprocessor_count=28, slices=2),
    MigSlice(3, "1g.10gb", 9, memory=9_728 * MIB, multiprocessor_count=14, slices=1),
)

_SHARING = (
    Program(
        pid=7_781,
        username="alice",
        command="python3 finetune.py --model bert-large",
        gpus=(0,),
        slot=0,
        memory=31_744 * MIB,
        load=Rhythm(38, 4),
        job=job(
            "pod",
            "e1b7b0aa-5a52-4bb5-9f0c-6f8f8d9d3c11",
            runtime="cri-containerd",
            container=digits(64, 4801),
        ),
        cpu_percent=98.0,
        resident_memory=9 * GIB,
    ),
    Program(
        pid=7_902,
        username="bob",
        command="python3 -m ipykernel_launcher -f /tmp/kernel-81.json",
        gpus=(0,),
        slot=1,
        memory=4_608 * MIB,
        job=job("unit", "jupyter-bob.service"),
        cpu_percent=0.2,
    ),
    Program(
        pid=9_340,
        username="carol",
        command="/opt/conda/bin/python simulate.py --steps=2000000",
        gpus=(1,),
        memory=22_528 * MIB,
        load=Rhythm(88, 7),
        bandwidth=0.7,
        job=job("slurm", "184377", step="batch"),
        cpu_percent=100.0,
    ),
)

MIG = Scene(
    name="mig",
    hostname="a100-mig-demo",
    cards=(
        Card(board=A100_PCIE, bus=0x17, slices=_SLICES),
        Card(board=A100_PCIE, bus=0xCA, location=(1, 1, 0)),
    ),
    programs=_SHARING,
    cpu_count=64,
    sockets=2,
    memory=512 * GIB,
    memory_used=40 * GIB,
)


_CARDS, _PROGRAMS = 64, 500
_USERS = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi")
_COMMANDS = (
    "python worker.py --queue=embeddings",
    "/opt/conda/bin/python -m vllm.entrypoints.openai.api_server --port=8000",
    "julia --project=@solver solve.jl",
    "gmx_mpi mdrun -deffnm md_0_1 -nb gpu",
    "ffmpeg -hwaccel cuda -i rtsp://camera/stream -c:v h264_nvenc out.mp4",
)


def _job_of(number: int) -> Job:
    """Return a job of each kind in turn."""
    if number % 4 == 0:
        return job("slurm", str(200_000 + number // 4), step="0")
    if number % 4 == 1:
        return job("container", digits(64, 5000 + number), runtime="docker")
    if number % 4 == 2:
        return job("pod", f"00000000-0000-4000-8000-{number:012x}", runtime="crio")
    return job("unit", f"inference@{number}.service")


def _program(number: int) -> Program:
    """Return one process: a third of them idle, a few transcoding, a few clients of MPS."""
    command = _COMMANDS[number % len(_COMMANDS)]
    transcodes = command.startswith("ffmpeg")
    return Program(
        pid=100_000 + 37 * number,
        username=_USERS[number % len(_USERS)],
        command=f"{command} --id={number}",
        gpus=(number % _CARDS,),
        memory=(600 + int(4400 * unit(number, 2))) * MIB,
        type="M+C" if number % 50 == 0 else "C",
        load=Rhythm(3 + int(6 * unit(number, 1)), 2) if number % 3 else IDLE,
        encoder=1.5 if transcodes else 0.0,
        decoder=0.8 if transcodes else 0.0,
        job=_job_of(number),
        cpu_percent=40 * unit(number, 3),
        resident_memory=int((1 + 6 * unit(number, 4)) * GIB),
    )


MANY = Scene(
    name="many",
    hostname="pool-demo",
    cards=tuple(
        Card(
            board=L40S,
            domain=index // 16,
            bus=0x01 + 3 * (index % 16),
            location=(index // 32, index // 8, index // 2),
        )
        for index in range(_CARDS)
    ),
    programs=tuple(map(_program, range(_PROGRAMS))),
    cpu_count=512,
    sockets=2,
    memory=4096 * GIB,
    memory_used=96 * GIB,
)


_SCENES = (DGX_H100, PCIE_1080TI, MIG, LAPTOP, LOST, SINGLE, MANY, EMPTY_HOST)
SCENES = {scene.name: scene for scene in _SCENES}
"""Every simulated host by its name, the default first."""


def load(name: str) -> Scene:
    """Return a declared host; raises UsageError, which lists the valid ones."""
    if name not in SCENES:
        known = f"{', '.join(SCENES)}, and fleet for many hosts"
        raise UsageError(f"no simulated host {name!r}; there are: {known}")
    return SCENES[name]
