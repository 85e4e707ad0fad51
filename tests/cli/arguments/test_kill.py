from __future__ import annotations

import pytest

from gpudash.cli.arguments import parse
from gpudash.model.errors import UsageError


@pytest.mark.parametrize(
    "words",
    [
        "kill 42 --signal 9",
        "kill --signal=9 42",
        "kill -s 9 42",
        "kill -s9 42",
        "kill -9 42",
        "--no-config kill -9 42",
        "kill -9 -- 42",
    ],
)
def test_a_signal_is_told_as_the_shell_takes_it(words: str) -> None:
    options = parse(words.split())
    assert (options.signal, [str(pid) for pid in options.pids]) == ("9", ["42"])


@pytest.mark.parametrize("name", ["KILL", "SIGKILL", "RTMIN+1"])
def test_a_signal_has_a_name(name: str) -> None:
    assert parse(["kill", f"-{name}", "42"]).signal == name


def test_what_another_program_is_told_is_its_own() -> None:
    assert parse(["run", "--", "kill", "-9", "42"]).argv[-3:] == ["kill", "-9", "42"]


@pytest.mark.parametrize("words", ["kill -9", "kill -42x 42", "kill -tree 42"])
def test_what_is_no_signal_is_an_error(words: str) -> None:
    with pytest.raises(UsageError):
        parse(words.split())
