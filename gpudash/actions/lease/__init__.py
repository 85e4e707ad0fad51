"""Which GPUs the next person may have: by sustained use, by fit, and by how they are connected."""

from __future__ import annotations

from gpudash.actions.lease.choose import Choice, choose, most_possible
from gpudash.actions.lease.request import Wish

__all__ = ["Choice", "Wish", "choose", "most_possible"]
