"""A workstation: one card drives the desktop, renders and records the screen."""

from __future__ import annotations

from gpudash.collect.simulated.boards import RTX_4090
from gpudash.collect.simulated.scene import DAY, GIB, HOUR, MIB, Card, Program, Scene, Share, job
from gpudash.collect.simulated.signals import Rhythm

SCENE = Scene(
    name="single",
    hostname="workstation-demo",
    cards=(Card(board=RTX_4090, bus=0x01, display=True, power_limit=400),),
    programs=(
        Program(
            pid=1_904,
            username="root",
            command_line=("/usr/lib/xorg/Xorg", "vt2", "-displayfd", "3", "-nolisten", "tcp"),
            shares=(
                Share(
                    gpu=0,
                    type="G",
                    memory=394 * MIB,
                    rhythm=Rhythm(level=4, swing=2, period=13),
                    intensity=0.4,
                ),
            ),
            job=job(kind="unit", id="session-2.scope"),
            cpu_percent=3.0,
            resident_memory=180 * MIB,
            lifetime=2 * DAY,
        ),
        Program(
            pid=2_317,
            username="alice",
            command_line=("/usr/bin/gnome-shell",),
            shares=(Share(gpu=0, type="G", memory=212 * MIB, intensity=0.4),),
            job=job(kind="unit", id="org.gnome.Shell@x11.service"),
            cpu_percent=5.0,
            resident_memory=420 * MIB,
            lifetime=2 * DAY,
            parent_pid=2_101,
        ),
        Program(
            pid=18_442,
            username="alice",
            command_line=("/opt/blender/blender", "/home/alice/scenes/harbour.blend"),
            shares=(
                Share(
                    gpu=0,
                    type="C+G",
                    memory=9_830 * MIB,
                    rhythm=Rhythm(level=62, swing=18, period=53),
                    bandwidth=0.35,
                ),
            ),
            job=job(kind="unit", id="app-gnome-blender-18442.scope"),
            cpu_percent=212.0,
            resident_memory=11 * GIB,
            lifetime=5 * HOUR,
            status="running",
            parent_pid=2_101,
        ),
        Program(
            pid=19_007,
            username="alice",
            command_line=("obs", "--startrecording"),
            shares=(
                Share(
                    gpu=0,
                    type="C+G",
                    memory=388 * MIB,
                    rhythm=Rhythm(level=6, swing=2, period=17),
                    intensity=0.5,
                    encoder=2.5,
                ),
            ),
            job=job(kind="unit", id="app-gnome-obs-19007.scope"),
            cpu_percent=24.0,
            resident_memory=640 * MIB,
            lifetime=3 * HOUR,
            parent_pid=2_101,
        ),
    ),
    cpu_count=32,
    cpus_per_socket=32,
    memory=64 * GIB,
    memory_used=8 * GIB,
    swap=16 * GIB,
)
