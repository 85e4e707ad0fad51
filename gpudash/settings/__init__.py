"""What a person set: the TOML file in the platform's folder for settings, read and written back.

`load(path(), choices)` never fails, `save(settings, path(), since=loaded)` writes only what was
changed; the names to choose from come from the caller, because only the screen knows them.
"""

from __future__ import annotations

from gpudash.settings.declared import Settings, declared
from gpudash.settings.documented import template
from gpudash.settings.kinds import Choices
from gpudash.settings.loading import is_read_only, load
from gpudash.settings.place import path
from gpudash.settings.saving import save

__all__ = ["Choices", "Settings", "declared", "is_read_only", "load", "path", "save", "template"]
