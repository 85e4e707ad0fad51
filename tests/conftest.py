"""Fixtures that more than one folder of tests stands on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from tests.fakenvml.build import CompilerError, build
from tests.holders import Holder, hold

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def fakenvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in libnvidia-ml.so.1, compiled; its folder is what LD_LIBRARY_PATH takes."""
    try:
        return build(tmp_path_factory.mktemp("fakenvml"))
    except CompilerError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def holders() -> Iterator[Callable[..., list[Holder]]]:
    """A function that starts n real processes; their PIDs are for the stand-in's PIDS."""
    started: list[Holder] = []

    def start(count: int, argv: Sequence[str] = ("sleep", "600")) -> list[Holder]:
        started.extend(hold(count, argv))
        return started[-count:]

    yield start
    for holder in started:
        holder.end()
