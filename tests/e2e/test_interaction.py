import os

from tests.e2e.forking import GPUDASH
from tests.e2e.terminal import Terminal


def demo(*arguments: str, size: tuple[int, int] = (100, 30), **env: str) -> Terminal:
    argv = [*GPUDASH, "--demo=dgx-h100", *arguments]
    return Terminal(argv, env={**os.environ, **env}, columns=size[0], rows=size[1])


def test_a_paste_escape_and_alt_are_told_apart_however_fast_they_are_typed() -> None:
    with demo() as terminal:
        terminal.wait_for("vllm")
        terminal.send("/\x1b[200~user:car\x1b[201~", then="/ user:car")
        # Until the terminal's own answers have been read.
        terminal.settle()
        # Alt with a letter leaves what is typed alone.
        terminal.send("\x1bq", "ol", then="/ user:carol")
        terminal.wait_for("2 of 8")
        terminal.send("enter", "d", then="Encoder utilization")
        # Escape and a key are two keys.
        terminal.send("\x1bu", then="IDLE-MEM")
        terminal.send("\x1b\x1b[B\x1bq")
        assert terminal.wait_exit() == 0


def test_mouse_sorts_selects_opens_and_presses_the_footer() -> None:
    with demo() as terminal:
        terminal.wait_for("vllm")
        terminal.settle()
        terminal.click_on("PID  USER")
        terminal.wait_for("▼PID")
        terminal.click_on("filter")
        terminal.wait_for("Enter apply")
        terminal.send("escape", then="quit")
        terminal.settle()
        terminal.click_on("vllm")
        terminal.click_on("vllm")
        terminal.wait_for("q back")
        terminal.send("q", then="q quit")
        terminal.click_on("sort")
        terminal.wait_for("Sort by")
        terminal.wheel(50, 15, 2)
        terminal.settle()
        terminal.click_on("resident memory")
        terminal.wait_for(lambda text: "Sort by" not in text)


def test_unknown_theme_is_one_line() -> None:
    with demo("--theme", "drak") as terminal:
        assert terminal.wait_exit() == 2
        assert "unknown theme 'drak': choose from dark" in terminal.text.replace("\n", "")
