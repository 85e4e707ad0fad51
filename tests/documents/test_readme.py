"""README.md is a page: short, with pictures and commands that are there."""

import re
import shlex

import pytest

from gpudash.cli import arguments
from tests.documents.screenshots import FOLDER, SHOTS

ROOT = FOLDER.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = sorted(
    {
        match[1].strip().removesuffix(")")
        for block in re.findall(r"```sh\n(.*?)```", README, re.S)
        for match in re.finditer(r"(?:^|\$\()(gpudash\b[^|&#>\n]*)", block, re.M)
    }
)


def test_it_is_a_page() -> None:
    assert len(README.splitlines()) <= 300
    assert len(README.encode()) <= 20_000
    assert "<details>" not in README


def test_every_picture_is_there_and_no_other() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == {shot.name for shot in SHOTS}


@pytest.mark.parametrize("text", [README, (ROOT / ".github/CONTRIBUTING.md").read_text()])
def test_what_is_linked_is_there(text: str) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert any((folder / target).exists() for folder in (ROOT, ROOT / ".github")), target


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_be_given(command: str) -> None:
    arguments.parse(shlex.split(command)[1:])


def test_the_files_that_an_addition_edits_are_there() -> None:
    guide = (ROOT / ".github/CONTRIBUTING.md").read_text()
    table = guide.partition("## What an addition costs")[2].partition("## Test")[0]
    paths = [path for path in re.findall(r"`([\w/.]+)`", table) if "/" in path]
    assert paths
    assert [path for path in paths if not (ROOT / "gpudash" / path).exists()] == []
