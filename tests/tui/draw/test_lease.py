from typing import Any

import pytest
from rich.color import ColorSystem

from gpudash.model.process import Lease
from gpudash.tui.draw.line import cells_of
from gpudash.tui.theme import look
from gpudash.tui.views.device.details import lease_lines
from tests.factories import gpu_uuid, make_snapshot

THEME = look(no_color=False, color_system=ColorSystem.TRUECOLOR)


def text(cells: int = 80, **overrides: Any) -> str:
    snapshot = make_snapshot(2)
    fields: dict[str, Any] = {
        "pid": 77,
        "username": "bob",
        "name": "python",
        "create_time": snapshot.taken_at.timestamp() - 7500,
        "is_used": False,
    }
    lease = Lease(uuid=gpu_uuid(1), index=1, **{**fields, **overrides})
    leased = make_snapshot(2, leases=(lease,))
    assert lease_lines(leased, leased.devices[0], THEME, cells) == []
    (line,) = lease_lines(leased, leased.devices[1], THEME, cells)
    assert cells_of(line) <= cells
    return "".join(segment.text for segment in line)


def test_who_since_when_and_whether_it_is_used() -> None:
    assert text() == " Leased by bob's python (PID 77) for 2h05m: not used"
    assert text(is_used=True).endswith(": used")
    assert text(is_used=None).endswith(": whether it is used cannot be seen")


def test_a_holder_that_cannot_be_named() -> None:
    unseen = text(pid=None, username=None, name=None, create_time=None)
    assert unseen.startswith(" Leased by a process of another PID namespace: ")
    assert text(username=None, name=None, create_time=None).startswith(
        " Leased by process (PID 77): "
    )


@pytest.mark.parametrize("cells", [0, 1, 7, 40, 60])
def test_any_width(cells: int) -> None:
    text(cells)
