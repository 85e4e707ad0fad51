"""An `ssh` on PATH that runs the remote command here, by the name of the host.

`down` refuses, `denied` refuses the login, `empty` has no gpudash and no nvidia-smi; all others
have the stand-in of the environment. What it was given is appended to $FAR_SSH_LOG.
"""

from __future__ import annotations

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
if host == "down":
    sys.exit("ssh: connect to host down port 22: Connection refused") or sys.exit(255)
if host == "down" or host == "denied":
    pass
os.environ["PATH"] = {path!r} if host != "empty" else "/nowhere"
os.environ["HOME"] = {home!r}
os.execv("/bin/sh", ["sh", "-c", command])
"""


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
