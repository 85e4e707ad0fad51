"""What a terminal sends for the keys that are no characters."""

KEYS = {
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "tab": "\t",
    "shift+tab": "\x1b[Z",
    "enter": "\r",
    "escape": "\x1b",
    "space": " ",
    "backspace": "\x7f",
    "f1": "\x1bOP",
    "f2": "\x1bOQ",
    "f9": "\x1b[20~",
    "f10": "\x1b[21~",
    "ctrl+c": "\x03",
    "ctrl+l": "\x0c",
    "ctrl+p": "\x10",
    "ctrl+z": "\x1a",
}

_CURSOR_KEYS = frozenset({"up", "down", "right", "left", "home", "end"})
"""Keys that a program may ask for in the application's form (mode 1), as curses does."""


def sequence(key: str, *, cursor_keys: bool = False) -> bytes:
    """Return what a key of KEYS sends, anything else as it is.

    With `cursor_keys` a program has asked for those in the application's form.
    """
    sent = KEYS.get(key, key)
    if cursor_keys and key in _CURSOR_KEYS:
        sent = sent.replace("[", "O")
    return sent.encode()
