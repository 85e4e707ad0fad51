"""`gpudash serve`: this host's state, for Prometheus over HTTP and for local viewers.

The server is the standard library's: prometheus_client appends `_total` to DCGM's counters, which
no dashboard made for dcgm-exporter finds, and has no health page.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shlex
import socket
import ssl
import sys
import threading
import time
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from gpudash.analysis.minutes import Minutes
from gpudash.cli.arguments import add_shared
from gpudash.cli.options import collector_command, refuse
from gpudash.cli.signals import NotedSignals
from gpudash.cli.values import seconds, size, span
from gpudash.cli.verbs import Verb
from gpudash.feed.collector import OF_SERVICE, RELEASED, SOCKET
from gpudash.feed.history import KeptHistory
from gpudash.feed.service import LineServer
from gpudash.feed.supervisor import Supervisor
from gpudash.fleet.sources import dest
from gpudash.model import wire
from gpudash.model.errors import ExitStatus, GpudashError, UsageError
from gpudash.model.text import clean
from gpudash.output import prometheus
from gpudash.output.prometheus import DcgmNames
from gpudash.system import memory, terminal

if TYPE_CHECKING:
    from gpudash.model.snapshot import Snapshot

_DEFAULT_LISTEN = "127.0.0.1:9836"
_DEFAULT_INTERVAL = 5.0
_MAX_CLIENTS = 40
_CLIENT_SECONDS = 10.0
_WAIT_SECONDS = 1.0
_FILES = ("--tls-cert", "--tls-key", "--client-ca")
_PATHS = (*_FILES, "--socket", "--history")
_HOW_KEPT = "keep", "max_size", "history_without_commands"
_KEEP_SECONDS, _HISTORY_BYTES = 30 * 86400.0, 500 << 20
_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_INDEX = (
    b"gpudash: /metrics; /-/healthy, 200 while it serves; /-/ready or /healthz, 503 while the "
    b"driver does not answer\n"
)

_UNIT = """\
[Unit]
Description=gpudash: NVIDIA GPU metrics for Prometheus, and for all gpudash of this host
After=network.target

[Service]
ExecStart={command}
Restart=always
RestartSec=5
MemoryMax=256M
DynamicUser=yes
{groups}RuntimeDirectory=gpudash
StateDirectory=gpudash
StateDirectoryMode=0700
DevicePolicy=closed
DeviceAllow=char-nvidia* rw
CapabilityBoundingSet=
LockPersonality=yes
NoNewPrivileges=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=read-only
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectSystem=strict
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
"""


class Address(NamedTuple):
    """Where to listen: a host, empty for all interfaces, and a port."""

    host: str
    port: int


def address(text: str) -> Address:
    """Return the parts of `127.0.0.1:9836`, `[::1]:9836`, or `:9836` for all interfaces."""
    host, colon, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    is_port = port.isascii() and port.isdecimal() and len(port) < 6 and int(port) < 1 << 16
    if not colon or not is_port or (":" in host and not is_bracketed):
        raise ArgumentTypeError(f"{text!r} is not an address: expected HOST:PORT or :PORT")
    return Address(host.strip("[]"), int(port))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash serve` takes."""
    add = parser.add_argument
    text = f"address and port ({_DEFAULT_LISTEN}); :9836 listens on all interfaces"
    add("--listen", type=address, default=address(_DEFAULT_LISTEN), metavar="ADDR", help=text)
    text = f"seconds between samples ({_DEFAULT_INTERVAL:g}); a scrape gets the last one"
    add("--interval", type=seconds, default=argparse.SUPPRESS, metavar="S", help=text)
    text = "names and units of dcgm-exporter up to 4.8 (legacy, the default), of 4.9, or both"
    add("--dcgm-names", choices=get_args(DcgmNames), default="legacy", metavar="NAMES", help=text)
    add("--tls-cert", metavar="FILE", help="serve HTTPS with this certificate (PEM)")
    add("--tls-key", metavar="FILE", help="its private key, if it is not in the same file")
    text = "require certificates of clients, signed by this authority"
    add("--client-ca", metavar="FILE", help=text)
    text = (
        f"Unix socket from which all gpudash of this host are served ({SOCKET}, if it can be made)"
    )
    add("--socket", metavar="PATH", help=text)
    add("--socket-group", metavar="GROUP", help="only this group may connect to it")
    text = "keep samples in this folder, for all who connect ($STATE_DIRECTORY/history in a unit)"
    add("--history", metavar="DIR", help=text)
    text = "how long to keep one sample a minute; all are kept for 1 h, one in 10 s for 24 h (30d)"
    add("--keep", type=span, metavar="T", help=text)
    text = "what they may take on the disk, the oldest are removed first (500M)"
    add("--max-size", type=size, metavar="SIZE", help=text)
    add("--history-without-commands", action="store_true", help="keep no command lines in it")
    text = "print a systemd unit that runs this command, and exit"
    add("--print-unit", action="store_true", help=text)
    add_shared(parser, "gpu", "pcie-throughput", "demo")


