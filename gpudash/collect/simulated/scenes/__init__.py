"""The simulated hosts, one module each, imported only when one is asked for."""

from __future__ import annotations

from importlib import import_module

from gpudash.collect.simulated.scene import Scene
from gpudash.model.errors import UsageError

NAMES = ("dgx-h100", "pcie-1080ti", "mig", "laptop", "lost", "single", "many", "empty")
"""Every simulated host, the default first."""


def load(name: str) -> Scene:
    """Return a declared host.

    Raises UsageError that names the valid ones.
    """
    if name not in NAMES:
        raise UsageError(f"no simulated host {name!r}; there are: {', '.join(NAMES)}")
    scene: Scene = import_module(f"{__name__}.{name.replace('-', '_')}").SCENE
    return scene
