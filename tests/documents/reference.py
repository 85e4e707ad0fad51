"""The tables of README.md, from the code: python -m tests.documents.reference."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from gpudash.analysis.filter.terms import TERMS
from gpudash.analysis.health.rules import RULES
from gpudash.config.settings import Declared, declared, plain
from gpudash.config.toml_editor import rendered
from gpudash.model import wire
from gpudash.model.errors import MEANINGS
from gpudash.model.state import STATES
from gpudash.output.smi import APP_FIELDS, GPU_FIELDS
from gpudash.tui.bindings import actions
from gpudash.tui.keymap import KEYS, Key
from gpudash.tui.preferences import choices

README = Path(__file__).parents[2] / "README.md"


def written() -> str:
    """Return README.md with its tables made anew."""
    text = README.read_text(encoding="utf-8")
    tables = {
        "keys": keys(),
        "terms": terms(),
        "settings": settings(),
        "statuses": statuses(),
        "states": states(),
        "rules": rules(),
        "fields": fields(),
        "queries": queries(),
    }
    for name, table in tables.items():
        block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = block.sub(lambda match, table=table: f"{match[1]}{table}{match[2]}", text)
    return text


def keys() -> str:
    """Return the table of keys, as the help screen shows them."""
    rows = []
    for group, members in groupby(KEYS, lambda key: key.group):
        rows.append(f"| | **{group}** | |")
        rows += [f"| `{key.shown}` | {key.help} | {_id(key)} |" for key in members]
    return "\n".join(["| key | does | in the settings |", "|---|---|---|", *rows, ""])


def _id(key: Key) -> str:
    return f"`{key.id}`" if key.id in actions() else ""


def terms() -> str:
    """Return the table of the terms of a filter."""
    rows = [
        f"| `{term.example}` | {term.help} | {' '.join(f'`{sign}`' for sign in term.operators)} |"
        for term in TERMS
    ]
    return "\n".join(["| term | fits a process | operators |", "|---|---|---|", *rows, ""])


def settings() -> str:
    """Return the table of the settings."""
    # The table of keys lists the actions.
    known = msgspec.structs.replace(choices(), actions=("those of the table of keys",))
    rows = [
        f"| `{each.name}` | {each.help} | {each.kind.valid(known)} | `{_default(each)}` |"
        for each in declared().values()
    ]
    return "\n".join(["| setting | what | valid | default |", "|---|---|---|---|", *rows, ""])


def _default(each: Declared) -> str:
    return rendered(plain(each.default))


def statuses() -> str:
    """Return the table of the exit statuses."""
    rows = [f"| {status} | {meaning} |" for status, meaning in sorted(MEANINGS.items())]
    return "\n".join(["| exit status | means |", "|---|---|", *rows, ""])


def states() -> str:
    """Return the table of the states of a GPU, in the order of the header."""
    rows = [f"| {state.word} | {state.sentence} |" for state in STATES]
    return "\n".join(["| STATUS | the GPU |", "|---|---|", *rows, ""])


def rules() -> str:
    """Return the table of the findings there are, the most important first."""
    head = ["| finding | status | when | told after |", "|---|---|---|---|"]
    rows = [
        f"| `{rule.id}` | {rule.word} | {rule.help} | {_seconds(rule.appears_after_seconds)} |"
        for rule in RULES
    ]
    return "\n".join([*head, *rows, ""])


def _seconds(seconds: float) -> str:
    return f"{seconds:g} s" if seconds else "at once"


def queries() -> str:
    """Return the table of the fields that nvidia-smi's dialect has."""
    head = ["| field | unit | also |", "|---|---|---|"]
    rows = [
        f"| `{field.name}` | {field.unit} | {', '.join(f'`{each}`' for each in field.aliases)} |"
        for fields in (GPU_FIELDS, APP_FIELDS)
        for name, field in fields.items()
        if name == field.name
    ]
    return "\n".join([*head, *rows, ""])


def fields() -> str:
    """Return a table of fields for each part of the document."""
    definitions = wire.json_schema()["$defs"]
    return "".join(_struct(name, definitions[name]) for name in _in_order(definitions))


def _in_order(definitions: dict[str, Any]) -> Iterator[str]:
    order = ("Snapshot", "Host", "Device", "Process", "ProcessDevice", "Job", "Topology", "Fault")
    order += ("Finding", "Evidence")
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
