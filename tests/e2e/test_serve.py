import http.client
import json
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.forking import GPUDASH, Process, start
from tests.e2e.run import each_of, gpudash, tell
from tests.fakenvml.build import environment
from tests.fleet.rig import prometheus
from tests.holders import Holders
from tests.waiting import LIMIT_SECONDS, until

Metrics = dict[str, list[tuple[dict[str, str], float]]]


class Exporter:
    """A running server, which is asked over a connection of its own each time."""

    def __init__(self, process: Process, tls: ssl.SSLContext | None) -> None:
        self.process, self.tls = process, tls
        line = process.stderr.readline()
        assert line.startswith("gpudash: serving http"), line
        self.where = urlsplit(line.split()[-1])

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
        host, port = self.where.hostname or "", self.where.port
        if self.tls is None:
            connection = http.client.HTTPConnection(host, port, timeout=LIMIT_SECONDS)
        else:
            connection = http.client.HTTPSConnection(
                host, port, timeout=LIMIT_SECONDS, context=self.tls
            )
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def until(self, condition: Callable[[Metrics], object]) -> Metrics:
        before = b""

        def scraped() -> Metrics | None:
            nonlocal before
            status, body = self.ask("/metrics")
            assert status == 200
            if body == before:
                return None
            before, found = body, parsed(body)
            return found if condition(found) else None

        return until(scraped)

    def health_with(self, words: bytes) -> int:
        """Wait until the answer to a question about its health has these words; its status."""
        return until(lambda: (answer := self.ask("/healthz")) and words in answer[1] and answer)[0]


def parsed(body: bytes) -> Metrics:
    found: Metrics = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


