import pytest

from gpudash.cli.arguments import parse
from gpudash.cli.verbs.kill import signal_and_pids
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
        "kill 42 -9",
        "kill --yes -9 42",
        "kill -9 --yes 42",
        "kill 42 --yes -9",
        "kill 42 --yes --signal 9",
        "kill --signal 9 --yes -- 42",
    ],
)
def test_a_signal_is_given_as_to_the_kill_of_the_shell(words: str) -> None:
    assert signal_and_pids(parse(words.split())) == ("9", ["42"])


def test_pids_stand_on_both_sides_of_options() -> None:
    options = parse(["kill", "42", "-9", "43", "--yes", "44"])
    assert (signal_and_pids(options), options.yes) == (("9", ["42", "43", "44"]), True)


@pytest.mark.parametrize("name", ["KILL", "SIGKILL", "RTMIN+1"])
def test_a_signal_has_a_name(name: str) -> None:
    assert signal_and_pids(parse(["kill", f"-{name}", "42"])) == (name, ["42"])


def test_the_words_of_another_program_are_its_own() -> None:
    assert parse(["run", "--", "kill", "-9", "42"]).argv[-3:] == ["kill", "-9", "42"]


@pytest.mark.parametrize(
    "words", ["kill -9 -s INT 42", "kill -9 42 -15", "kill -tree 42", "kill -42x 42"]
)
def test_what_is_no_signal_is_an_error(words: str) -> None:
    with pytest.raises(UsageError):
        signal_and_pids(parse(words.split()))


@pytest.mark.parametrize("words", ["kill -9", "kill -KILL --yes", "kill --signal INT -9"])
def test_a_signal_alone_lacks_a_pid(words: str) -> None:
    with pytest.raises(UsageError, match="required: PID"):
        signal_and_pids(parse(words.split()))


def test_what_is_neither_a_signal_nor_a_pid_is_left_to_the_check_of_pids() -> None:
    assert signal_and_pids(parse(["kill", "-999", "42"])) == ("TERM", ["-999", "42"])
