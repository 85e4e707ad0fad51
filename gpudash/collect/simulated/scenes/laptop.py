"""A laptop whose only NVIDIA GPU is powered down and must not be woken."""

from __future__ import annotations

from gpudash.collect.simulated.boards import RTX_4070_LAPTOP
from gpudash.collect.simulated.scene import GIB, Card, Scene

SCENE = Scene(
    name="laptop",
    hostname="laptop-demo",
    cards=(Card(board=RTX_4070_LAPTOP, bus=0x01, state="suspended"),),
    cpu_count=16,
    memory=32 * GIB,
    memory_used=9 * GIB,
    swap=8 * GIB,
    cpu_percent=6.0,
)
