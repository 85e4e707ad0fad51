import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.collect.jobs import LIMIT, job_of
from gpudash.model.process import Job
from gpudash.model.text import clean

ID = "1f3a0c5b2d4e" + "0" * 52
OUTER = "ab" * 32
UID = "0b7c6a3e-1d2f-4c5b-9a8e-7f6d5c4b3a21"
UID_ = UID.replace("-", "_")
HASH = "0123456789abcdef0123456789abcdef"
KUBEPODS = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable"
USER = "/user.slice/user-1000.slice"


def container(runtime: str | None, id: str = ID) -> Job:
    return Job(kind="container", id=id, runtime=runtime)


def pod(runtime: str | None, id: str = UID) -> Job:
    return Job(kind="pod", id=id, runtime=runtime, container=ID)


def unit(id: str) -> Job:
    return Job(kind="unit", id=id)


FORMS = {
    f"/system.slice/docker-{ID}.scope": container("docker"),
    f"/docker/{ID}": container("docker"),
    f"/docker/{OUTER}/docker/{ID}": container("docker"),
    f"/../../docker-{ID}.scope": container("docker"),
    f"/machine.slice/libpod-{ID}.scope": container("libpod"),
    f"/machine.slice/libpod-{ID}.scope/container": container("libpod"),
    f"{USER}/user@1000.service/user.slice/libpod-{ID}.scope/container": container("libpod"),
    f"/machine.slice/libpod-conmon-{ID}.scope": unit(f"libpod-conmon-{ID}.scope"),
    f"{KUBEPODS}-pod{UID_}.slice/cri-containerd-{ID}.scope": pod("cri-containerd"),
    f"{KUBEPODS}-pod{UID_}.slice/crio-{ID}.scope": pod("crio"),
    f"/kubepods.slice/kubepods-pod{UID_}.slice/docker-{ID}.scope": pod("docker"),
    f"/kubepods/burstable/pod{UID}/{ID}": pod(None),
    f"/kubepods/pod{HASH}/{ID}": pod(None, HASH),
    f"/docker/{OUTER}/kubelet/kubepods/pod{UID}/{ID}": pod(None),
    f"/system.slice/containerd.service/kubepods-burstable-pod{UID_}.slice:cri-containerd:{ID}": pod(
        "cri-containerd"
    ),
    f"/kubepods/burstable/pod{UID}": Job(kind="pod", id=UID),
    "/system.slice/slurmstepd.scope/job_1392969/step_0/user/task_0": Job(
        kind="slurm", id="1392969", step="0"
    ),
    "/system.slice/gpu07_slurmstepd.scope/job_12/step_batch/user/task_special": Job(
        kind="slurm", id="12", step="batch"
    ),
    "/slurm/uid_1000/job_123/step_0/task_0": Job(kind="slurm", id="123", step="0"),
    "/slurm/uid_1000/job_123": Job(kind="slurm", id="123"),
    f"/slurm/uid_1000/job_123/step_0/libpod-{ID}.scope": Job(
        kind="slurm", id="123", step="0", runtime="libpod", container=ID
    ),
    "/system.slice/slurmstepd.scope/system": unit("slurmstepd.scope"),
    "/system.slice/ollama.service": unit("ollama.service"),
    "/system.slice/ollama.service (deleted)": unit("ollama.service"),
    f"{USER}/user@1000.service/app.slice/app-jupyter.service": unit("app-jupyter.service"),
    f"{USER}/user@1000.service/app.slice/run-u7.scope": unit("run-u7.scope"),
    f"{USER}/session-3.scope": None,
    f"{USER}/session-c1.scope": None,
    f"{USER}/user@1000.service": None,
    f"{USER}/user@1000.service/init.scope": None,
    "/init.scope": None,
    "/home/job_12/step_0": None,
    "/system.slice/docker-1f3a0c5b2d4e": None,
    "/": None,
}


@pytest.mark.parametrize(("path", "job"), FORMS.items())
def test_names_the_job_of_a_v2_path(path: str, job: Job | None) -> None:
    assert job_of(f"0::{path}\n") == job


@pytest.mark.parametrize(("path", "job"), FORMS.items())
def test_names_the_same_job_from_v1_hierarchies(path: str, job: Job | None) -> None:
    assert job_of(f"12:pids:{path}\n2:cpu,cpuacct:/\n1:name=systemd:{path}\n0::/\n") == job


def test_finds_a_container_that_only_a_controller_knows() -> None:
    text = f"11:devices:/docker/{ID}\n1:name=systemd:/system.slice/docker.service\n0::/\n"
    assert job_of(text) == container("docker")


def test_prefers_the_unit_of_systemd_over_that_of_a_controller() -> None:
    text = "4:memory:/other.service\n1:name=systemd:/system.slice/ollama.service\n0::/\n"
    assert job_of(text) == unit("ollama.service")


def test_shows_control_characters_of_a_unit_as_text() -> None:
    assert job_of("0::/system.slice/\x1b[31mred\u202e.service\n") == unit(
        "\\x1b[31mred\\u202e.service"
    )


@pytest.mark.parametrize("text", ["", "\n\n", "no colons", "0:", "0::", "::", ":::::"])
def test_nothing_comes_of_a_text_without_a_path(text: str) -> None:
    assert job_of(text) is None


def test_reads_no_further_than_its_limit() -> None:
    assert job_of("0::/" + "a" * LIMIT + "/ollama.service\n") is None


NAMES = ["job_", "12", "step_", "slurm", "pod", UID, HASH, ID, "docker-", "user@", "session-"]
MARKS = [
    "/",
    ":",
    "-",
    "\n",
    "0::",
    ".scope",
    ".service",
    ".slice",
    " (deleted)",
    "\x1b]0;x\x07",
    "٣",
]
PATHS = st.lists(st.sampled_from(NAMES) | st.sampled_from(MARKS), max_size=40).map("".join)


@given(st.text() | PATHS)
def test_any_text_gives_clean_words_or_nothing(text: str) -> None:
    job = job_of("0::/" + text)
    if job is not None:
        words = [job.id, job.step, job.runtime, job.container]
        assert all(word is None or clean(word) == word for word in words)
        assert job.id
