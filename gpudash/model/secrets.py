"""Secrets in arguments and free text, found by name and form, and masked.

A guess that errs on the safe side: anything that looks like a password, token or key is masked, but
not numbers of tokens and tokenizers. Every pass is linear in the length of the text. Most command
lines need none, so the patterns are compiled when the first one does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

MASK = "***"
"""Shown instead of a secret."""

_NAME_MARKS = "token secret pass pwd key credential bearer authorization cookie pat"
_VALUE_MARKS = (
    "sk- hf_ ghp_ gho_ ghu_ ghs_ ghr_ glpat- xox akia asia aiza eyj pypi- nvapi- npm_ r8_ dop_v1_ "
    "gsk_ sk_live_ sk_test_ tgp_v1_ lsv2_ pplx- signature= sig="
)
_MARKS = (*_NAME_MARKS.split(), *_VALUE_MARKS.split())

_pattern = cache(re.compile)
_WORD = r"[\w.-]+"
_VALUE = (
    r"(?<![A-Za-z0-9])(?:(?:sk-|hf_|gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|AKIA|ASIA|AIza"
    r"|eyJ|pypi-|nvapi-|gsk_|sk_live_|sk_test_|dckr_pat_|tgp_v1_|lsv2_|pplx-)[\w.-]{10,}"
    r"|(?:npm_|r8_|dop_v1_)[A-Za-z0-9]{32,})"
)
_URL_SIGNATURE = r"(?i)([?&](?:X-(?:Amz|Goog)-Signature|Signature|sig)=)[^&\s\"']+"
"""Lets anyone with the address of a file in a cloud read it."""
_URL_PASSWORD = r"(://[^/\s:@]*:)[^/\s]*(@)"
_PRIVATE_KEY = "PRIVATE KEY-----"
_END_OF_WORD = r"[\s\"']"
_END_OF_HEADER = r"[\n\"']"
_SEGMENT = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+"
_MAX_SPACES = 4
_MAX_NAME = 64


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SECRET = _words(
    "token secret secrets password passwords passwd passphrase passphrases passcode passcodes "
    "apikey apikeys credential credentials bearer authorization cookie cookies pat pats pass pwd "
    "sshpass"
)
_SECRET_ENDINGS = (
    *("password", "passwords", "passwd", "passphrase", "passphrases"),
    *("secret", "secrets", "apikey", "apikeys", "token", "credentials"),
)
_SECRET_KEYS = _words(
    "api access secret private auth signing encryption master storage shared session"
)
# A key at the end of a name opens something, as in WANDB_KEY, unless it finds, names or counts.
_PLAIN_KEYS = _words(
    "public pub gpg sort sorting order primary partition foreign unique composite index lookup "
    "cache group by join hash shard route routing merge config conf cfg dict map item field "
    "column col row data dataset batch sample input output image video audio text prompt label "
    "target feature features metric state model module layer loss reward query value head heads "
    "num n max min count total per dim size len length seq kv no is has use with skip any all "
    "json yaml hot compose random rng"
)
# Neither a reference to a secret nor a kind or count of tokens is one: "password-file",
# "api_key_env"; "eos_token", "token_id", "two-pass".
_REFERS_TO = _words("file path dir stdin prompt env name")
_COUNTS_BEFORE = _words(
    "pad eos bos unk sep cls mask stop special image max min num per one two single multi"
)
_COUNTS_AFTER = _words("id ids type count limit length len budget")


def mask_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return arguments with secrets masked: `--token=***`, `--password ***`, `X_API_KEY=***`.

    An option with a secret name masks the argument after it.
    """
    if not has_marks("\0".join(arguments)):
        return tuple(arguments)
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
        word = _pattern(_WORD).match(argument)
        name = word.group() if word else ""
        rest = argument[len(name) :]
        if rest[:1] in ("=", ":") and is_secret_name(name):
            masked.append(f"{name}{rest[0]}{MASK}" if rest[1:] else argument)
        else:
            masked.append(mask_text(argument))
        secret_follows = is_option and not rest and is_secret_name(name)
    return tuple(masked)


