from __future__ import annotations

from tests.tui.actions.kill.stage import Start, host_of, process_for, stage
from tests.tui.stage import process_of


async def test_tagged_processes_are_one_question(start: Start) -> None:
    one, two, spared = start(), start(), start()
    async with stage() as on:
        processes = [process_for(each.pid) for each in (one, two, spared)]
        on.feed.give(host_of(*processes))
        on.app.dashboard.listing.tagged = {each.key for each in processes[:2]}
        await on.pilot.press("K")
        await on.asked()
        assert "Kill these 2 processes?" in on.text
        assert "frees     4.0 GiB on GPU 0-1" in on.text
        await on.pilot.press("y")
        await on.reports("2 of 2 processes ended after SIGKILL")
        on.feed.give(host_of(processes[2]))
        await on.reports("ended after SIGKILL: 4.0 GiB freed on GPU 0-1")
        assert (one.wait(5), two.wait(5)) == (-9, -9)
        assert spared.poll() is None


async def test_one_refused_of_several_is_named_and_spares_no_other(start: Start) -> None:
    one = start()
    async with stage() as on:
        init = process_of(1, pid=1)
        on.feed.give(host_of(process_for(one.pid), init))
        on.app.dashboard.listing.tagged = {row.process.key for row in on.app.dashboard.listing.rows}
        await on.pilot.press("K")
        await on.asked()
        await on.shows("1 of 2 cannot be signalled: PID 1 is init")
        await on.pilot.press("y")
        assert one.wait(5) == -9


async def test_one_of_several_that_ends_by_itself_is_marked(start: Start) -> None:
    one, two = start(), start()
    async with stage() as on:
        on.feed.give(host_of(process_for(one.pid), process_for(two.pid)))
        on.app.dashboard.listing.tagged = {row.process.key for row in on.app.dashboard.listing.rows}
        await on.pilot.press("K")
        await on.asked()
        one.kill()
        one.wait()
        await on.shows("1 of 2 has ended: nothing is sent there")
        assert "Kill this process?" in on.text
        assert "frees     2.0 GiB on GPU 0-1" in on.text
        assert "it has ended by itself" in on.text
        await on.pilot.press("y")
        assert two.wait(5) == -9


async def test_one_that_ended_and_one_that_is_refused_have_labels_of_their_own(
    start: Start,
) -> None:
    one, two = start(), start()
    async with stage() as on:
        on.feed.give(host_of(process_for(one.pid), process_for(two.pid), process_of(1, pid=1)))
        on.app.dashboard.listing.tagged = {row.process.key for row in on.app.dashboard.listing.rows}
        await on.pilot.press("K")
        await on.asked()
        one.kill()
        one.wait()
        await on.shows("ended     ! 1 of 2 has ended: nothing is sent there")
        assert "refused   ✗ 1 of 3 cannot be signalled" in on.text


async def test_one_without_gpu_memory_is_not_given_a_gpu(start: Start) -> None:
    one, two = start(), start()
    async with stage() as on:
        on.feed.give(host_of(process_for(one.pid), process_for(two.pid, devices=())))
        on.app.dashboard.listing.tagged = {row.process.key for row in on.app.dashboard.listing.rows}
        await on.pilot.press("K")
        await on.asked()
        assert "on GPU -" not in on.text
