"""An `ssh` on PATH that runs the remote command here, by the name of the host.

`down` refuses, `denied` refuses the login; all others have the stand-in of the
environment. What it was given is appended to a log.
"""

import json
import os
import sys
from pathlib import Path

_PROGRAM = """#!{python}
import json, os, sys
words = sys.argv[1:]
split = words.index("--")
host, command = words[split + 1], words[split + 2]
with open({log!r}, "a") as log:
    log.write(json.dumps([host, words[:split], command]) + "\\n")
reasons = {{
    "down": "ssh: connect to host down port 22: Connection refused",
    "denied": "eve@denied: Permission denied (publickey).",
}}
if host in reasons:
    print(reasons[host], file=sys.stderr)
    sys.exit(255)
os.environ["PATH"] = {path!r}
os.environ["HOME"] = {home!r}
os.execv("/bin/sh", ["sh", "-c", command])
"""


def calls(folder: Path) -> list[tuple[str, str]]:
    """Return the hosts that were asked, each with the command that it was given."""
    # The last line may have been written in part as yet.
    *lines, _ = (folder / "log").read_text().split("\n")
    return [(host, command) for host, _, command in map(json.loads, lines)]


def install(folder: Path) -> dict[str, str]:
    """Put it there, with a gpudash for the far end; return the environment that finds it."""
    near, far = folder / "near", folder / "far"
    near.mkdir()
    far.mkdir()
    gpudash = far / "gpudash"
    gpudash.write_text(f'#!/bin/sh\nexec {sys.executable} -m gpudash "$@"\n')
    gpudash.chmod(0o755)
    ssh = near / "ssh"
    program = _PROGRAM.format(
        python=sys.executable,
        log=str(folder / "log"),
        path=f"{far}{os.pathsep}{os.environ['PATH']}",
        home=str(folder),
    )
    ssh.write_text(program)
    ssh.chmod(0o755)
    return {"PATH": f"{near}{os.pathsep}{os.environ['PATH']}"}
