"""gpudash: a terminal dashboard for NVIDIA GPUs, and what it reads for Python.

`snapshot()` and `stream()` read this host, `pick()` finds free GPUs, `load()` reads a recording;
all raise `GpudashError`.
"""

__version__ = "0.1.0"
__all__ = ["GpudashError", "Snapshot", "load", "pick", "snapshot", "stream"]

TYPE_CHECKING = False
"""As in typing, whose import would cost every start of gpudash some milliseconds."""

if TYPE_CHECKING:
    from gpudash.cli.api import load, pick, snapshot, stream
    from gpudash.model.errors import GpudashError
    from gpudash.model.snapshot import Snapshot
else:
    # Type checkers would take any name for one that this returns.
    _TYPES = {"GpudashError": "gpudash.model.errors", "Snapshot": "gpudash.model.snapshot"}

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_TYPES.get(name, "gpudash.cli.api")), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return [*__all__, "__version__"]
