"""Keys and pasted text one after another, each given to whom those before it have led.

Textual decides whom a key is for when it arrives, before the earlier ones are carried out: what
is typed right behind a `/` would be taken for keys of the overview.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from textual.app import App
from textual.events import Event, Key, Paste
from textual.screen import Screen

_PATIENCE_SECONDS = 0.1
"""How long a screen that closes is waited for: it may never say that it is done with a key."""


class OrderedKeys(App[int]):
    """Carries out each key, and what is pasted, before the next is given to anybody.

    A screen may name the instant from which it obeys, `obeys_from` (`time.monotonic`): what
    arrived earlier was not meant for it and is discarded.
    """

    _deliverer: asyncio.Task[None] | None = None

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self._waiting_input: deque[Key | Paste] = deque()

    async def on_event(self, event: Event) -> None:
        """Put a key in line, and what is pasted; all else goes its way."""
        if not isinstance(event, (Key, Paste)) or event.is_forwarded:
            await super().on_event(event)
            return
        self._waiting_input.append(event)
        if self._deliverer is None or self._deliverer.done():
            self._deliverer = asyncio.get_running_loop().create_task(self._deliver())

    async def _deliver(self) -> None:
        """Give away what waits until nothing is left."""
        while self._waiting_input and self.is_running:
            owner, event = self.focused or self.screen, self._waiting_input.popleft()
            if event.time < getattr(self.screen, "obeys_from", 0.0):
                continue
            await super().on_event(event)
            await _reached(owner.call_later)
            # What the owner did not want came back to the app, which may have it in line yet.
            await _reached(self.call_later)


async def _reached(call_later: Callable[[Callable[[], object]], bool]) -> None:
    """Wait until the messages that somebody has now are dealt with."""
    done = asyncio.Event()
    if call_later(done.set):
        try:
            await asyncio.wait_for(done.wait(), _PATIENCE_SECONDS)
        except asyncio.TimeoutError:
            return


def has_use_for(screen: Screen[Any], key: str) -> bool:
    """Whether a dialog, or what has the focus in it, has an action for a key."""
    chain = screen._modal_binding_chain
    return any(key in bindings.key_to_bindings for _node, bindings in chain)


def actions_of(app: App[int], key: str) -> list[str]:
    """Return the actions that an app itself has for a key, as keys are given to them now."""
    bindings = app._bindings.copy()
    bindings.apply_keymap(app._keymap)
    return [binding.action for binding in bindings.key_to_bindings.get(key, ())]


_BEGIN, _END = "\x1b[200~", "\x1b[201~"
_MOST = 1 << 20
"""Characters of a paste; what is beyond is dropped."""


class Pastes:
    """Parts input into keys and pastes, however it is cut."""

    def __init__(self) -> None:
        self._held = ""
        self._pasted: list[str] | None = None
        self._count = 0

    def feed(self, text: str) -> Iterator[str | Paste]:
        """Yield what is to be read as keys, and each paste that has ended."""
        text, self._held = self._held + text, ""
        while text:
            mark = _BEGIN if self._pasted is None else _END
            before, found, text = text.partition(mark)
            if not found:
                # Of the mark of a beginning one character alone may be the key Escape.
                before, self._held = _parted(before, mark, 2 if self._pasted is None else 1)
            if self._pasted is None:
                if before:
                    yield before
                if found:
                    self._pasted, self._count = [], 0
            else:
                self._pasted.append(before[: _MOST - self._count])
                self._count += len(self._pasted[-1])
                if found:
                    yield Paste(_harmless("".join(self._pasted)))
                    self._pasted = None


def _parted(text: str, mark: str, least: int) -> tuple[str, str]:
    """Return a text without the part of a mark that it ends in, and that part."""
    for length in range(len(mark) - 1, least - 1, -1):
        if text.endswith(mark[:length]):
            return text[:-length], text[-length:]
    return text, ""


def _harmless(text: str) -> str:
    """Return a text without control characters but the ends of lines, as most terminals paste."""
    return "".join(char for char in text if (char >= " " and char != "\x7f") or char in "\n\r\t")
