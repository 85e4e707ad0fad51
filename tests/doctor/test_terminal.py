import pytest

from gpudash.doctor import terminal
from tests.doctor.machines import told

GOOD = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


def test_a_good_terminal() -> None:
    found = terminal.checks({**GOOD, "TMUX": "x"}, (120, 40), colors="16 million", utf8=True)
    assert {check.verdict for check in found} == {"PASS"}
    assert found[0].finding == "xterm-256color, 120x40, in tmux"


def test_none_is_no_fault() -> None:
    (check,) = terminal.checks({}, None, colors="16", utf8=False)
    assert check.verdict == "PASS"


@pytest.mark.parametrize("name", ["", "dumb"])
def test_one_that_cannot_show_a_screen(name: str) -> None:
    found = told(terminal.checks({"TERM": name}, (80, 24), colors="16", utf8=True))
    assert found["terminal"].verdict == "FAIL"


def test_what_is_small_or_poor_is_told() -> None:
    found = told(terminal.checks({"TERM": "xterm"}, (60, 20), colors="16", utf8=False))
    assert {check.verdict for check in found.values()} == {"WARN"}
    assert all(check.advice for check in found.values())


def test_a_console_draws_ascii_by_choice() -> None:
    found = told(
        terminal.checks({"TERM": "linux", "NO_COLOR": ""}, (80, 24), colors="16", utf8=True)
    )
    assert {check.verdict for check in found.values()} == {"PASS"}
