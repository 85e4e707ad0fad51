from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.tui.kill_stage import Start


@pytest.fixture
def start() -> Iterator[Start]:
    children: list[subprocess.Popen[bytes]] = []

    def run(*argv: str) -> subprocess.Popen[bytes]:
        children.append(subprocess.Popen(argv or ("sleep", "600"), stdout=subprocess.PIPE))
        return children[-1]

    yield run
    for child in children:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


@pytest.fixture
def victim(start: Start) -> subprocess.Popen[bytes]:
    return start()
