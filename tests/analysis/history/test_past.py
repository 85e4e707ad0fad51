import gc
import tracemalloc

from gpudash.analysis.history import History
from tests.analysis.history.samples import GPU, process, pushed, snapshot
from tests.factories import received


def test_a_device_that_was_away_has_a_gap() -> None:
    history = pushed(10)
    history.push(*received(snapshot(1, devices=())))
    history.push(*received(snapshot(2, 30)))
    assert history.series(GPU, "gpu_utilization_percent", 3, 3) == [10, None, 30]


def test_the_host_and_a_process_have_series_too(history: History) -> None:
    for second in range(3):
        history.push(*received(snapshot(second, processes=(process(sm=second * 10),))))
    key = process(0).key
    assert history.series(None, "load_average", 3, 3) == [4.5] * 3
    assert history.series(None, "cpu_percent", 3, 3) == [0, 1, 2]
    assert history.series(key, "sm_utilization_percent", 3, 3) == [0, 10, 20]
    assert history.series(key, "used_gpu_memory_bytes", 3, 3) == [1 << 30] * 3


def test_a_process_is_known_from_its_first_sight_on(history: History) -> None:
    for second, sm in enumerate([50, 0, 0, 0]):
        history.push(*received(snapshot(second, processes=(process(sm),))))
    history.push(*received(snapshot(4, processes=(process(30),))))
    assert history.seen_since(process(0)) == 1000


def test_a_process_that_was_never_seen_has_no_first_sight(history: History) -> None:
    for second in range(3):
        history.push(*received(snapshot(second, processes=(process(0, memory=0),))))
    assert history.seen_since(process(0, pid=2)) is None


def test_a_process_that_ended_keeps_its_series_for_a_while(history: History) -> None:
    history.push(*received(snapshot(0, processes=(process(40),))))
    history.push(*received(snapshot(1, processes=())))
    assert history.series(process(0).key, "sm_utilization_percent", 2, 2) == [40, None]


def test_processes_that_come_and_go_leave_nothing_behind(history: History) -> None:

    def push(first: int, last: int) -> int:
        for second in range(first, last):
            alive = tuple(process(sm=second % 100, pid=pid) for pid in range(second, second + 3))
            history.push(*received(snapshot(second, second % 100, processes=alive)))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        settled = push(0, 1_500)
        after = push(1_500, 2_200)
    finally:
        tracemalloc.stop()
    assert after < settled * 1.05
