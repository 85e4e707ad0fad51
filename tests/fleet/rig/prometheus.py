"""A real Prometheus on loopback with a made-up past; skipped where it is not installed."""

import http.client
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fleet.rig.exporters import Host, history
from tests.waiting import until

_PROGRAMS = ("prometheus", "promtool")
_PAST_SECONDS, _STEP = 4000.0, 20.0


class Server(NamedTuple):
    """A Prometheus that runs."""

    url: str
    now: float
    """The instant of its last samples."""


def require() -> None:
    """Skip the test where Prometheus is not installed."""
    for program in _PROGRAMS:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


@contextmanager
def past(
    folder: Path,
    hosts: tuple[Host, ...],
    seconds: float = _PAST_SECONDS,
    step: float = _STEP,
    recorded: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Run one that knows this much of these hosts up to now, and scrapes nothing."""
    now = float(int(time.time()))
    with importing(folder, history(hosts, now, seconds, step, recorded or {})) as url:
        yield Server(url, now)


@contextmanager
def importing(folder: Path, lines: Iterable[str]) -> Iterator[str]:
    """Run one that knows these lines of OpenMetrics, and yield its URL."""
    require()
    text = folder / "history.om"
    with text.open("w") as file:
        file.writelines(lines)
    # It reads all lines for each block.
    command = ["promtool", "tsdb", "create-blocks-from", "--max-block-duration=54h", "openmetrics"]
    subprocess.run([*command, "--quiet", str(text), str(folder / "data")], check=True)
    with serving(folder, "{}") as url:
        yield url


@contextmanager
def serving(folder: Path, config: str) -> Iterator[str]:
    """Run one with this configuration, and yield its URL."""
    require()
    (folder / "prometheus.yml").write_text(config)
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sys.stderr)
    try:
        until(lambda: _is_ready(port) or process.poll() is not None)
        assert process.poll() is None
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/-/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def scrape_config(addresses: Sequence[str], seconds: float) -> str:
    """Return the configuration that scrapes exporters."""
    targets = ", ".join(f'"{each}"' for each in addresses)
    return (
        f"global: {{scrape_interval: {seconds * 1000:g}ms, scrape_timeout: {seconds * 1000:g}ms}}\n"
        "scrape_configs:\n"
        f"  - {{job_name: dcgm-exporter, static_configs: [{{targets: [{targets}]}}]}}\n"
    )