def run(options: argparse.Namespace) -> int:
    """Serve until a signal, which then sets the status; SIGUSR1 releases the GPUs until the next.

    Raises UsageError for unusable certificates, and GpudashError if the address cannot be listened
    on.
    """
    if options.print_unit:
        terminal.write_text(_unit(sys.argv, options.socket_group))
        return ExitStatus.OK
    if options.history is None and not os.environ.get("STATE_DIRECTORY"):
        refuse(options, _HOW_KEPT, "a service that keeps nothing: give --history DIR")
    memory.give_back_large()
    interval = options.interval or _DEFAULT_INTERVAL
    noted = NotedSignals(ends=True)
    argv = collector_command(options)
    collector = Supervisor(argv, interval, wire.decode, environ=OF_SERVICE)
    exporter = Exporter(options.dcgm_names, collector.stale_after)
    viewers = LineServer(interval)
    with (
        Server(options.listen, exporter, _tls(options)) as server,
        closing(viewers),
        closing(collector),
        _history(options) as (history, lost),
    ):
        viewers.past = None if history is None else history.path
        problem = _listen(viewers, options)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        terminal.write_message(f"gpudash: serving {server.url}\n{problem}{lost}")
        collector.start()
        status = _serve(collector, exporter, viewers, history, noted)
        server.shutdown()
    return status


def _serve(
    collector: Supervisor[Snapshot],
    exporter: Exporter,
    viewers: LineServer,
    history: KeptHistory | None,
    noted: NotedSignals,
) -> int:
    """Collect for scrapes, viewers and the history until a signal; return its status."""
    while noted.status is None:
        collector.wait(_WAIT_SECONDS, noted.descriptor, viewers.descriptor)
        noted.drain()
        if noted.is_released is not collector.is_released:
            collector.release() if noted.is_released else collector.resume()
        viewers.advance()
        if collector.interval != viewers.interval:
            collector.change_interval(viewers.interval)
        for sample in collector.advance():
            exporter.take(sample.snapshot)
            viewers.send(sample.line)
            if history is not None:
                history.take(sample.snapshot, sample.line)
        if collector.is_released:
            exporter.forget("detached from the driver: kill -USR1 reattaches")
            viewers.send(RELEASED)
        elif collector.failure is not None:
            exporter.problem = str(collector.failure)
    return noted.status


def _listen(viewers: LineServer, options: argparse.Namespace) -> str:
    """Listen on the socket; return the error as a message if the socket was not requested.

    Raises UsageError or GpudashError. Selected or simulated GPUs are not offered to everyone.
    """
    if options.socket is None and options.socket_group is None:
        if options.demo is not None or options.gpu is not None:
            return ""
    else:
        refuse(options, ("demo", "gpu"), "--socket: all of this host is seen there")
    path = options.socket or SOCKET
    try:
        viewers.listen(path, options.socket_group)
    except (OSError, LookupError) as error:
        problem = f"cannot listen on {clean(path)}: {getattr(error, 'strerror', None) or error}"
        if options.socket is None and options.socket_group is None:
            return f"gpudash: {problem}\n"
        raise GpudashError(problem) from None
    return ""


