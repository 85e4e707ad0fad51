"""This gpudash: the versions that it runs on, and the file of settings."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import metadata

from gpudash import __version__
from gpudash.doctor.check import Check, failed, passed, warned

_PACKAGES = ("nvidia-ml-py", "msgspec", "textual", "plotext")


def checks(mistakes: Sequence[str]) -> list[Check]:
    """Return how the packages and the settings stand, whose mistakes are given, a line each."""
    return [_packages(), *_impostor(), *_settings(mistakes)]


def _packages() -> Check:
    python = ".".join(map(str, sys.version_info[:3]))
    found = [f"{name} {version}" for name in _PACKAGES if (version := _version(name))]
    missing = [name for name in _PACKAGES if _version(name) is None]
    if missing:
        advice = "install it again: pip install --force-reinstall gpudash"
        return failed("gpudash", f"{__version__} lacks {', '.join(missing)}", advice)
    return passed("gpudash", f"{__version__}, Python {python}, {', '.join(found)}")


def _impostor() -> list[Check]:
    """Look for the package that takes the module name of nvidia-ml-py."""
    if _version("pynvml") is None:
        return []
    advice = "pip uninstall pynvml && pip install --force-reinstall nvidia-ml-py"
    return [warned("pynvml", "the PyPI package 'pynvml' may hide nvidia-ml-py", advice)]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _settings(mistakes: Sequence[str]) -> list[Check]:
    if not mistakes:
        return [passed("settings", "in order")]
    return [warned("settings", mistake) for mistake in mistakes]