def mask_text(text: str) -> str:
    """Return free text, such as a shell script, with its secrets masked.

    These are values after a secret name, passwords and signatures in URLs, and values of a known
    form.
    """
    if not has_marks(text):
        return text
    if _PRIVATE_KEY in text:
        return MASK
    text = _masked_by_name(text)
    text = _pattern(_URL_PASSWORD).sub(rf"\1{MASK}\2", text)
    text = _pattern(_URL_SIGNATURE).sub(rf"\1{MASK}", text)
    return _pattern(_VALUE).sub(MASK, text)


def is_secret_value(value: str) -> bool:
    """Whether a text has the form of a secret, or contains one: `hf_...`, `://user:password@`."""
    return mask_text(value) != value


def is_secret_name(name: str) -> bool:
    """Whether an option or variable of this name contains a secret: `--api-key`, `HF_TOKEN`."""
    return _is_secret_end(name[-_MAX_NAME:])


def has_marks(text: str) -> bool:
    """Whether text may contain a secret; False for most command lines."""
    text = text.lower()
    return any(mark in text for mark in _MARKS) or ("@" in text and "://" in text)


def _is_next_option(text: str, start: int = 0) -> bool:
    """Whether it is another option and not a value, which may begin with a dash like `-x`."""
    if text.startswith("--", start):
        return True
    word = _pattern(_WORD).match(text, start)
    return word is not None and is_secret_name(word.group())


def _masked_by_name(text: str) -> str:
    """Mask the values that follow a secret name: `token=x`, `"password": "x"`, `--api-key x`."""
    parts: list[str] = []
    done = 0
    for word in _pattern(_WORD).finditer(text):
        if word.start() < done or not is_secret_name(word.group()):
            continue
        start, end = _value_after(text, word)
        if start < end:
            parts += [text[done:start], MASK]
            done = end
    return "".join([*parts, text[done:]])


def _value_after(text: str, name: re.Match[str]) -> tuple[int, int]:
    """Return the start and end of a name's value; both equal if it has none."""
    index = name.end()
    # The name itself may be quoted, in a script even with a backslash before the quote, or be
    # the key of a dictionary.
    while index < min(len(text), name.end() + 3) and text[index] in "\\\"']":
        index += 1
    start = _behind_spaces(text, index)
    separator = text[start : start + 1]
    if separator in ("=", ":"):
        start = _behind_spaces(text, start + 1)
    elif (
        start == index
        or not _takes_the_next_word(name.group())
        or (separator == "-" and _is_next_option(text, start))
    ):
        return index, index
    if text[start : start + 1] == "\\":
        start += 1
    quote = text[start : start + 1]
    if quote in ("'", '"'):
        end = text.find(quote, start + 1)
        return start + 1, len(text) if end < 0 else end
    found = _pattern(_END_OF_HEADER if separator == ":" else _END_OF_WORD).search(text, start)
    return start, found.start() if found else len(text)


def _behind_spaces(text: str, index: int) -> int:
    end = index
    while end < index + _MAX_SPACES and text[end : end + 1] == " ":
        end += 1
    return end


def _takes_the_next_word(name: str) -> bool:
    return name.startswith("-") or name.lower() == "bearer"


@lru_cache(maxsize=1024)
def _is_secret_end(name: str) -> bool:
    segments = [segment.lower() for segment in _pattern(_SEGMENT).findall(name)]
    return any(_is_secret(segments, index) for index in range(len(segments)))


def _is_secret(segments: Sequence[str], index: int) -> bool:
    word = segments[index]
    before = segments[index - 1] if index else ""
    after = segments[index + 1] if index + 1 < len(segments) else ""
    if after in _REFERS_TO:
        return False
    if word in ("key", "keys"):
        at_the_end = bool(before) and (not after or after.isdigit())
        return before in _SECRET_KEYS or (at_the_end and before not in _PLAIN_KEYS)
    if word == "pwd":  # PWD alone is the working directory.
        return bool(before or after)
    if word == "pass" or word.endswith("token"):
        return before not in _COUNTS_BEFORE and after not in _COUNTS_AFTER
    return word in _SECRET or word.endswith(_SECRET_ENDINGS)
