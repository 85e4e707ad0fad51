"""The settings: a TOML file in ~/.config/gpudash, read and written back.

`load(path, choices)` never fails, `save(settings, path, since=loaded)` writes only changes; the
valid names come from the caller, because only the screen knows them.
"""

from __future__ import annotations

from gpudash.config.file import is_read_only, load, read, save, template
from gpudash.config.settings import Choices, Settings, declared

__all__ = [
    "Choices",
    "Settings",
    "declared",
    "is_read_only",
    "load",
    "read",
    "save",
    "template",
]
