from gpudash.tui.dashboard import PeakHold


def test_room_grows_at_once_and_shrinks_after_a_minute() -> None:
    room = PeakHold()
    room.update(1, 100)
    room.update(3, 101)
    assert room.value == 3
    room.update(0, 102)
    room.update(0, 160)
    assert room.value == 3
    room.update(0, 161)
    assert room.value == 0


def test_room_that_is_filled_again_stays_for_another_minute() -> None:
    room = PeakHold()
    for second in (100, 150, 200):
        room.update(2, second)
        room.update(0, second + 1)
    room.update(0, 259)
    assert room.value == 2


def test_a_step_back_in_time_starts_again() -> None:
    room = PeakHold()
    room.update(3, 100)
    room.update(1, 50)
    assert room.value == 1
