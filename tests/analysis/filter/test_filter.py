import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.analysis.columns.processes import PROCESS_COLUMNS
from gpudash.analysis.filter import EVERYTHING, MAX_LENGTH, Filter, hint, parse
from gpudash.analysis.filter.terms import BY_NAME, TERMS
from gpudash.analysis.filter.words import quoted, split
from gpudash.analysis.table import ProcessRow, process_rows
from gpudash.model.errors import FilterError
from gpudash.model.process import Job, Process
from gpudash.model.units import ABSENT
from tests.factories import make_process, make_snapshot
from tests.strategies import snapshots, values

SIGNS = (":", "=", "==", "!=", ">", ">=", "<", "<=")
VALUES = ("alice", "0-3,6", "10G", "5%", "C", "2h", "1h30m", "", '"a b"', "0:1", "'")

NEARLY = st.lists(
    st.tuples(
        st.sampled_from(["", "-", "!", "--"]),
        st.sampled_from([*BY_NAME, "usr", "", "http"]),
        st.sampled_from([*SIGNS, ""]),
        st.sampled_from(VALUES) | st.text(max_size=10),
    ).map("".join),
    max_size=6,
).map(" ".join)
"""Texts that look like filters."""


def rows(**overrides: Any) -> list[ProcessRow]:
    return process_rows(make_snapshot(processes=(make_process(**overrides),)))


def outcome(text: str) -> Filter | FilterError:
    try:
        return parse(text)
    except FilterError as error:
        return error


def fits(text: str, **overrides: Any) -> bool:
    return parse(text).matches(rows(**overrides)[0])


@pytest.mark.parametrize(
    "text", ["4242", "alice", "ALICE", "train.py", "--batch", "lr=0.1", "slurm:77", '"32 lr"', ""]
)
def test_a_plain_word_is_found_in_pid_owner_command_and_job(text: str) -> None:
    line = ("python", "train.py", "--batch", "32", "lr=0.1")
    job = Job(kind="slurm", id="77")
    assert fits(quoted(text) if ":" in text else text, command_line=line, job=job)


def test_all_words_must_match() -> None:
    assert fits("alice train gpu:0")
    assert not fits("alice train gpu:1")
    assert not fits("alice eval")


def test_a_word_does_not_reach_from_one_value_into_the_next() -> None:
    assert not fits("4242alice")
    assert not fits('"alice python"')


@pytest.mark.parametrize("text", ["-root", "!root", "-user:root", "!mem<1G", '-"no such"'])
def test_a_negated_word_must_not_match(text: str) -> None:
    assert fits(text)
    assert not fits(text[1:])


def test_a_hidden_process_is_found_by_its_reason() -> None:
    hidden = {"command_line": None, "username": None, "hidden_reason": "another container"}
    assert fits("container", **hidden)


def test_no_words_fit_every_process() -> None:
    assert fits("  \t")
    assert EVERYTHING.matches(rows()[0])


