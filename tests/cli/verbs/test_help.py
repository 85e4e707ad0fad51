import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import gpudash
from gpudash.analysis.filter.terms import TERMS
from gpudash.analysis.health.rules import RULES
from gpudash.cli import verbs
from gpudash.cli.arguments import parse
from gpudash.cli.verbs.help import TOPICS
from gpudash.config.settings import Table, declared
from gpudash.fleet.health import RULES as FLEET_RULES
from gpudash.fleet.where import KIND
from gpudash.fleet.where import TERMS as OF_GPUS
from gpudash.model import fleet, report, wire
from gpudash.model.errors import MEANINGS
from gpudash.model.state import STATES
from gpudash.output.queries import QUERIES
from gpudash.output.smi_details import SECTIONS
from gpudash.tui.keymap import FLEET_KEYS, KEYS


@pytest.fixture
def shown(capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def text(*words: str) -> str:
        options = parse(["help", *words])
        assert options.run(options) == 0
        out, err = capfd.readouterr()
        assert err == ""
        return out

    return text


def terms(topic: str) -> set[str]:
    return {term for section in TOPICS[topic].sections() for term, _ in section.rows}


BETWEEN_OUR_PROCESSES = {"GPUDASH_CONTROLLED", "GPUDASH_XID_HANDOVER"}


def test_every_topic_has_what_the_code_declares() -> None:
    assert {key.help for key in (*KEYS, *FLEET_KEYS)} == {
        text.partition(" [")[0] for section in TOPICS["keys"].sections() for _, text in section.rows
    }
    assert terms("filter") == {term.example for term in (*TERMS, *OF_GPUS, KIND)}
    tables = {name: each.kind for name, each in declared().items() if isinstance(each.kind, Table)}
    within = {name for table in tables.values() for name in table.type.__struct_fields__}
    assert terms("settings") == set(declared()) - set(tables) | within
    states = {state.word for state in STATES}
    assert terms("findings") == {rule.id for rule in (*RULES, *FLEET_RULES)} | states
    assert terms("exit") == {str(status) for status in MEANINGS}
    assert terms("queries") == {
        *(field.name for kind in QUERIES.values() for field in kind.fields.values()),
        *SECTIONS,
    }
    assert {name for name in terms("environment") if name.startswith("GPUDASH")} == {
        name
        for file in Path(gpudash.__file__).parent.rglob("*.py")
        for name in re.findall(r"\bGPUDASH_[A-Z_]+", file.read_text())
    } - BETWEEN_OUR_PROCESSES
    schemas = wire.json_schema(), fleet.json_schema(), report.json_schema()
    definitions = [each for schema in schemas for each in schema["$defs"].values()]
    assert terms("fields") == {name for each in definitions for name in each["properties"]}


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_fits_a_terminal_of_80_columns(topic: str, shown: Callable[..., str]) -> None:
    lines = shown(topic).splitlines()
    titles = {section.title for section in TOPICS[topic].sections()}
    assert len(lines) > len(terms(topic)) / 2
    assert all(len(line) <= 80 or line in titles for line in lines)


def test_ascii_where_the_locale_is_not_utf_8() -> None:
    argv = [sys.executable, "-m", "gpudash", "help", "keys"]
    run = subprocess.run(argv, env={**os.environ, "LC_ALL": "C"}, stdout=subprocess.PIPE)
    assert (run.returncode, run.stdout.isascii()) == (0, True)


def test_without_a_topic_all_are_listed(shown: Callable[..., str]) -> None:
    text = shown()
    assert all(name in text for name in TOPICS)


def test_a_command_is_a_topic_as_well(shown: Callable[..., str]) -> None:
    assert "usage: gpudash topo" in shown("topo")
    assert not set(TOPICS) & set(verbs.names())


def test_the_keys_are_listed_without_textual() -> None:
    code = (
        "import sys; from gpudash.cli.verbs.help import TOPICS\n"
        "assert list(TOPICS['keys'].sections())\n"
        "sys.exit('textual' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
