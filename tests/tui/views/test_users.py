from msgspec.structs import replace

from gpudash.analysis.columns.users import USER_COLUMNS
from gpudash.analysis.health.engine import Diagnosis
from gpudash.analysis.usage import all_users
from gpudash.analysis.usage import users as users_of
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from gpudash.tui.listing import Ranking
from gpudash.tui.views.users import UserTable
from gpudash.tui.views.view import View
from tests.factories import (
    GIB,
    gpu_uuid,
    make_device,
    make_process,
    make_process_device,
    make_snapshot,
)
from tests.tui.dashboards import THEME
from tests.tui.stage import OnScreen, on_screen


def held(pid: int, owner: str | None, gib: int, *, gpu: int = 0, sm: int = 50) -> Process:
    share = make_process_device(
        index=gpu, uuid=gpu_uuid(gpu), used_gpu_memory_bytes=gib * GIB, sm_utilization_percent=sm
    )
    return make_process(pid=pid, username=owner, devices=(share,))


THREE = (
    held(1, "alice", 40),
    held(2, "bob", 10, gpu=1, sm=0),
    held(3, "bob", 10, gpu=2, sm=0),
    held(4, "carol", 5, gpu=3),
)


def snapshot(*processes: Process) -> Snapshot:
    used = {
        share.index: bool(share.sm_utilization_percent)
        for each in processes
        for share in each.devices
    }
    devices = tuple(
        make_device(index=index, gpu_utilization_percent=85 if used.get(index) else 0)
        for index in range(4)
    )
    return make_snapshot(devices=devices, processes=processes)


def names(on: OnScreen) -> list[str]:
    """The first word of each line below the headings."""
    return [line.split()[0] for line in on.lines[3:-1] if line.strip()]


async def test_owners_stand_in_order_of_memory_above_their_total() -> None:
    async with on_screen(snapshot(*THREE), "u") as on:
        assert names(on) == ["alice", "bob", "carol", "all"]
        bob = on.lines[4].split()
        assert {"20.0G", "12%", "1-2", "2"} <= set(bob)
        total = on.lines[6].split()
        assert {"65.0G", "20%", "0-3", "4"} <= set(total)


def test_the_total_alone_is_bold() -> None:
    seen = snapshot(*THREE)
    ranking = Ranking(USER_COLUMNS, lambda user: user.name, "memory")
    ranking.fill(users_of(seen))
    everyone = all_users(seen)
    *_, carol, total = UserTable().lines(ranking, everyone, THEME, 80, 24)
    assert THEME.strong not in {segment.style for segment in carol}
    assert not {THEME.base, THEME.owner} & {segment.style for segment in total}


async def test_keys_choose_and_reverse_the_order() -> None:
    async with on_screen(snapshot(*THREE), "u", "r") as on:
        assert names(on) == ["carol", "bob", "alice", "all"]
        await on.press("comma")
        assert names(on) == ["alice", "bob", "carol", "all"]


async def test_click_on_a_heading_sorts_by_its_column() -> None:
    async with on_screen(snapshot(*THREE), "u") as on:
        heading = on.lines[2]
        await on.pilot.click("#body", offset=(heading.index("IDLE-MEM") + 3, 1))
        assert names(on)[0] == "bob"
        await on.pilot.click("#body", offset=(heading.index("IDLE-MEM") + 3, 1))
        assert names(on)[0] != "bob"


async def test_cursor_follows_its_user_through_a_new_order() -> None:
    async with on_screen(snapshot(*THREE), "u", "j") as on:
        on.feed.give(snapshot(*THREE, held(5, "carol", 60), held(6, "dave", 50)))
        assert names(on) == ["carol", "dave", "alice", "bob", "all"]
        await on.press("enter")
        assert not isinstance(on.app.screen, View)
        assert str(on.listing.filter) == 'user="bob"'
        assert {row.process.pid for row in on.listing.rows} == {2, 3}


async def test_click_on_a_user_does_so_too() -> None:
    async with on_screen(snapshot(*THREE), "u") as on:
        await on.click("#body", offset=(3, 4))
        assert not isinstance(on.app.screen, View)
        assert {row.process.pid for row in on.listing.rows} == {4}


async def test_click_on_the_total_or_below_chooses_nobody() -> None:
    async with on_screen(snapshot(*THREE), "u") as on:
        await on.pilot.click("#body", offset=(3, 5))
        await on.pilot.click("#body", offset=(3, 12))
        assert isinstance(on.app.screen, View)


async def test_strange_name_filters_exactly_its_own_processes() -> None:
    async with on_screen(snapshot()) as on:
        for owner in ("a b", 'say "hi"', "user:x", "-x"):
            on.feed.give(snapshot(held(1, owner, 40), held(2, "b", 10)))
            await on.press("u", "enter")
            assert [row.process.pid for row in on.listing.rows] == [1], owner
            await on.press("escape")


async def test_owner_for_whom_there_is_no_filter_is_refused_in_words() -> None:
    async with on_screen(snapshot(), "u", size=(120, 24)) as on:
        for owner, word in ((None, "unknown"), ("", "unknown"), ("x" * 1500, "longer than")):
            on.feed.give(snapshot(held(1, owner, 40)))
            await on.press("enter")
            assert str(on.listing.filter) == ""
            assert word in on.lines[-1]


async def test_an_idle_time_is_the_one_of_the_list_of_processes() -> None:
    idle = make_process_device(sm_utilization_percent=0)
    gpus = (make_device(gpu_utilization_percent=0),)
    processes = (make_process(devices=(idle,), cpu_percent=0.0),)
    first = make_snapshot(devices=gpus, processes=processes, topology=None)
    diagnosis = Diagnosis()
    diagnosis.examine(first)
    uptime = (first.host.uptime_seconds or 0.0) + 7200
    later = replace(first, host=replace(first.host, uptime_seconds=uptime))
    async with on_screen(snapshot(*processes), "u") as on:
        await on.give(diagnosis.examine(later))
        assert "2h00m" in on.lines[3]
        (row,) = on.listing.everything
        assert row.process.idle_seconds == 7200


async def test_many_users_scroll_around_the_cursor_and_the_total_stays() -> None:
    crowd = [held(number, f"user{number:02}", 70 - number) for number in range(1, 60)]
    async with on_screen(snapshot(*crowd), "u", size=(80, 12)) as on:
        assert names(on)[0] == "user01"
        assert "1-7 of 59" in on.lines[2]
        await on.press("end")
        assert names(on)[-2:] == ["user59", "all"]
        await on.press("home")
        assert names(on)[0] == "user01"


async def test_nobody_is_said_in_words() -> None:
    async with on_screen(snapshot(), "u") as on:
        assert any("No process uses a GPU" in line for line in on.lines)
        assert on.footer.split() == ["q", "back", "h", "help"]
        await on.press("j", "enter", "r", "comma", "end")
        assert isinstance(on.app.screen, View)


async def test_memory_that_no_process_owns_is_reported() -> None:
    async with on_screen(snapshot(*THREE), "u") as on:
        gpus = (make_device(memory_unaccounted_bytes=3 * GIB),)
        await on.give(make_snapshot(devices=gpus, processes=THREE))
        text = on.text
        assert "3.0 GiB of GPU memory is held by no listed process" in text
        await on.resize(30, 12)
        text = " ".join(on.text.split())
        assert "3.0 GiB of GPU memory is held by no listed process" in text
