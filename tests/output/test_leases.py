from gpudash.model.process import Lease
from gpudash.model.text import width
from gpudash.output.table import render_leases
from tests.factories import gpu_uuid, make_snapshot


def test_none() -> None:
    assert "No GPU is leased" in render_leases(make_snapshot(), width=80, color=False)


def test_who_has_what_and_uses_it() -> None:
    taken = make_snapshot()
    held = Lease(
        uuid=gpu_uuid(1),
        index=1,
        pid=77,
        start_ticks=5,
        create_time=taken.taken_at.timestamp() - 7500,
        username="bob",
        name="py\x1b[2Jthon",
        is_used=False,
    )
    ended = Lease(uuid=gpu_uuid(2), index=2, pid=99)
    foreign = Lease(uuid=gpu_uuid(3), index=3)
    text = render_leases(make_snapshot(leases=(held, ended, foreign)), width=80, color=False)
    rows = text.splitlines()
    assert rows[1].split()[:5] == ["1", "bob", "77", "2h05m", "no"]
    assert "a child of an ended process" in rows[2]
    assert "99" not in rows[2]
    assert "another PID namespace" in rows[3]
    assert "\x1b" not in text
    assert all(width(line) <= 80 for line in rows)
