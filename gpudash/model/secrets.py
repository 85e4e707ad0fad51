"""Secrets in arguments and environments, found by the names and the forms that they have.

A guess that errs on the safe side: what looks like a password, token or key is masked, numbers
of tokens and tokenizers are not. Every pass is linear in the length of what anybody passes, and
most command lines need none: its expressions are compiled when the first one does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

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


__all__ = ["is_secret_value", "mask_arguments", "mask_text"]


def mask_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return arguments with secrets masked: `--token=***`, `--password ***`, `X_API_KEY=***`."""
    if not has_marks("\0".join(arguments)):
        return tuple(arguments)
    from gpudash.model import masking

    return masking.mask_arguments(arguments)


def mask_text(text: str) -> str:
    """Return free text, such as a script passed to a shell, with the secrets in it masked."""
    if not has_marks(text):
        return text
    from gpudash.model import masking

    return masking.mask_text(text)


def is_secret_value(value: str) -> bool:
    """Whether a text has the form of a secret, or holds one: `hf_...`, `://user:password@`."""
    return mask_text(value) != value


_NAME_LIMIT = 64


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
# What is named is no secret: "password-file", "api_key_env"; "eos_token", "token_id", "two-pass".
_NAMES_A_PLACE = _words("file path dir stdin prompt env name")
_COUNTS_BEFORE = _words(
    "pad eos bos unk sep cls mask stop special image max min num per one two single multi"
)
_COUNTS_AFTER = _words("id ids type count limit length len budget")
_SEGMENT = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def is_secret_name(name: str) -> bool:
    """Whether an option or variable of that name holds a secret: `--api-key`, `HF_TOKEN`."""
    return _is_secret_end(name[-_NAME_LIMIT:])


@lru_cache(maxsize=1024)
def _is_secret_end(name: str) -> bool:
    segments = [segment.lower() for segment in _SEGMENT.findall(name)]
    return any(_is_secret(segments, place) for place in range(len(segments)))


def _is_secret(segments: Sequence[str], place: int) -> bool:
    word = segments[place]
    before = segments[place - 1] if place else ""
    after = segments[place + 1] if place + 1 < len(segments) else ""
    if after in _NAMES_A_PLACE:
        return False
    if word in ("key", "keys"):
        at_the_end = bool(before) and (not after or after.isdigit())
        return before in _SECRET_KEYS or (at_the_end and before not in _PLAIN_KEYS)
    if word == "pwd":  # PWD alone is the working directory.
        return bool(before or after)
    if word == "pass" or word.endswith("token"):
        return before not in _COUNTS_BEFORE and after not in _COUNTS_AFTER
    return word in _SECRET or word.endswith(_SECRET_ENDINGS)
