"""The faults of the table, seen by every form of a look and at a real terminal."""

import re
import time
from pathlib import Path

import pytest

from tests.e2e.faults import BEYOND, BROKEN, DEVICES, FAULTS
from tests.e2e.forking import GPUDASH
from tests.e2e.run import Line, each_of, gpudash
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment

FORMS = {
    "a document": "--once --json",
    "gpustat's": "--json=gpustat",
    "a column for each metric": "--format csv",
    "metrics": "--format prometheus",
    "a query": "--query-gpu=index,name,memory.used --format=csv,noheader",
    "a query of processes": "--query-compute-apps=pid --format=csv,noheader",
    "a list": "-L",
    "the links": "topo",
}
SEEN = ("lost when looked up", "hangs in one getter", "driver not loaded")
"""A fault of each kind: one GPU is out of order, one hangs, the driver refuses."""


def test_every_form_has_the_status_and_one_line(fakenvml: Path) -> None:
    cases = [
        *((form, SEEN[0]) for form in FORMS),
        *((form, fault) for form in ("a document", "a query", "the links") for fault in SEEN[1:]),
    ]
    lines: list[Line] = [
        (f"{FORMS[form]} --timeout {FAULTS[fault].timeout:g}", FAULTS[fault].told)
        for form, fault in cases
    ]
    found = each_of(lines, fakenvml, DEVICES=DEVICES)
    for (form, fault), (status, text, errors) in zip(cases, found, strict=True):
        told = FAULTS[fault]
        assert status == told.status, (form, fault)
        # A GPU that is out of order has a row or a line in every form, but among processes none.
        has_no_row = form == "a query of processes" and told.status != 0
        assert errors.count("\n") == (bool(told.line) or has_no_row), (form, fault)
        assert re.search(told.line, errors), (form, fault)
        if told.document and form in ("a query", "a list"):
            indices = [re.search(r"\d", line) for line in text.splitlines()]
            assert [found and int(found[0]) for found in indices] == [*range(DEVICES)]


@pytest.mark.parametrize("name", SEEN)
def test_a_table_at_a_terminal(fakenvml: Path, name: str) -> None:
    fault = FAULTS[name]
    argv = [*GPUDASH, "--once", "--timeout", f"{fault.timeout:g}"]
    env = environment(fakenvml, **{"DEVICES": DEVICES, **fault.told})
    start = time.monotonic()
    with Terminal(argv, env=env, columns=160, rows=60) as terminal:
        assert terminal.wait_exit() == fault.status
        assert time.monotonic() - start <= fault.timeout + BEYOND
        shown = bytes(terminal.raw).decode()
    assert shown.count("gpudash: ") == bool(fault.line)
    assert re.search(fault.line, shown)
    healthy = [index for index in range(DEVICES) if fault.state == "ok" or index != BROKEN]
    for index in healthy if fault.document else ():
        assert re.search(rf"(?m)^\W*{index}\b.*A100.*/400W", shown), index
    if fault.state != "ok":
        assert re.search(rf"(?m)^\W*{BROKEN}\b.*(LOST|RESET|FAILED|NO ANSWER)", shown)
        assert not re.search(rf"(?m)^\W*{BROKEN}\b.*/400W", shown)


def test_a_terminal_of_an_unknown_kind_and_locale_shows_the_screen_in_ascii(fakenvml: Path) -> None:
    argv = ["env", "LC_ALL=POSIX", *GPUDASH, "--no-config"]
    with Terminal(argv, env=environment(fakenvml, DEVICES=2), term="xterm-newest") as terminal:
        terminal.wait_for("A100")
        terminal.wait_for("q quit")
        terminal.settle(0.1)
        assert terminal.raw.isascii()
        assert terminal.quit() == 0


@pytest.mark.sweep
def test_a_document_of_a_thousand_processes_is_there_within_a_second(fakenvml: Path) -> None:
    gpudash("--once", "--json", library=fakenvml)
    best = min(
        gpudash("--once", "--json", library=fakenvml, DEVICES=4, PROCS_PER_DEVICE=250).seconds
        for _ in range(3)
    )
    assert best <= 1
