import pytest

from gpudash.cli.verbs.doctor import render_checks
from gpudash.doctor.checks import failed, passed, warned
from gpudash.model.text import width

CHECKS = [
    passed("driver", "550.54.15"),
    warned("PID namespace", "a container's own: " + "ids of the host " * 6, "use --pid=host"),
    failed("GPU 1", "fell \x1b[2J off the bus"),
]


def test_a_line_for_each_check_and_a_count() -> None:
    lines = render_checks(CHECKS, width=80, color=False, ascii=False).splitlines()
    assert lines[0] == "PASS  driver         550.54.15"
    assert any(line.strip() == "→ use --pid=host" for line in lines)
    assert lines[-1] == "1 PASS, 1 WARN, 1 FAIL"
    assert max(map(width, lines)) <= 80


def test_foreign_text_is_harmless_and_ascii_is_ascii() -> None:
    text = render_checks(CHECKS, width=80, color=False, ascii=True)
    assert text.isascii()
    assert "\x1b" not in text


@pytest.mark.parametrize("ascii", [False, True])
def test_a_path_longer_than_a_line_is_shown_whole(ascii: bool) -> None:
    path = "/usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.550.163.01"
    text = render_checks([passed("library", path)], width=60, color=False, ascii=ascii)
    assert path in "".join(text.split())
    assert max(map(width, text.splitlines())) <= 60


def test_colour_only_on_demand() -> None:
    assert "\x1b[1;31mFAIL" in render_checks(CHECKS, width=80, color=True, ascii=False)