@contextmanager
def serving(
    library: Path, *words: str, tls: ssl.SSLContext | None = None, **told: object
) -> Iterator[Exporter]:
    """A server at a free port."""
    argv = [*GPUDASH, "serve", "--listen", "127.0.0.1:0", "--interval", "0.2", *words]
    env = environment(library, **told)
    with start(argv, env, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Exporter(process, tls)
        finally:
            process.kill()


def is_up(found: Metrics) -> bool:
    return found["gpudash_up"] == [({}, 1)]


def test_a_scrape_has_every_gpu_and_totals_of_users(fakenvml: Path, holders: Holders) -> None:
    (holder,) = holders(1, ("sleep", "4242"))
    told = {"DEVICES": 2, "PROCS_PER_DEVICE": 1, "PIDS": holder.pid}
    with serving(fakenvml, **told) as exporter:
        assert exporter.ask("/metrics")[0] == 200
        found = exporter.until(is_up)
        assert [each["device"] for each, _ in found["DCGM_FI_DEV_FB_USED"]] == [
            "nvidia0",
            "nvidia1",
        ]
        assert [value for _, value in found["gpudash_user_gpus"]] == [2]
        age = time.time() - found["gpudash_sample_timestamp_seconds"][0][1]
        assert -1 < age < LIMIT_SECONDS
        plain = exporter.ask("/metrics")[1]
        assert b"4242" not in plain
        assert exporter.ask("/metrics", **{"Accept-Encoding": "gzip"})[1][:2] == b"\x1f\x8b"
        assert exporter.ask("/metrics", "HEAD") == (200, b"")
        for path in ("/healthz", "/-/ready", "/-/healthy"):
            assert exporter.ask(path) == (200, b"ok\n")
        assert exporter.ask("/secret")[0] == 404
        assert exporter.ask("/metrics", "POST")[0] == 501
        exporter.process.send_signal(signal.SIGTERM)
        assert exporter.process.wait(LIMIT_SECONDS) == 143


def test_a_driver_that_was_let_go_of_is_down_and_comes_back(fakenvml: Path, tmp_path: Path) -> None:
    control = tmp_path / "control"
    tell(control)
    with serving(fakenvml, DEVICES=1, CONTROL=control) as exporter:
        exporter.until(is_up)
        exporter.process.send_signal(signal.SIGUSR1)
        gone = exporter.until(lambda found: not is_up(found))
        assert gone.keys() == {"gpudash_up"}
        assert exporter.ask("/healthz") == exporter.ask("/-/ready") == (503, DETACHED)
        assert exporter.ask("/-/healthy") == (200, b"ok\n")
        exporter.process.send_signal(signal.SIGUSR1)
        exporter.until(is_up)
        tell(control, HANG="nvmlDeviceGetMemoryInfo:0:inf")
        hung = exporter.until(lambda found: state_of(found) == "not-answering")
        assert "DCGM_FI_DEV_GPU_UTIL" not in hung


DETACHED = b"detached from the driver: kill -USR1 reattaches\n"


def state_of(found: Metrics) -> str | None:
    return next(
        (each["state"] for each, value in found.get("gpudash_gpu_state", ()) if value), None
    )


def test_a_driver_that_hangs_is_not_healthy(fakenvml: Path) -> None:
    with serving(fakenvml, DEVICES=1, HANG="nvmlInitWithFlags:*:inf") as exporter:
        assert exporter.health_with(b"not answering") == 503
        assert not is_up(parsed(exporter.ask("/metrics")[1]))


def test_there_may_be_no_driver_at_first(fakenvml: Path) -> None:
    with serving(fakenvml, INIT_ERR=9) as exporter:
        assert parsed(exporter.ask("/metrics")[1]) == {"gpudash_up": [({}, 0)]}
        assert exporter.health_with(b"not loaded") == 503
        assert exporter.process.poll() is None


def test_silent_clients_and_those_with_a_body_keep_no_scrape_out(fakenvml: Path) -> None:
    body = b"GET /secret HTTP/1.1\r\nHost: a\r\n\r\n"
    with serving(fakenvml, "--listen", ":0", DEVICES=1) as exporter, ExitStack() as silent:
        where = "127.0.0.1", exporter.where.port or 0
        if socket.has_dualstack_ipv6():
            socket.create_connection(("::1", where[1]), LIMIT_SECONDS).close()
        exporter.where = urlsplit(f"http://127.0.0.1:{where[1]}")
        opened = [silent.enter_context(socket.create_connection(where)) for _ in range(60)]
        for connection in opened[-30:]:
            connection.sendall(b"GET /metr")
        assert exporter.ask("/metrics")[0] == 200
        opened[0].settimeout(LIMIT_SECONDS)
        assert opened[0].recv(1) == b""
        for method, header in product(("GET", "HEAD"), WITH_BODY):
            lines = f"{method} /metrics HTTP/1.1\r\nHost: a\r\n{header}\r\n\r\n"
            with socket.create_connection(where, LIMIT_SECONDS) as client:
                client.sendall(lines.format(length=len(body)).encode() + body)
                with client.makefile("rb") as answers:
                    received = answers.read()
            received = received.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
            assert received.startswith(b"HTTP/1.1 400 "), header
            assert received.count(b"HTTP/1.1") == 1, header
            assert b"Connection: close" in received, header
            assert exporter.ask("/metrics", **{"Content-Length": "0"})[0] == 200


WITH_BODY = (
    "Content-Length: {length}",
    "Content-Length: {length}\r\nExpect: 100-continue",
    "Content-Length: 0\r\nContent-Length: {length}",
    "Content-Length: -1",
    "Content-Length: +0",
    "Content-Length: x",
    "Transfer-Encoding: chunked",
    "Content-Length : {length}",
    "no header\r\nContent-Length: {length}",
)


def certificate(folder: Path, name: str, issuer: str | None = None) -> Path:
    """Make a certificate, signed by another one or by itself; the key is in the same file."""
    file, key = folder / f"{name}.pem", folder / f"{name}.key"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    argv += ["-nodes", "-keyout", str(key), "-out", str(file), "-subj", f"/CN={name}"]
    if issuer is None:
        argv += ["-addext", "basicConstraints=critical,CA:TRUE"]
    else:
        argv += ["-addext", "subjectAltName=IP:127.0.0.1", "-CA", str(folder / f"{issuer}.pem")]
        argv += ["-CAkey", str(folder / f"{issuer}.key")]
    subprocess.run(argv, check=True, capture_output=True)
    file.write_bytes(file.read_bytes() + key.read_bytes())
    return file


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
def test_only_clients_with_a_certificate_are_served(fakenvml: Path, tmp_path: Path) -> None:
    authority = certificate(tmp_path, "authority")
    own = certificate(tmp_path, "server", "authority")
    known = ssl.create_default_context(cafile=str(authority))
    known.load_cert_chain(certificate(tmp_path, "client", "authority"))
    words = ("--tls-cert", str(own), "--client-ca", str(authority))
    with serving(fakenvml, *words, tls=known, DEVICES=1) as exporter:
        assert exporter.where.scheme == "https"
        exporter.until(is_up)
        exporter.tls = ssl.create_default_context(cafile=str(authority))
        with pytest.raises((OSError, http.client.HTTPException)):
            exporter.ask("/metrics")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
def test_of_certificate_and_key_the_one_is_named_that_cannot_be_used(
    fakenvml: Path, tmp_path: Path
) -> None:
    own, other = certificate(tmp_path, "one"), certificate(tmp_path, "two")
    run = gpudash("serve", "--tls-cert", str(own), "--tls-key", str(other), library=fakenvml)
    assert f"--tls-key {other} cannot be used: key values mismatch" in run.stderr
    locked = tmp_path / "locked.key"
    lock = ["openssl", "ec", "-aes128", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run([*lock, "-in", str(tmp_path / "one.key")], check=True, capture_output=True)
    run = gpudash("serve", "--tls-cert", str(own), "--tls-key", str(locked), library=fakenvml)
    assert f"--tls-key {locked} cannot be used: " in run.stderr


UNSERVED = {
    "--listen no.such.host.invalid:9836": "cannot listen on no.such.host.invalid:9836",
    "--listen a..b:80": "cannot listen on a..b:80",
    "--client-ca x": "go with --tls-cert",
    "--tls-cert /dev/null": "--tls-cert /dev/null cannot be used",
    "--tls-cert /no/cert": "--tls-cert /no/cert cannot be used: No such file",
    "--tls-cert /dev/null --tls-key /no/key": "--tls-key /no/key cannot be used: No",
    "--tls-cert /dev/null --client-ca /": "--client-ca / cannot be used: Is a dir",
}


def test_what_cannot_be_served_is_one_line(fakenvml: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        in_use = {f"--listen {where}": f"cannot listen on {where}: Address already in use\n"}
        reasons = UNSERVED | in_use
        found = each_of([(f"serve {words}", {}) for words in reasons], fakenvml)
    for reason, (status, _, errors) in zip(reasons.values(), found, strict=True):
        assert status in (1, 2)
        assert reason in errors
        assert errors.count("\n") == 1


def test_the_unit_runs_the_same_command_with_folders_of_its_own(fakenvml: Path) -> None:
    words = ("--listen", ":9400", "--print-unit", "--gpu", "0 1", "--tls-cert", "a.pem")
    unit = gpudash("serve", *words, "--tls-key=a.key", "--history", "past", library=fakenvml)
    lines = unit.text.splitlines()
    (line,) = (line for line in lines if line.startswith("ExecStart="))
    files = f"--tls-cert {Path('a.pem').absolute()} --tls-key={Path('a.key').absolute()}"
    files += f" --history {Path('past').absolute()}"
    assert line.endswith(f"serve --listen :9400 --gpu '0 1' {files}")
    wanted = {"DynamicUser=yes", "RuntimeDirectory=gpudash", "StateDirectory=gpudash"}
    wanted.add("StateDirectoryMode=0700")
    assert wanted <= {*lines}
    assert not [line for line in lines if line.startswith("SupplementaryGroups")]
    grouped = gpudash("serve", "--print-unit", "--socket-group", "gpu", library=fakenvml)
    assert {*wanted, "SupplementaryGroups=gpu"} <= {*grouped.text.splitlines()}


GRAFANA_12239 = (
    "DCGM_FI_DEV_GPU_TEMP{here}",
    "avg(DCGM_FI_DEV_GPU_TEMP{here})",
    "DCGM_FI_DEV_POWER_USAGE{here}",
    "sum(DCGM_FI_DEV_POWER_USAGE{here})",
    "DCGM_FI_DEV_SM_CLOCK{here} * 1000000",
    "DCGM_FI_DEV_GPU_UTIL{here}",
    "DCGM_FI_DEV_FB_USED{here}",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{here}",
)
"""The expressions of the panels of NVIDIA's dashboard, `here` for the hosts and GPUs chosen."""


def test_the_dashboard_of_dcgm_exporter_shows_every_panel(fakenvml: Path, tmp_path: Path) -> None:
    with serving(fakenvml, "--demo=dgx-h100") as exporter:
        where = exporter.where.netloc
        jobs = f"scrape_configs: [{{job_name: gpus, static_configs: [{{targets: ['{where}']}}]}}]"
        config = f"global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n{jobs}\n"
        with prometheus.serving(tmp_path, config) as url:
            for expression in GRAFANA_12239:
                here = f'{{instance=~"{where}", gpu=~"(0|1|2|3|4|5|6|7)"}}'
                found = until(partial(_answers, url, expression.replace("{here}", here)))
                if expression.startswith("DCGM"):
                    assert sorted(each["metric"]["gpu"] for each in found) == [*"01234567"]


def _answers(url: str, expression: str) -> list[Any]:
    query = urlencode({"query": expression})
    with urlopen(f"{url}/api/v1/query?{query}", timeout=LIMIT_SECONDS) as answer:
        found: list[Any] = json.load(answer)["data"]["result"]
    return found
