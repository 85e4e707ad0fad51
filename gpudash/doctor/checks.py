"""What checks read and report."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from gpudash.model.text import SafeText, clean
from gpudash.system.container import container

Verdict = Literal["PASS", "WARN", "FAIL"]

_ORDER: tuple[Verdict, ...] = ("PASS", "WARN", "FAIL")
_BYTES = 1 << 16


class Machine:
    """A file system below `root` and an environment; unreadable parts are None or empty."""

    def __init__(self, root: str = "/", environ: Mapping[str, str] = os.environ) -> None:
        self.environ = environ
        self.root = root
        self._root = root.rstrip("/")

    @property
    def container(self) -> SafeText | None:
        """The kind of container that gpudash runs in, None outside of one."""
        kind = container(self.root, self.environ)
        return None if kind is None else clean(kind)

    def read(self, path: str) -> str | None:
        """Return the beginning of a file."""
        try:
            with open(self._root + path, encoding="utf-8", errors="surrogateescape") as file:
                return file.read(_BYTES).strip()
        except OSError:
            return None

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted."""
        try:
            return sorted(os.listdir(self._root + path))
        except OSError:
            return []

    def real_path(self, path: str) -> str:
        """Return a path without symbolic links, for comparison with others of this machine."""
        return os.path.realpath(self._root + path)

    def exists(self, path: str) -> bool:
        """Whether this file, folder or node exists."""
        return os.path.lexists(self._root + path)

    def is_accessible(self, path: str) -> bool:
        """Whether it may be read and written; checked by its mode, as opening could wake a GPU."""
        return os.access(self._root + path, os.R_OK | os.W_OK)

    def target(self, path: str) -> SafeText | None:
        """Return where a symbolic link points."""
        try:
            return clean(os.readlink(self._root + path))
        except OSError:
            return None


class Check(Struct, frozen=True, kw_only=True):
    """A result: the topic, the verdict, what was found, and what to do unless all is well."""

    topic: str
    verdict: Verdict
    finding: str
    advice: str | None = None


def worst(checks: Iterable[Check]) -> Verdict:
    """Return the worst verdict, PASS if there is none."""
    return max((check.verdict for check in checks), key=_ORDER.index, default="PASS")


def passed(topic: str, finding: str) -> Check:
    """Return a check that found all well."""
    return Check(topic=topic, verdict="PASS", finding=finding)


def warned(topic: str, finding: str, advice: str | None = None) -> Check:
    """Return a check that found a limit on what can be seen or done."""
    return Check(topic=topic, verdict="WARN", finding=finding, advice=advice)


def failed(topic: str, finding: str, advice: str | None = None) -> Check:
    """Return a check that found something broken."""
    return Check(topic=topic, verdict="FAIL", finding=finding, advice=advice)
