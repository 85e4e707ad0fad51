"""Sixty-four cards and five hundred processes: as much as a screen will ever be asked to show."""

from __future__ import annotations

from gpudash.collect.simulated.boards import L40S
from gpudash.collect.simulated.noise import digits, unit
from gpudash.collect.simulated.scene import GIB, HOUR, MIB, Card, Program, Scene, Share, job
from gpudash.collect.simulated.signals import IDLE, Rhythm
from gpudash.model.process import Job

_CARDS, _PROGRAMS = 64, 500
_USERS = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi")
_COMMANDS = (
    ("python", "worker.py", "--queue=embeddings"),
    ("/opt/conda/bin/python", "-m", "vllm.entrypoints.openai.api_server", "--port=8000"),
    ("julia", "--project=@solver", "solve.jl"),
    ("gmx_mpi", "mdrun", "-deffnm", "md_0_1", "-nb", "gpu"),
    ("ffmpeg", "-hwaccel", "cuda", "-i", "rtsp://camera/stream", "-c:v", "h264_nvenc", "out.mp4"),
)


def _job_of(number: int) -> Job:
    """Return a job of each kind in turn."""
    if number % 4 == 0:
        return job(kind="slurm", id=str(200_000 + number // 4), step="0")
    if number % 4 == 1:
        return job(kind="container", id=digits(64, 5000 + number), runtime="docker")
    if number % 4 == 2:
        return job(kind="pod", id=f"00000000-0000-4000-8000-{number:012x}", runtime="crio")
    return job(kind="unit", id=f"inference@{number}.service")


def _program(number: int) -> Program:
    """Return one process: a third of them idle, a few transcoding, a few clients of MPS."""
    command = number % len(_COMMANDS)
    level = 3 + 6 * unit(number, 1)
    return Program(
        pid=100_000 + 37 * number,
        username=_USERS[number % len(_USERS)],
        command_line=(*_COMMANDS[command], f"--id={number}"),
        shares=(
            Share(
                gpu=number % _CARDS,
                memory=(600 + int(4400 * unit(number, 2))) * MIB,
                type="M+C" if number % 50 == 0 else "C",
                rhythm=IDLE if number % 3 == 0 else Rhythm(level=level, swing=2.0, period=41),
                encoder=1.5 if command == 4 else 0.0,
                decoder=0.8 if command == 4 else 0.0,
            ),
        ),
        job=_job_of(number),
        cpu_percent=40 * unit(number, 3),
        resident_memory=int((1 + 6 * unit(number, 4)) * GIB),
        lifetime=(2 + 40 * unit(number, 5)) * HOUR,
    )


SCENE = Scene(
    name="many",
    hostname="pool-demo",
    cards=tuple(
        Card(
            board=L40S,
            domain=index // 16,
            bus=0x01 + 3 * (index % 16),
            place=(index // 32, index // 8, index // 2),
        )
        for index in range(_CARDS)
    ),
    programs=tuple(_program(number) for number in range(_PROGRAMS)),
    cpu_count=512,
    cpus_per_socket=256,
    memory=4096 * GIB,
    memory_used=96 * GIB,
)