@contextmanager
def _history(options: argparse.Namespace) -> Iterator[tuple[KeptHistory | None, str]]:
    """Open the history, None for none; with the error as a message if it was not requested.

    Raises UsageError if it was requested. Selected or simulated GPUs are only kept on request.
    """
    folder = options.history
    if folder is None and options.demo is None and options.gpu is None:
        state = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
        folder = os.path.join(state, "history") if state else None
    if folder is None:
        yield None, ""
        return
    report, has_commands = terminal.write_message, not options.history_without_commands
    keep = _KEEP_SECONDS if options.keep is None else options.keep
    limit = _HISTORY_BYTES if options.max_size is None else options.max_size
    numbers = Minutes(options.interval or _DEFAULT_INTERVAL)
    try:
        history = KeptHistory(
            folder, keep, limit, report, numbers=numbers, has_commands=has_commands
        )
    except UsageError as error:
        if options.history is not None:
            raise
        yield None, f"gpudash: no history: {error}\n"
        return
    with closing(history):
        yield history, ""


def _unit(argv: list[str], group: str | None) -> str:
    """Return a systemd unit that runs this command line without --print-unit.

    To give a socket to a group, its user must be a member.
    """
    program = str(Path(argv[0]).resolve())
    words = [program] if program.endswith("gpudash") else [sys.executable, "-m", "gpudash"]
    words += (word for word in argv[1:] if word != "--print-unit")
    for index, word in enumerate(words):
        name, equals, path = word.partition("=")
        if name in _PATHS and equals:
            words[index] = f"{name}={os.path.abspath(path)}"
        elif name in _PATHS:
            words[index + 1] = os.path.abspath(words[index + 1])
    # systemd expands both.
    command = shlex.join(words).replace("%", "%%").replace("$", "$$")
    groups = "" if group is None else f"SupplementaryGroups={clean(group)}\n"
    return _UNIT.format(command=command, groups=groups)


def _tls(options: argparse.Namespace) -> ssl.SSLContext | None:
    """Return the TLS context, None for no encryption; raises UsageError."""
    if options.tls_cert is None:
        if options.tls_key or options.client_ca:
            raise UsageError("--tls-key and --client-ca go with --tls-cert FILE")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key, authority = (_file(options, option) for option in _FILES)
    with _naming(_FILES[0], certificate):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(certificate)
    with _naming(*((_FILES[0], certificate) if key is None else (_FILES[1], key))):
        # A key with a passphrase would ask for it on the terminal.
        context.load_cert_chain(certificate, key, password="")
    if authority is not None:
        with _naming(_FILES[2], authority):
            context.load_verify_locations(authority)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _file(options: argparse.Namespace, option: str) -> Any:
    """Return the file of an option, None if it was not given; raises UsageError."""
    file = getattr(options, dest(option[2:]))
    if file is not None:
        with _naming(option, file):
            open(file, "rb").close()
    return file


@contextmanager
def _naming(option: str, file: str) -> Iterator[None]:
    """Turn an error with a file into a UsageError that names it."""
    try:
        yield
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).lower().replace("_", " ")
        raise UsageError(f"{option} {file} cannot be used: {reason}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{option} {file} cannot be used: {reason}") from None


