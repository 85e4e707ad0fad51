from tests.factories import make_snapshot
from tests.tui.stage import busy_snapshot, on_screen, process_of


async def test_dialog_leaves_what_is_beside_it_as_it_was() -> None:
    async with on_screen(busy_snapshot(), captured=True, size=(120, 40)) as on:
        await on.sent()
        before = on.terminal.cells
        await on.press("K")
        await on.sent()
        assert "Close" in on.terminal.text
        (box,) = (child.region for child in on.app.screen.children if child.region)
        after = on.terminal.cells
        for y, row in enumerate(before):
            inside = range(box.x, box.right) if box.y <= y < box.bottom else range(0)
            assert [x for x in range(120) if row[x] != after[y][x] and x not in inside] == []


async def test_header_of_a_view_behind_a_dialog_fits_a_smaller_terminal() -> None:
    async with on_screen(busy_snapshot(), "d", size=(80, 24)) as on:
        header = on.lines[0]
    async with on_screen(busy_snapshot(), "d", "f2", size=(140, 40)) as on:
        await on.resize(80, 24)
        assert on.lines[0] == header


async def test_rows_behind_a_dialog_go_on_and_cost_what_changed() -> None:
    processes = [process_of(number) for number in range(20)]
    async with on_screen(
        make_snapshot(8, processes=tuple(processes)), captured=True, size=(140, 40)
    ) as on:
        await on.press("f2")
        await on.sent()
        assert "job19.py" in on.terminal.text
        processes[19] = process_of(19, command_line=("python", "other.py"))
        on.feed.give(make_snapshot(8, processes=tuple(processes)))
        sent = await on.sent()
        assert "other.py" in on.terminal.text
        assert "Theme" in on.terminal.text
        assert 0 < len(sent.encode()) < 200


async def test_picture_uncovered_is_the_one_that_was_never_covered() -> None:
    pictures = []
    for covered in (True, False):
        async with on_screen(busy_snapshot(), captured=True, size=(140, 40)) as on:
            if covered:
                await on.press("f2")
            on.feed.give(make_snapshot(4, processes=tuple(process_of(n) for n in range(12))))
            await on.sent()
            if covered:
                await on.press("escape")
            await on.sent()
        pictures.append(on.terminal.cells)
    assert pictures[0] == pictures[1]
