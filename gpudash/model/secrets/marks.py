"""A first look, far cheaper than the passes: text without any of these marks holds no secret."""

from __future__ import annotations

_OF_NAMES = "token secret pass pwd key credential bearer authorization cookie pat"
_OF_VALUES = (
    "sk- hf_ ghp_ gho_ ghu_ ghs_ ghr_ glpat- xox akia asia aiza eyj pypi- nvapi- npm_ r8_ dop_v1_ "
    "gsk_ sk_live_ sk_test_ tgp_v1_ lsv2_ pplx- signature= sig="
)
_MARKS = (*_OF_NAMES.split(), *_OF_VALUES.split())


def has_marks(text: str) -> bool:
    """Whether a closer look is needed; False for most command lines."""
    text = text.lower()
    return any(mark in text for mark in _MARKS) or ("@" in text and "://" in text)
