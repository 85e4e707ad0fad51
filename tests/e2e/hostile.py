"""A process, a driver and files whose every text attacks the terminal that shows it."""

import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpudash.model.errors import WireError
from gpudash.model.wire import decode
from tests.feed.recording.lines import line
from tests.waiting import until

MARKUP = "[/x][@click=app.leave]"
ATTACK = (
    "\x1b]0;owned\x07"  # the title
    "\x1b]52;c;b3duZWQ=\x07"  # the clipboard
    "\x1b[97;5;3m\x1b[13;66H\x1bc"  # looks, cursor, reset
    "\x9b95m\x9d0;c1\x9c"  # the same as C1
    "\u202eltr\u2066\u200b\ufeff\u2028"  # bidi, zero width, separators
    "❤\ufe0f\u3164\u034f\U000e0041\U000e0100"  # what nobody sees, and what widens
    f"a{chr(0x301) * 9}"
    "\nforged\r\x08\x7f\x0e"
    f"{MARKUP}"
).encode() + b"\xff\xfe\xed\xa0\x80"

SHOWN = r"\x1b]0;owned\x07"
"""What is to be seen of an attack, where there is room for it."""

_SENT = (
    "\x1b]0;owned",
    "\x1b]52;c;b3duZWQ=",
    "\x1b[97;5;3m",
    "\x1b[13;66H",
    "\x1bc",
    "\x1b[31mGPU",
)
_OURS = re.compile(
    r"\x1b(?:\[B\x08{1,4}|\[[0-9:;<=>?]*[ -/]*[@-~]|\][0-9]+;[^\x07\x1b]*(?:\x07|\x1b\\)|[>=78])"
)
"""Forms of sequences that a screen or a coloured table may be made of."""

_OBEYED = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_UNSEEN = re.compile("[\u034f\u3164\ufe0f\U000e0100]|\u0301{3,}")

_JOB = """
import subprocess, sys
open("/proc/self/comm", "wb").write(b"\\x1b]0;owned\\x07")
attack = sys.argv[1]
subprocess.Popen([attack, "600"], executable="sleep").wait()
"""


def forbidden(raw: bytes) -> list[str]:
    """What a terminal was sent of an attack: its sequences, and anything else that it obeys."""
    text = raw.decode("utf-8", "surrogateescape")
    rest = _OURS.sub("", text)
    obeyed = {char for char in rest if unicodedata.category(char) in _OBEYED} - {"\r", "\n"}
    found = [sent for sent in _SENT if sent in text] + sorted(map(ascii, obeyed))
    return found + sorted(set(map(ascii, _UNSEEN.findall(rest))))


def recording(path: Path, seconds: int) -> Path:
    """A recording of which every text that may be any text is an attack."""
    lines = (_poisoned(json.loads(line(number))) for number in range(seconds))
    path.write_text("".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in lines))
    return path


def _poisoned(document: dict[str, Any]) -> dict[str, Any]:
    attack = ATTACK.decode("utf-8", "ignore")
    for place, key in list(_texts(document)):
        kept, place[key] = place[key], attack
        try:
            decode(json.dumps(document).encode())
        except WireError:
            place[key] = kept
    return document


def _texts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield where each text of a document is."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        if isinstance(value[key], str):
            # By its type a process counts as one that computes.
            if key != "type":
                yield value, key
        elif isinstance(value[key], (dict, list)):
            yield from _texts(value[key])


@contextmanager
def attacker(folder: Path) -> Iterator[int]:
    """A process of hostile name, arguments, environment, folder and child; yields its PID."""
    script = folder / "job.py"
    script.write_text(_JOB)
    where = os.fsencode(folder) + b"/" + ATTACK.replace(b"/", b"")
    os.mkdir(where)
    argv = [sys.executable, str(script), ATTACK, b"x" * 100_000]
    variables = {
        b"ATTACK": ATTACK,
        b"B" + ATTACK.replace(b"=", b""): b"1",
        b"CUDA_VISIBLE_DEVICES": b"0," + ATTACK,
    }
    process = subprocess.Popen(argv, env=variables, cwd=where, start_new_session=True)
    try:
        _await_child(process.pid)
        yield process.pid
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def _await_child(pid: int) -> None:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    until(children.read_text)
