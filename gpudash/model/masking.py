"""The passes over arguments and free text in which something was found to look like a secret."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpudash.model.secrets import has_marks, is_secret_name

MASK = "***"
"""What is shown instead of a secret."""

_WORD = re.compile(r"[\w.-]+")
_VALUE = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk-|hf_|gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|AKIA|ASIA|AIza"
    r"|eyJ|pypi-|nvapi-|gsk_|sk_live_|sk_test_|dckr_pat_|tgp_v1_|lsv2_|pplx-)[\w.-]{10,}"
    r"|(?:npm_|r8_|dop_v1_)[A-Za-z0-9]{32,})"
)
_URL_SIGNATURE = re.compile(r"([?&](?:X-(?:Amz|Goog)-Signature|Signature|sig)=)[^&\s\"']+", re.I)
"""What lets whoever has the address of a file in a cloud read it."""
_URL_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^/\s]*(@)")
_PRIVATE_KEY = "PRIVATE KEY-----"
_MOST_SPACES = 4
_END_OF_WORD = re.compile(r"[\s\"']")
_END_OF_HEADER = re.compile(r"[\n\"']")


def mask_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return arguments masked one by one; an option of a secret name masks the one behind it."""
    masked: list[str] = []
    secret_follows = False
    for argument in arguments:
        is_option = argument.startswith("-")
        if secret_follows and argument and not (is_option and _is_next_option(argument)):
            masked.append(MASK)
            secret_follows = False
            continue
        if not has_marks(argument):
            masked.append(argument)
            secret_follows = False
            continue
        word = _WORD.match(argument)
        name = word.group() if word else ""
        rest = argument[len(name) :]
        if rest[:1] in ("=", ":") and is_secret_name(name):
            masked.append(f"{name}{rest[0]}{MASK}" if rest[1:] else argument)
        else:
            masked.append(mask_text(argument))
        secret_follows = is_option and not rest and is_secret_name(name)
    return tuple(masked)


def _is_next_option(text: str, start: int = 0) -> bool:
    """Whether it is no value of the option before, which may begin with a dash as `-x` does."""
    if text.startswith("--", start):
        return True
    word = _WORD.match(text, start)
    return word is not None and is_secret_name(word.group())


def mask_text(text: str) -> str:
    """Return text without what follows a secret name, passwords in URLs and known forms."""
    if _PRIVATE_KEY in text:
        return MASK
    text = _masked_by_name(text)
    text = _URL_PASSWORD.sub(rf"\1{MASK}\2", text)
    text = _URL_SIGNATURE.sub(rf"\1{MASK}", text)
    return _VALUE.sub(MASK, text)


def _masked_by_name(text: str) -> str:
    """Mask the values that follow a secret name: `token=x`, `"password": "x"`, `--api-key x`."""
    parts: list[str] = []
    done = 0
    for word in _WORD.finditer(text):
        if word.start() < done or not is_secret_name(word.group()):
            continue
        start, end = _value_after(text, word)
        if start < end:
            parts += [text[done:start], MASK]
            done = end
    return "".join([*parts, text[done:]])


def _value_after(text: str, name: re.Match[str]) -> tuple[int, int]:
    """Return where the value of a name begins and ends; both alike if it has none."""
    place = name.end()
    # The name itself may be quoted, in a script even with a backslash before the quote, or the
    # key of a dictionary.
    while place < min(len(text), name.end() + 3) and text[place] in "\\\"']":
        place += 1
    start = _behind_spaces(text, place)
    separator = text[start : start + 1]
    if separator in ("=", ":"):
        start = _behind_spaces(text, start + 1)
    elif (
        start == place
        or not _takes_the_next_word(name.group())
        or (separator == "-" and _is_next_option(text, start))
    ):
        return place, place
    if text[start : start + 1] == "\\":
        start += 1
    quote = text[start : start + 1]
    if quote in ("'", '"'):
        end = text.find(quote, start + 1)
        return start + 1, len(text) if end < 0 else end
    found = (_END_OF_HEADER if separator == ":" else _END_OF_WORD).search(text, start)
    return start, found.start() if found else len(text)


def _behind_spaces(text: str, place: int) -> int:
    end = place
    while end < place + _MOST_SPACES and text[end : end + 1] == " ":
        end += 1
    return end


def _takes_the_next_word(name: str) -> bool:
    return name.startswith("-") or name.lower() == "bearer"
