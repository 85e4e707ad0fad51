"""gpudash: a terminal dashboard for NVIDIA GPUs, and what it reads for Python.

`snapshot()` and `stream()` read this host, `pick()` finds free GPUs, `load()` reads a recording.
"""

__version__ = "0.1.0"
__all__ = ["load", "pick", "snapshot", "stream"]

TYPE_CHECKING = False
"""As in typing, whose import would cost every start of gpudash some milliseconds."""

if TYPE_CHECKING:
    from gpudash.cli.api import load, pick, snapshot, stream


def __getattr__(name: str) -> object:
    """Import a public function when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gpudash.cli import api

    return getattr(api, name)


def __dir__() -> list[str]:
    """Return the public names."""
    return [*__all__, "__version__"]
