import os
import signal
import subprocess
import sys

import pytest

from gpudash.cli.preframe import skeleton
from gpudash.system.terminal import allows_color
from gpudash.tui.cells import color_system
from gpudash.tui.theme import load_theme


@pytest.mark.parametrize(
    "environ",
    [
        {"TERM": "xterm-256color", "COLORTERM": "truecolor"},
        {"TERM": "xterm", "COLORTERM": " 24bit"},
        {"TERM": "screen-256color"},
        {"TERM": "xterm-kitty"},
        {"TERM": "linux"},
        {"TERM": "xterm", "COLORTERM": "yes"},
        {"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": ""},
        {"TERM": "vt220"},
    ],
)
def test_looks_as_the_picture_that_follows(environ: dict[str, str]) -> None:
    system = color_system(environ)
    theme = load_theme("dark", no_color=not allows_color(environ), color_system=system)
    word, bar = (
        "\x1b[0;"
        + style.render("x", color_system=system)[2:].partition("x")[0].replace(";49m", "m")
        for style in (theme.dim, theme.header_strong)
    )
    drawn = skeleton(20, environ, ascii=False)
    assert drawn == (
        f"{word}\x1b[2J\x1b[H{bar} gpudash            {word}\x1b[3;1H reading GPUs…\x1b[0m"
    )


def test_fits_a_narrow_terminal_in_ascii() -> None:
    assert skeleton(4, {"TERM": "vt100"}, ascii=True).split("\x1b[3;1H")[1] == " rea\x1b[0m"


def test_a_terminal_that_is_gone_is_left_without_a_traceback() -> None:
    code = (
        "import signal, sys; from gpudash.cli.preframe import quiet_terminal\n"
        "with quiet_terminal(): print(file=sys.stderr, flush=True); signal.pause()"
    )
    master, terminal = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=terminal, stdout=terminal, stderr=subprocess.PIPE
    ) as process:
        os.close(terminal)
        process.stderr.readline()
        os.close(master)
        process.send_signal(signal.SIGHUP)
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGHUP


def test_the_first_pixels_wait_for_little() -> None:
    code = (
        "import sys, gpudash.cli.watch\n"
        "from gpudash.cli import arguments, options\n"
        "given = arguments.parse([])\n"
        "options.collector_command(given), options.gpu_selectors(given)\n"
        "print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"msgspec", "gpudash.model.device", "textual", "rich"} & set(run.stdout.split())
