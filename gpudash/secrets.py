"""Secrets in arguments and environments, found by the names and the forms that they have.

A guess that errs on the safe side: what looks like a password, token or key is masked, numbers
of tokens and tokenizers are not. Every pass is linear in the length of what anybody passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MASK = "***"
"""What is shown instead of a secret."""

_NAME_LIMIT = 64


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SECRET = _words(
    "token secret secrets password passwd passphrase passcode apikey credential credentials "
    "bearer authorization cookie pat pass pwd sshpass"
)
_SECRET_ENDINGS = ("password", "passwd", "passphrase", "secret", "apikey", "token", "credentials")
_SECRET_KEYS = _words(
    "api access secret private auth signing encryption master storage shared session"
)
# What is named is no secret: "password-file", "api_key_env"; "eos_token", "token_id", "two-pass".
_NAMES_A_PLACE = _words("file path dir stdin prompt env name")
_COUNTS_BEFORE = _words(
    "pad eos bos unk sep cls mask stop special image max min num per one two single multi"
)
_COUNTS_AFTER = _words("id ids type count limit length len budget")
_SEGMENT = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WORD = re.compile(r"[\w.-]+")
_VALUE = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk-|hf_|gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|AKIA|ASIA|AIza"
    r"|eyJ|pypi-|nvapi-)[\w.-]{10,}|(?:npm_|r8_|dop_v1_)[A-Za-z0-9]{32,})"
)
_URL_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^/\s]*(@)")
_PRIVATE_KEY = "PRIVATE KEY-----"
_MOST_SPACES = 4
_END_OF_WORD = re.compile(r"[\s\"']")
_END_OF_HEADER = re.compile(r"[\n\"']")


def is_secret_name(name: str) -> bool:
    """Whether an option or variable of that name holds a secret: `--api-key`, `HF_TOKEN`."""
    segments = [segment.lower() for segment in _SEGMENT.findall(name[-_NAME_LIMIT:])]
    return any(_is_secret(segments, place) for place in range(len(segments)))


def is_secret_value(value: str) -> bool:
    """Whether a text has the form of a secret, or holds one: `hf_...`, `://user:password@`."""
    return mask_text(value) != value


def mask_environment(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return names and values with secret values masked."""
    return tuple(
        (name, MASK if value and is_secret_name(name) else mask_text(value))
        for name, value in pairs
    )


def mask_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return arguments with secrets masked: `--token=***`, `--password ***`, `X_API_KEY=***`."""
    masked: list[str] = []
    secret_follows = False
    for argument in arguments:
        is_option = argument.startswith("-")
        if secret_follows and argument and not is_option:
            masked.append(MASK)
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


def mask_text(text: str) -> str:
    """Return free text, such as a script passed to a shell, with the secrets in it masked."""
    if _PRIVATE_KEY in text:
        return MASK
    text = _masked_by_name(text)
    text = _URL_PASSWORD.sub(rf"\1{MASK}\2", text)
    return _VALUE.sub(MASK, text)


def _is_secret(segments: Sequence[str], place: int) -> bool:
    word = segments[place]
    before = segments[place - 1] if place else ""
    after = segments[place + 1] if place + 1 < len(segments) else ""
    if after in _NAMES_A_PLACE:
        return False
    if word == "key":
        return before in _SECRET_KEYS
    if word == "pwd":  # PWD alone is the working directory.
        return bool(before or after)
    if word == "pass" or word.endswith("token"):
        return before not in _COUNTS_BEFORE and after not in _COUNTS_AFTER
    return word in _SECRET or word.endswith(_SECRET_ENDINGS)


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
    # The name itself may be quoted, in a script even with a backslash before the quote.
    while place < min(len(text), name.end() + 2) and text[place] in "\\\"'":
        place += 1
    start = _behind_spaces(text, place)
    separator = text[start : start + 1]
    if separator in ("=", ":"):
        start = _behind_spaces(text, start + 1)
    elif start == place or separator == "-" or not _takes_the_next_word(name.group()):
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
