import pytest
from rich.color import ColorSystem
from rich.style import Style

from gpudash.tui.terminal.sgr import SgrStyle, codes_of, ground_of


def pen(style: str) -> SgrStyle:
    codes = codes_of(Style.parse(style), ColorSystem.TRUECOLOR)
    ground = ground_of(codes)
    return SgrStyle(codes, None if ground == codes else SgrStyle(ground))


@pytest.mark.parametrize(
    ("before", "after", "way"),
    [
        ("#010203", "#040506", "38;2;4;5;6"),
        ("#010203 on #070809", "#010203 on #040506", "48;2;4;5;6"),
        ("bold #010203", "#010203", "22"),
        ("bold dim #010203", "dim #010203", "22;2"),
        ("#010203", "bold #010203", "1"),
        ("bold #010203 on #040506", "bold underline #010203 on #040506", "4"),
        ("#010203", "", "0"),
        ("bold italic underline strike #010203", "bold", "0;1"),
    ],
)
def test_change_of_look_is_the_shortest(before: str, after: str, way: str) -> None:
    assert pen(after).after(pen(before)) == f"\x1b[{way}m"


def test_look_that_is_there_takes_nothing() -> None:
    bold = pen("bold #010203")
    assert bold.after(bold) == ""


def test_unknown_look_is_reset_first() -> None:
    assert pen("bold #010203").after(None) == "\x1b[0;1;38;2;1;2;3m"


def test_blank_has_a_background_alone() -> None:
    assert pen("bold #010203 on #040506").ground.after(None) == "\x1b[0;48;2;4;5;6m"


@pytest.mark.parametrize("line", ["underline", "reverse", "strike"])
def test_blank_with_a_line_keeps_its_look(line: str) -> None:
    lined = pen(f"{line} #010203")
    assert lined.ground is lined
    assert not lined.bare
