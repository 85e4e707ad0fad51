"""The tables of README.md, from the code: python -m tests.documents.reference."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpudash import wire
from gpudash.tui.keymap import KEYS

README = Path(__file__).parents[2] / "README.md"


def written() -> str:
    """Return README.md with its tables made anew."""
    text = README.read_text(encoding="utf-8")
    for name, table in (("keys", keys()), ("fields", fields())):
        block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = block.sub(lambda match, table=table: f"{match[1]}{table}{match[2]}", text)
    return text


def keys() -> str:
    """Return the table of keys, as the help screen shows them."""
    rows = [f"| `{key.shown}` | {key.help} |" for key in KEYS]
    return "\n".join(["| key | does |", "|---|---|", *rows, ""])


def fields() -> str:
    """Return a table of fields for each part of the document."""
    definitions = wire.json_schema()["$defs"]
    return "".join(_struct(name, definitions[name]) for name in _in_order(definitions))


def _in_order(definitions: dict[str, Any]) -> Iterator[str]:
    order = ("Snapshot", "Host", "Device", "Process", "ProcessDevice", "Job", "Topology", "Fault")
    yield from order
    yield from sorted(set(definitions) - set(order))


def _struct(name: str, definition: dict[str, Any]) -> str:
    rows = [_row(field, about) for field, about in definition["properties"].items()]
    head = [f"\n**{name}**: {definition['description']}\n", "| field | unit | what | NVML |"]
    return "\n".join([*head, "|---|---|---|---|", *rows, ""])


def _row(field: str, about: dict[str, Any]) -> str:
    calls = ", ".join(f"`{call}`" for call in about.get("x-nvml", "").split(", ") if call)
    return f"| `{field}` | {about.get('x-unit', '')} | {about['description']} | {calls} |"


if __name__ == "__main__":
    README.write_text(written(), encoding="utf-8")
    sys.exit()
