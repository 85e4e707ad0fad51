"""The reference as a process: on a terminal it goes through a pager."""

import os

import pytest

from tests.e2e.forking import GPUDASH
from tests.e2e.terminal import Terminal

PAGER = """
trap 'echo left by Ctrl-C; exit' INT
head -n1
echo "LESS is $LESS"
read key </dev/tty
"""


@pytest.mark.parametrize(("own", "seen"), [({}, "FRX"), ({"LESS": "i"}, "i")])
def test_the_pager_gets_ctrl_c_and_options_of_less(own: dict[str, str], seen: str) -> None:
    environ = {**os.environ, "PAGER": PAGER, **own}
    with Terminal([*GPUDASH, "help", "filter"], env=environ) as terminal:
        terminal.wait_for(f"LESS is {seen}")
        terminal.send("ctrl+c", then="left by Ctrl-C")
        assert terminal.wait_exit() == 0
