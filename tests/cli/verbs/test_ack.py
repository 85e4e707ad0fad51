import json
import re
import socket
from pathlib import Path

import pytest

from gpudash.cli.arguments import parse
from gpudash.model.errors import UsageError


def run(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    options = parse([*words])
    status = options.run(options)
    return (status, *capfd.readouterr())


def test_what_is_acknowledged_is_listed_and_taken_back(capfd: pytest.CaptureFixture[str]) -> None:
    _, out, err = run(capfd, "ack", "gpu20:5", ":3", "--until", "8h", "--reason", "RMA 4711")
    assert out.startswith("gpu20:5 acknowledged: RMA 4711, ")
    assert "gpu20:5 was not checked" in err
    _, out, _ = run(capfd, "ack", "--json")
    places = [(each["host"], each["gpu"]) for each in json.loads(out)]
    assert sorted(places) == sorted([("gpu20", 5), (socket.gethostname(), 3)])
    with pytest.raises(UsageError, match="gpu9:1 is not acknowledged"):
        run(capfd, "ack", "gpu20:5", "gpu9:1", ":3", "--take-back")
    assert "gpu20:5 is new again" in capfd.readouterr().out
    assert run(capfd, "ack")[1] == "nothing is acknowledged\n"


def test_the_file_of_the_settings_is_shared(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "team" / "acknowledged.jsonl"
    settings = tmp_path / "config.toml"
    settings.write_text(f'[fleet]\nacknowledged = "{shared}"\n')
    monkeypatch.setenv("GPUDASH_CONFIG", str(settings))
    run(capfd, "ack", "gpu20")
    assert "gpu20" in shared.read_text()
    with shared.open("a") as opened:
        opened.write("nonsense\n")
    _, out, err = run(capfd, "ack")
    assert out.startswith("gpu20 ")
    assert "line 2 is not an acknowledgement; the others count" in err


@pytest.mark.parametrize("words", [["--reason", "x"], ["gpu1", "--until", "no"], ["", "--json"]])
def test_mistakes_are_usage_errors(capfd: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(UsageError):
        run(capfd, "ack", *words)


@pytest.mark.parametrize(
    ("place", "demo", "message"),
    [
        ("gpu9999", "fleet", "no host gpu9999: did you mean gpu0999?"),
        ("gpu0311:99", "fleet", "gpu0311 has 8 GPUs, and no GPU 99"),
        ("gpu3:8", "fleet-4x8", "did you mean gpu03?"),
        (":8", "lost", "has 4 GPUs, and no GPU 8"),
        ("elsewhere", "lost", "no host elsewhere"),
    ],
)
def test_a_simulated_host_that_is_not_there_is_refused(
    capfd: pytest.CaptureFixture[str], place: str, demo: str, message: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        run(capfd, "ack", place, f"--demo={demo}")
    assert run(capfd, "ack", "--demo")[1] == "nothing is acknowledged\n"


def test_of_a_gpu_of_this_host_its_uuid_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    document = json.loads(run(capfd, "--demo=lost", "--once", "--json")[1])
    run(capfd, "ack", ":1", "--demo=lost")
    (entry,) = json.loads(run(capfd, "ack", "--json", "--demo=lost")[1])
    assert (entry["gpu"], entry["uuid"]) == (1, document["devices"][1]["uuid"])
    run(capfd, "ack", ":1", "--take-back", "--demo=lost")
    assert run(capfd, "ack", "--demo=lost")[1] == "nothing is acknowledged\n"


@pytest.mark.parametrize("words", [["gpu20"], ["gpu20", "gpu21"]])
def test_a_place_that_demo_took_for_its_name_is_said(
    capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    with pytest.raises(UsageError, match=r"places follow --demo=NAME: --demo=fleet gpu20$"):
        run(capfd, "ack", "--demo", *words)


def test_fail_on_obeys_it_on_one_host_and_on_many(capfd: pytest.CaptureFixture[str]) -> None:
    many = ["--demo=fleet-4x4", "--once", "--fail-on", "warn"]
    assert run(capfd, *many)[0] == 1
    documents = json.loads(run(capfd, "--demo=fleet-4x4", "--once", "--json")[1])
    hosts = {name for each in documents["findings"] for name in each["hosts"]}
    run(capfd, "ack", *hosts)
    # They may be called as real hosts are.
    assert run(capfd, *many)[0] == 1
    run(capfd, "ack", *hosts, many[0])
    status, out, _ = run(capfd, *many)
    assert status == 0
    assert "acknowledged (" in out


def test_fail_on_lets_a_lost_gpu_pass_that_is_acknowledged(
    capfd: pytest.CaptureFixture[str],
) -> None:
    once = ["--demo=lost", "--once", "--fail-on", "critical"]
    status, out, _ = run(capfd, *once, "--json")
    document = json.loads(out)
    assert status == 15
    lost = [each["index"] for each in document["devices"] if each["state"] == "lost"]
    gpus = [f"{document['host']['hostname']}:{index}" for index in lost]
    run(capfd, "ack", *gpus, once[0])
    assert run(capfd, *once)[0] == 0
    assert run(capfd, *once[:2])[0] == 15
