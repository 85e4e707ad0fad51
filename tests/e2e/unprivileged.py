"""Another user, who has no rights and runs gpudash all the same."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.fakenvml.build import environment
from tests.waiting import LIMIT_SECONDS, until

UIDS = range(61184, 65519)
"""No account has one of these: systemd lends them to services while they run."""


class Unprivileged:
    """A user without rights, who runs gpudash under a limit.

    Nothing else runs as this user, not even what another test has left behind: a system counts
    the processes of each user.
    """

    def __init__(self, library: Path) -> None:
        self.folder = library.parent
        """Where this user may read what a test leaves."""
        packages = ":".join(path for path in sys.path if path)
        # Others that run beside this one begin their search elsewhere.
        first, taken = os.getpid() % len(UIDS), _owners()
        self.uid = uid = next(uid for uid in (*UIDS[first:], *UIDS) if uid not in taken)
        user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        self.argv = [*user, "/usr/bin/python3", "-m", "gpudash"]
        self.env = {**environment(library, DEVICES=2), "PYTHONPATH": packages}

    def wait_until_alone(self) -> None:
        """Wait for the end of all that this user has started, which the system counts too."""
        until(lambda: self.uid not in _owners())

    def run(
        self, *arguments: str, before: Sequence[str] = (), **told: object
    ) -> subprocess.CompletedProcess[str]:
        """Run gpudash behind the words of another command; `told` are settings of the stand-in."""
        self.wait_until_alone()
        return subprocess.run(
            [*before, *self.argv, *arguments],
            env={**self.env, **{f"FAKENVML_{key}": str(told[key]) for key in told}},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_SECONDS,
            text=True,
        )


def _owners() -> set[int]:
    """Return for whom processes run."""
    owners = [process.info["uids"] for process in psutil.process_iter(["uids"])]
    return {uids.real for uids in owners if uids}


@contextmanager
def become_unprivileged(fakenvml: Path) -> Iterator[Unprivileged]:
    """Skips where that user cannot be, or cannot run a Python with the packages."""
    if os.geteuid():
        pytest.skip("only root may become another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        user = Unprivileged(Path(shutil.copy(fakenvml, folder)))
        probe = user.run("--once")
        if probe.returncode:
            pytest.skip(f"nobody may not run a Python with the packages: {probe.stderr}")
        yield user
