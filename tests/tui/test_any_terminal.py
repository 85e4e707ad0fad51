import re

from gpudash.collect.local import open_simulated
from gpudash.collect.simulated import NAMES
from tests.tui.stage import on_screen


async def test_every_simulated_host_is_shown() -> None:
    async with on_screen() as on:
        for name in NAMES:
            await on.give(open_simulated(name).sample())
            assert re.search(r"(?m)^\W*0 .*(\d+C|asleep|\d+ +\d+ )", on.text), name
