"""Gives the simulated hosts of this process the clock of the environment."""

import os

from gpudash.collect import local
from gpudash.collect.local import LocalSource
from gpudash.model.snapshot import Snapshot


class SteppedSource:
    """A simulated host whose time passes by its being sampled."""

    def __init__(self, name: str, start: float, step: float, until: float) -> None:
        self._now, self._step, self._until = start, step, until
        self._source: LocalSource = _open(name, lambda: self._now)

    def sample(self, *, brief: bool = False) -> Snapshot:
        if brief:
            return self._source.sample(brief=True)
        snapshot = self._source.sample()
        self._now = max(self._now, min(self._now + self._step, self._until))
        return snapshot

    def close(self) -> None:
        self._source.close()


_open = local.open_simulated
_start, _step, _until = map(float, os.environ["DEMO_CLOCK"].split())
local.open_simulated = lambda name, **_: SteppedSource(name, _start, _step, _until)  # type: ignore