class Exporter:
    """The last sample as a document; once it is too old, one that says that the host is down."""

    def __init__(self, names: DcgmNames, stale_after_seconds: float) -> None:
        self._names, self._stale_after = names, stale_after_seconds
        self._sampled_at, self._is_up = -float("inf"), False
        self._sample: Snapshot | None = None
        self._document: tuple[Snapshot | None, bytes] = None, b""
        self.problem = "no sample yet"
        """Why the host is down, if it is."""

    def take(self, snapshot: Snapshot) -> None:
        """Store a sample."""
        self._sample, self._sampled_at = snapshot, time.monotonic()
        self._is_up = prometheus.is_up(snapshot)
        faults = [fault.message for fault in snapshot.errors if fault.source == "nvml"]
        self.problem = faults[0] if faults else "no sample: the driver does not answer"

    def forget(self, problem: str) -> None:
        """Show the host as down at once."""
        self._sampled_at, self.problem = -float("inf"), problem

    @property
    def _is_fresh(self) -> bool:
        """Whether the last sample is the present state of the host."""
        return time.monotonic() - self._sampled_at < self._stale_after

    def page(self, path: str) -> tuple[int, bytes]:
        """Return the status and the body of a page."""
        if path == "/metrics":
            return 200, self._metrics()
        if path == "/-/healthy":
            return 200, b"ok\n"
        if path in ("/-/ready", "/healthz"):
            is_up = self._is_fresh and self._is_up
            return (200, b"ok\n") if is_up else (503, f"{self.problem}\n".encode())
        return (200, _INDEX) if path == "/" else (404, b"not found; there is /metrics\n")

    def _metrics(self) -> bytes:
        """Return the last sample, rendered when first requested."""
        sample, (drawn, document) = self._sample, self._document
        if sample is None or not self._is_fresh:
            return prometheus.down().encode()
        if drawn is not sample:
            document = prometheus.render(sample, self._names).encode()
            self._document = sample, document
        return document


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = _CLIENT_SECONDS
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "gpudash", ""

    def do_GET(self) -> None:
        """Answer with a page, compressed if the client accepts gzip."""
        if self._has_body:
            status, body = 400, b"a request for a page has no body\n"
        else:
            status, body = self.server.exporter.page(self.path.partition("?")[0])
        self.send_response(status)
        if self._has_body:
            self.send_header("Connection", "close")
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, 1)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", _TEXT)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    @property
    def _has_body(self) -> bool:
        """Whether a request may have a body, which must not be read as the next request.

        An invalid header line hides those below it.
        """
        lengths = self.headers.get_all("Content-Length", [])
        has_length = any(length.strip() != "0" for length in lengths)
        return has_length or "Transfer-Encoding" in self.headers or bool(self.headers.defects)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing: scrapes come every few seconds."""


class Server(ThreadingHTTPServer):
    """Serves an exporter's pages to a limited number of clients at once."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, where: Address, exporter: Exporter, tls: ssl.SSLContext | None) -> None:
        """Raises GpudashError if the address cannot be listened on."""
        self.exporter, self._tls = exporter, tls
        self._clients: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        try:
            if not where.host and not socket.has_dualstack_ipv6():
                where = where._replace(host="0.0.0.0")
            found = socket.getaddrinfo(
                where.host or "::", where.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            self.address_family = found[0][0]
            self._is_dual = not where.host
            super().__init__(where, _Handler)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise GpudashError(f"cannot listen on {_shown(where)}: {reason}") from None

    def server_bind(self) -> None:
        """Bind; all interfaces are those of IPv4 too."""
        if self._is_dual:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    @property
    def url(self) -> str:
        """The URL to scrape."""
        scheme = "http" if self._tls is None else "https"
        host, port = self.socket.getsockname()[:2]
        return f"{scheme}://{_shown(Address(host, port))}/metrics"

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        """Accept a client; the handshake is left to its own thread, within a time limit."""
        connection, client = super().get_request()
        connection.settimeout(_CLIENT_SECONDS)
        if self._tls is not None:
            connection = self._tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        return connection, client

    def process_request(self, request: Any, client_address: object) -> None:
        """Handle a client in its own thread; with too many, close the oldest connection.

        A scrape takes milliseconds: a long connection is a client that sends too slowly.
        """
        with self._lock:
            oldest = next(iter(self._clients)) if len(self._clients) >= _MAX_CLIENTS else None
            self._clients[request] = None
            if oldest is not None:
                del self._clients[oldest]
                with suppress(OSError):
                    # SSLSocket's own would let its thread go on without encryption.
                    socket.socket.shutdown(oldest, socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a client, forgetting it before its descriptor is reused."""
        with self._lock:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Write nothing: a client that disconnects is not our error."""


def _shown(where: Address) -> str:
    return f"[{where.host}]:{where.port}" if ":" in where.host else f"{where.host}:{where.port}"


VERB = Verb(
    "serve metrics for Prometheus, and samples for every gpudash of this host",
    add_arguments,
    run,
    "Scrapes never touch the driver, under gpudash's names and DCGM's. Users have totals; they "
    "have no processes and command lines. A sample that is too old is left out, and gpudash_up is "
    "0. Screens, --json, dmon, pmon and gpudash.stream() of this host show the samples of this "
    "one collector, and name its user, if that is root or owns the socket's folder and sees what "
    "they see; else, and with --fresh, they read the driver themselves. An idle GPU of a laptop is "
    "left alone, so that it can fall asleep. Who may connect to the socket may read the history: "
    "[ and @ on a screen, --at with --once or --json, replay and events without a file, report. "
    "Hours without a sample do not count for --keep. If it cannot be written, samples are lost, "
    "and all else goes on.",
)
