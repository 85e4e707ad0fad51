"""A host for the pictures that need real processes: a stand-in driver, jobs, and who owns them."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.e2e.forking import GPUDASH
from tests.fakenvml.build import build, environment

_PEOPLE = {"root": 0, "alice": 4001, "bob": 4002}
_ENTER = """
hostname node7 && mount --bind "$LAB/passwd" /etc/passwd &&
mount --bind "$LAB/init" /proc/1/cmdline &&
mount -t tmpfs none /home && mkdir /home/alice && cp "$LAB/config.toml" /home/alice &&
cd "$LAB" && exec "$@"
"""
"""Names the host, its users and its init, in namespaces of its own: only root may."""
_PYTHON = "/usr/bin/python3"
"""One that everybody may run."""
_JOB = """
import os, signal, sys
for _ in range(int(os.environ["WORKERS"])):
    if not os.fork():
        break
signal.pause()
"""
_LAUNCH = "python {line} & echo $! >pid; wait\n"


@contextmanager
def jobs() -> Iterator[Lab]:
    """Two GPUs: on one alice trains, on the other bob has left a job with two workers behind."""
    with _lab() as lab, ExitStack() as stack:
        pids = [
            stack.enter_context(lab.job("alice", "train_resnet.py --data /data/imagenet", 0)),
            stack.enter_context(lab.job("bob", "sweep.py --trials 40 --api-key 4f1c9a7e2b", 2)),
        ]
        lab.env["FAKENVML_PIDS"] = ",".join(map(str, pids))
        yield lab


@contextmanager
def lease() -> Iterator[Lab]:
    """The same GPUs, of which bob has leased one that he does not use."""
    with _lab() as lab:
        lab.env.update(FAKENVML_LOAD="idle", FAKENVML_PROCS_PER_DEVICE="0")
        place = lab.folder / "leases"
        place.mkdir(mode=0o755)
        told = [*GPUDASH, "--query-gpu=uuid", "--format=csv,noheader"]
        for uuid in subprocess.check_output(told, env=lab.env, text=True).split():
            (place / uuid).touch()
        lab.env["GPUDASH_LOCK_DIR"] = str(place)
        with lab.leased("bob"):
            yield lab


@contextmanager
def settings(text: str) -> Iterator[Lab]:
    """No driver, but a file of settings."""
    with _lab() as lab:
        (lab.folder / "config.toml").write_text(text)
        lab.env["GPUDASH_CONFIG"] = "/home/alice/config.toml"
        yield lab


@contextmanager
def recording(environ: dict[str, str]) -> Iterator[Lab]:
    """A recording of a simulated host, whose time passes as an environment says."""
    with _lab() as lab:
        record = [*GPUDASH, "record", str(lab.folder / "node7.jsonl"), "--demo=dgx-h100"]
        fast = ["--interval", "0.1", "--duration", "15s"]
        env = {**os.environ, **environ}
        subprocess.run([*record, *fast], env=env, check=True, stderr=subprocess.DEVNULL)
        yield lab


class Lab(NamedTuple):
    """A folder, and the environment in which its driver is found and its users have names."""

    folder: Path
    env: dict[str, str]

    @property
    def before(self) -> list[str]:
        """What is put before a command so that it runs there."""
        return ["unshare", "--mount", "--uts", "sh", "-c", _ENTER, "sh"]

    @contextmanager
    def job(self, user: str, line: str, workers: int) -> Iterator[int]:
        """Yield the PID of a program that a user's shell runs and that does nothing."""
        home, uid = self._home(user, line.split()[0]), _PEOPLE[user]
        (home / "run.sh").write_text(_LAUNCH.format(line=line))
        env = {"PATH": f"{self.folder}:/usr/bin:/bin", "HOME": str(home), "USER": user}
        env |= {"CUDA_VISIBLE_DEVICES": "1", "WORKERS": str(workers), "HF_TOKEN": "hf_4f1c9a7e2b"}
        # Whoever takes the picture is no part of it: the shell's parent becomes init.
        launch = ["setsid", "--fork", "bash", "run.sh"]
        subprocess.run(launch, check=True, cwd=home, env=env, user=uid, group=uid)
        told = home / "pid"
        deadline = time.monotonic() + 10
        while not (told.exists() and told.read_text().strip()):
            assert time.monotonic() < deadline, "the job did not start"
            os.sched_yield()
        pid = int(told.read_text())
        try:
            yield pid
        finally:
            os.killpg(os.getpgid(pid), signal.SIGKILL)

    @contextmanager
    def leased(self, user: str) -> Iterator[None]:
        """Let a user's program lease a GPU, and not use it."""
        home, uid = self._home(user, "notebook.py"), _PEOPLE[user]
        run = [*GPUDASH, "run", "-n", "1", "--", "setpriv", f"--reuid={uid}", "--clear-groups"]
        job = subprocess.Popen(
            [*run, str(self.folder / "python"), str(home / "notebook.py")],
            env={**self.env, "WORKERS": "0"},
            start_new_session=True,
        )
        try:
            yield
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()

    def _home(self, user: str, program: str) -> Path:
        home = self.folder / user
        home.mkdir()
        os.chown(home, _PEOPLE[user], _PEOPLE[user])
        (home / program).write_text(_JOB)
        return home


@contextmanager
def _lab() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="lab-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        people = (f"{user}:x:{uid}:{uid}::/:/bin/sh\n" for user, uid in _PEOPLE.items())
        (folder / "passwd").write_text("".join(people))
        (folder / "init").write_text("/sbin/init\0")
        (folder / "config.toml").touch()
        (folder / "python").symlink_to(_PYTHON)
        env = environment(build(folder), DEVICES=2, PROCS_PER_DEVICE=1, LOAD="first")
        yield Lab(folder, {**env, "LAB": name})
