"""What somebody wants of GPUs."""

from __future__ import annotations

from msgspec import Struct

DEFAULT_MAX_UTILIZATION = 10.0


class Wish(Struct, frozen=True, kw_only=True):
    """How many GPUs, and what each of them must be like."""

    count: int = 1
    min_free_bytes: int = 0
    """Memory that is not used by anybody."""
    max_utilization_percent: float = DEFAULT_MAX_UTILIZATION
    """Utilization as the middle one of the last samples."""
    model: str | None = None
    """A part of the product's name."""
    linked: bool = False
    """Whether NVLink must connect each of them with each other."""
    share: bool = False
    """Whether a GPU will do on which others compute."""
