"""Runs a source of many hosts, as a collector would, until a test has what it waits for."""

import select
from collections.abc import Callable

from gpudash.fleet.source import Reading, Source
from tests.waiting import until

_MAX_WAIT_SECONDS = 0.05


def read_until(source: Source, is_there: Callable[[Reading], bool]) -> Reading:
    """Run a source until its reading is as expected."""

    def step() -> Reading | None:
        poll = select.poll()
        for descriptor in source.descriptors():
            poll.register(descriptor, select.POLLIN)
        poll.poll(max(0.0, min(source.due_in(), _MAX_WAIT_SECONDS)) * 1000)
        source.advance()
        reading = source.read()
        return reading if is_there(reading) else None

    return until(step, source.read)
