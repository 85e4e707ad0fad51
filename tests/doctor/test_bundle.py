import pytest

from gpudash.config.settings import FleetSettings, Settings
from gpudash.doctor.bundle import render, sections
from gpudash.doctor.checks import Machine
from gpudash.model.process import Holder, Job, LastProcess, LastRead, Lease
from gpudash.model.snapshot import Finding
from gpudash.model.text import clean
from tests.factories import gpu_uuid, make_device, make_host, make_process, make_snapshot

ENVIRON = {
    "TERM": "xterm",
    "GPUDASH_LOCK_DIR": "/srv/x",
    "CUDA_VISIBLE_DEVICES": gpu_uuid(0),
    "NVIDIA_VISIBLE_DEVICES": "GPU-6f9ac0de",
    "GPUDASH_CONFIG": "/home/mallory/.config/gpudash.toml",
    "GPUDASH_PROMETHEUS": "https://prom5.example.net:9090",
    "GPUDASH_SCRAPE": "http://exporter6:9400",
    "AWS_SECRET_ACCESS_KEY": "aws-secret",
    "MY_TOKEN": "my-token",
}


def report() -> str:
    tool = (clean("/opt/x/tool"), clean("-v"))
    holder = Holder(pid=7, username=clean("carol"), command_line=tool)
    last = LastRead(age_seconds=3, processes=(LastProcess(pid=8, username=clean("trudy")),))
    secret = "--data=/data/secret-project"
    snapshot = make_snapshot(
        1,
        host=make_host(hostname="node7.example.org"),
        devices=(make_device(serial=clean("S123456"), holder_pids=(7,), last_read=last),),
        holders=(holder,),
        processes=(
            make_process(
                pid=10,
                username=clean("alice"),
                command_line=tuple(map(clean, ("/home/alice/bin/train", secret, "x"))),
                job=Job(kind="slurm", id=clean("job-991")),
            ),
            make_process(
                pid=11,
                username=clean("bob"),
                command_line=(clean("serve: /models/unannounced 10.1.2.3"),),
            ),
        ),
        leases=(Lease(uuid=gpu_uuid(0), index=0, username=clean("dave")),),
        findings=(Finding(rule="r", level="warn", sentence="alice and bob share node7, alices"),),
    )
    checks = f"PASS  GPUs  {gpu_uuid(0)} of node7"
    settings = Settings(
        interval=2.5,
        theme="light",
        columns=("pid", "user"),
        read_only=True,
        keys={"screen.quit": ("f10",)},
        fleet=FleetSettings(
            groups={"lab": "secrethost[01-12]"},
            prometheus=("https://metrics.example.org:9090",),
            token_command=("echo", "tokenvalue99"),
            user="aliceuser",
            headers={"X-Scope-OrgID": "tenant5"},
        ),
    )
    return render(sections(Machine("/nonexistent", ENVIRON), checks, settings, snapshot))


def test_no_name_of_a_person_host_or_board_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "trudy")
    text = report()
    for name in (
        "node7",
        "example.org",
        "bob",
        "carol",
        "dave",
        "trudy",
        "S123456",
        "job-991",
        gpu_uuid(0),
    ):
        assert name not in text
    for name in ("6f9ac0de", "mallory", "trudy", "prom5", "exporter6"):
        assert name not in text
    for secret in ("secret-project", "aws-secret", "my-token", "/opt/x", "unannounced"):
        assert secret not in text
    for setting in ("secrethost", "tokenvalue99", "aliceuser", "tenant5", "metrics"):
        assert setting not in text
    assert "user-1 and user-2 share host, alices" in text


def test_what_a_report_needs_is_kept() -> None:
    text = report()
    for kept in ("TERM=xterm", "GPUDASH_LOCK_DIR=/srv/x", "PASS  GPUs  GPU-1"):
        assert kept in text
    assert '"train",\n        "(2 arguments)"' in text
    assert '"tool",\n        "(1 argument)"' in text
    assert "CUDA_VISIBLE_DEVICES=GPU-1" in text
    assert "GPUDASH_PROMETHEUS is set" in text


def test_settings_have_values_only_where_these_can_name_nobody() -> None:
    assert report().partition("== settings ==\n")[2].partition("\n\n")[0].split("\n") == [
        "interval = 2.5",
        'theme = "light"',
        'columns = ["pid", "user"]',
        "read_only = true",
        'keys.screen.quit = ["f10"]',
        "fleet.groups is set",
        "fleet.prometheus is set",
        "fleet.token_command is set",
        "fleet.user is set",
        "fleet.headers is set",
    ]


def test_without_a_snapshot_there_is_the_reason() -> None:
    parts = sections(Machine("/nonexistent", {}), "", Settings(), "did not answer in 5 s")
    assert [part.text for part in parts[3:]] == ["the defaults", "did not answer in 5 s"]