@pytest.mark.parametrize("name", [term.names[0] for term in TERMS])
def test_a_term_that_is_not_whole_yet_says_what_comes_next(name: str) -> None:
    term = BY_NAME[name]
    text = f"alice {name}{term.operators[0]}"
    with pytest.raises(FilterError, match=r"is incomplete: expected") as caught:
        parse(text)
    assert term.values in str(caught.value)
    assert text[caught.value.start : caught.value.end] == f"{name}{term.operators[0]}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mem>x", '"mem>x" cannot be compared: expected a size such as 10G or 512M'),
        ("mem>10", '"mem>10" cannot be compared: expected a size such as 10G or 512M'),
        ("age>5", '"age>5" cannot be compared: expected a time such as 10m or 2h'),
        ("util<-5", '"util<-5" cannot be compared: expected a percentage'),
        ("gpu:0-", '"gpu:0-" cannot be compared: expected GPUs such as'),
        ("gpu:3-1", '"gpu:3-1" cannot be compared: expected GPUs such as'),
        ("gpu:a", '"gpu:a" cannot be compared: expected GPUs such as'),
        ("gpu:0:1:2", '"gpu:0:1:2" cannot be compared'),
        ("pid:1:2", '"pid:1:2" cannot be compared: expected PIDs such as 4242 or 4000-4999,77'),
        ("type:X", '"type:X" cannot be compared: expected C, G or M'),
        ("type:C,", '"type:C," cannot be compared: expected C, G or M'),
        ("user:bob,", '"user:bob," cannot be compared: expected a name, or several'),
        ("user=,bob", '"user=,bob" cannot be compared: expected a name, or several'),
        ("job!=a,,b", '"job!=a,,b" cannot be compared: expected a name, or several'),
        ("user>bob", '"user>bob" cannot be ordered: choose from user: user= user!='),
        (
            "usr:bob",
            '"usr:bob" is not a filter term: quote it to search for the text, or choose from',
        ),
        ("temp>80", '"temp>80" is not a filter term'),
        ("utl>=5", '"utl>=5" is not a filter term'),
        ("utl!=5", '"utl!=5" is not a filter term'),
        ("util <5", '"<5" needs a term before the <, such as util<5'),
    ],
)
def test_a_bad_term_is_one_line_that_names_what_is_valid(text: str, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(f"alice {text} train")
    assert str(caught.value).startswith(message)
    bad = f"alice {text} train"[caught.value.start : caught.value.end]
    assert str(caught.value).startswith(f'"{bad}"')


def test_a_bad_term_is_shown_harmless_and_short() -> None:
    with pytest.raises(FilterError) as caught:
        parse("mem>\x1b[2J\u202e" + "x" * 500)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 150


def test_a_filter_that_is_too_long_is_refused() -> None:
    parse("x" * MAX_LENGTH)
    with pytest.raises(FilterError, match=f"longer than {MAX_LENGTH} characters"):
        parse("x " * MAX_LENGTH)


@given(st.text(max_size=1200) | NEARLY)
def test_any_text_is_a_filter_or_a_filter_error_of_one_line(text: str) -> None:
    asked = outcome(text)
    if isinstance(asked, FilterError):
        assert str(asked).isprintable()
        assert 0 <= asked.start < asked.end <= len(text)
    else:
        assert str(asked) == asked.text == text


@given(NEARLY, values(Process))
def test_a_word_fits_any_process_unless_it_is_negated(text: str, process: Process) -> None:
    [row] = process_rows(make_snapshot(processes=(process,)))
    asked = outcome(text)
    if not isinstance(asked, Filter):
        return
    assert parse(str(asked)).matches(row) is asked.matches(row)
    words = [text[word.start : word.end] for word in split(text)]
    assert asked.matches(row) is all(parse(word).matches(row) for word in words)
    for word in words:
        if word[0] not in "-!":
            assert parse(f"-{word}").matches(row) is parse(f"!{word}").matches(row)
            assert parse(f"-{word}").matches(row) is not parse(word).matches(row)


@given(snapshots())
def test_the_words_of_a_row_find_it(snapshot: Any) -> None:
    for row in process_rows(snapshot):
        texts = {column.key: column.text(row) for column in PROCESS_COLUMNS}
        shown = [texts[key] for key in ("pid", "user", "job", "command") if texts[key] != ABSENT]
        assert parse(" ".join(quoted(text) for text in shown if len(text) < 200)).matches(row)


@pytest.mark.parametrize(
    "text",
    ["-" * MAX_LENGTH, '"' * MAX_LENGTH, "a:" * 500, "gpu:" + "0-1," * 249, "mem>" + "9" * 990],
)
def test_hostile_texts_cost_no_time(text: str) -> None:
    [row] = rows(command_line=("x" * 4096,))
    begin = time.process_time()
    asked = outcome(text)
    if isinstance(asked, Filter):
        asked.matches(row)
    assert time.process_time() - begin < 10


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gpu:9", "there is no GPU 9: choose from 0-7"),
        ("alice GPU=8-11,14", "there is no GPU 8-11,14"),
        ("gpu:0:1", "there is no GPU 0:1"),
        ("mem:10G", "mem:10G means about equal; mem>10G means more"),
        ("idle=10m", "idle>10m means more"),
        ("a|b", "a|b is searched for literally"),
    ],
)
def test_words_that_may_not_mean_what_was_meant_are_reported(text: str, told: str) -> None:
    assert told in hint(text, [str(index) for index in range(8)])


@pytest.mark.parametrize("text", ["", "gpu:7", "-gpu:9", "gpu:6-9", '"(a|b)"', "zzz", "mem>10G"])
def test_words_that_mean_what_they_say_are_not(text: str) -> None:
    assert hint(text, [str(index) for index in range(8)]) == ""
