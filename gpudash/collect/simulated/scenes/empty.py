"""Two cards with nothing on them."""

from __future__ import annotations

from gpudash.collect.simulated.boards import L40S
from gpudash.collect.simulated.scene import Card, Scene

SCENE = Scene(
    name="empty",
    hostname="spare-demo",
    cards=(
        Card(board=L40S, bus=0x21, place=(0, 0, 0)),
        Card(board=L40S, bus=0x22, place=(0, 0, 1)),
    ),
)
