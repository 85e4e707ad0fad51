"""Secrets in arguments and environments, found by the names and the forms that they have.

A guess that errs on the safe side: what looks like a password, token or key is masked, numbers
of tokens and tokenizers are not. Every pass is linear in the length of what anybody passes, and
most command lines need none: its expressions are compiled when the first one does.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpudash.model.secrets.marks import has_marks

__all__ = ["is_secret_value", "mask_arguments", "mask_text"]


def mask_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return arguments with secrets masked: `--token=***`, `--password ***`, `X_API_KEY=***`."""
    if not has_marks("\0".join(arguments)):
        return tuple(arguments)
    from gpudash.model.secrets import masking

    return masking.mask_arguments(arguments)


def mask_text(text: str) -> str:
    """Return free text, such as a script passed to a shell, with the secrets in it masked."""
    if not has_marks(text):
        return text
    from gpudash.model.secrets import masking

    return masking.mask_text(text)


def is_secret_value(value: str) -> bool:
    """Whether a text has the form of a secret, or holds one: `hf_...`, `://user:password@`."""
    return mask_text(value) != value
