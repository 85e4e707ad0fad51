"""Numbers that look random and are a pure function of their keys: no state, no `random` import."""

from __future__ import annotations

_MASK = (1 << 64) - 1


def mix(*keys: int) -> int:
    """Return 64 well-mixed bits of the keys (splitmix64's finalizer, chained)."""
    state = 0x9E3779B97F4A7C15
    for key in keys:
        state = ((state ^ key) + 0x9E3779B97F4A7C15) & _MASK
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _MASK
        state ^= state >> 31
    return state


def unit(*keys: int) -> float:
    """Return a number from 0 up to, but without, 1."""
    return (mix(*keys) >> 11) / (1 << 53)


def wobble(*keys: int) -> float:
    """Return a number from -1 up to, but without, 1, zero on average."""
    return 2 * unit(*keys) - 1


def key(text: str) -> int:
    """Return a text as a key for the other functions."""
    return int.from_bytes(text.encode(), "little")


def digits(length: int, *keys: int) -> str:
    """Return that many hexadecimal digits."""
    words = (f"{mix(*keys, part):016x}" for part in range(-(-length // 16)))
    return "".join(words)[:length]


def uuid(*keys: int) -> str:
    """Return something in the form of a UUID, without NVML's `GPU-` in front."""
    raw = digits(32, *keys)
    return "-".join((raw[:8], raw[8:12], raw[12:16], raw[16:20], raw[20:]))
