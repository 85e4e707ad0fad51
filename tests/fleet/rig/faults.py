"""A server on loopback that misbehaves on request, in front of a Prometheus or alone."""

import gzip
import http.client
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

SUCCESS = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}}).encode()
LOGIN_PAGE = b"<!DOCTYPE html><html><title>Sign in</title></html>"
_HUGE = 70 << 20
_PAUSE = 0.02


class Seen(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: str
    port: int
    """Of the client: which connection it was."""


class Faulty:
    """What the server does; change it while it runs."""

    def __init__(self, url: str, upstream: str | None) -> None:
        self.url, self.upstream = url, upstream
        self.fault = ""
        self.authorization: str | None = None
        """What a request must have."""
        self.methods = ("GET", "POST", "CONNECT")
        self.missing = "\0"
        """Requests with this in their path are answered by 404."""
        self.page: Callable[[str], bytes | None] | None = None
        """What is answered to a path instead; None closes the connection."""
        self.holds: Callable[[str], bool] = lambda _body: False
        """Which requests wait as long as this is true of them."""
        self.headers: dict[str, str] = {}
        """Of each answer."""
        self.seen: list[Seen] = []
        self.is_ended = threading.Event()


@contextmanager
def faulty(upstream: str | None = None, context: ssl.SSLContext | None = None) -> Iterator[Faulty]:
    """Run a server until the end of the block, with TLS if there is a context."""
    server = _Server(("127.0.0.1", 0), _Handler)
    scheme = "http" if context is None else "https"
    server.state = Faulty(f"{scheme}://127.0.0.1:{server.server_port}", upstream)
    if context is not None:
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.state
    finally:
        server.state.is_ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    state: Faulty

    def handle_error(self, *_: object) -> None:
        """Be silent about clients that have gone."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        state: Faulty = self.server.state  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        seen = Seen(
            self.command, self.path, dict(self.headers), body.decode(), self.client_address[1]
        )
        state.seen.append(seen)
        while state.holds(seen.body) and not state.is_ended.wait(0.01):
            pass
        with suppress(ConnectionError):
            self._answer(state, body)

    def do_GET(self) -> None:
        self.do_POST()

    def do_CONNECT(self) -> None:
        """Be a proxy for TLS."""
        state: Faulty = self.server.state  # type: ignore[attr-defined]
        seen = Seen(self.command, self.path, dict(self.headers), "", self.client_address[1])
        state.seen.append(seen)
        self.close_connection = True
        if state.fault:
            with suppress(ConnectionError):
                self._answer(state, b"")
            return
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port))) as upstream, suppress(ConnectionError):
            self.send_response(200)
            self.end_headers()
            _relay(self.connection, upstream, state)

    def _answer(self, state: Faulty, body: bytes) -> None:
        fault, _, argument = state.fault.partition("=")
        if fault == "empty" and argument not in body.decode():
            fault = ""
        if self.command not in state.methods:
            self._send(405, b"")
        elif state.missing in self.path:
            self._send(404, b"")
        elif state.authorization not in (None, self.headers.get("Authorization")):
            self._send(401, b"unauthorized\n")
        elif fault.isdigit():
            kind = "text/html" if argument.startswith("<") else "text/plain; charset=utf-8"
            self._send(int(fault), argument.encode(), Content_Type=kind)
        elif fault == "reset":
            self.close_connection = True
        elif fault == "hang":
            self.close_connection = True
            state.is_ended.wait()
        elif fault == "redirect":
            self._send(302, b"", Location=argument)
        elif fault == "close":
            self._send(200, SUCCESS)
            self.close_connection = True
        elif fault == "slow-head":
            self._drip(b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 4096, state)
        elif fault == "chunks-cut":
            self.close_connection = True
            self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
        elif fault == "slow-body":
            self._drip(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + b" " * 9999, state)
        else:
            self._spoiled(fault, argument, self._whole(state, body))

    def _whole(self, state: Faulty, body: bytes) -> bytes | None:
        if state.page is not None:
            return state.page(self.path)
        if state.upstream is None:
            return SUCCESS
        parts = urlsplit(state.upstream)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        kind = {"Content-Type": self.headers.get("Content-Type") or "text/plain"}
        connection.request(self.command, self.path, body or None, kind)
        answer = connection.getresponse().read()
        connection.close()
        return answer

    def _spoiled(self, fault: str, argument: str, whole: bytes | None) -> None:
        if whole is None:
            self.close_connection = True
        elif fault == "html":
            self._send(200, LOGIN_PAGE)
        elif fault == "huge":
            self._send(200, gzip.compress(b" " * _HUGE, 1), Content_Encoding="gzip")
        elif fault == "gzip":
            self._send(200, gzip.compress(whole), Content_Encoding="gzip")
        elif fault == "gzip-cut":
            self._send(200, gzip.compress(whole)[:-12], Content_Encoding="gzip")
        elif fault == "gzip-none":
            self._send(200, b"", Content_Encoding="gzip")
        elif fault == "gzip-bad":
            self._send(200, whole, Content_Encoding="gzip")
        elif fault == "cut":
            self._send(200, whole, Content_Length=str(len(whole) + 100))
            self.close_connection = True
        elif fault == "bad-json":
            self._send(200, whole[: len(whole) // 2])
        elif fault == "null":
            self._send(200, b'{"status":"success","data":null}')
        elif fault == "infos":
            self._send(200, json.dumps({**json.loads(whole), "infos": ["PromQL info"]}).encode())
        elif fault == "is-partial":
            self._send(200, json.dumps({**json.loads(whole), "isPartial": True}).encode())
        elif fault in ("numbers", "partial", "empty", "times"):
            self._send(200, json.dumps(_spoil(fault, json.loads(whole))).encode())
        else:
            self._send(200, whole)

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        state: Faulty = self.server.state  # type: ignore[attr-defined]
        length = {"Content_Length": str(len(body))}
        for name, value in {**length, **state.headers, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def _drip(self, text: bytes, state: Faulty) -> None:
        self.close_connection = True
        for index in range(len(text)):
            if state.is_ended.is_set():
                return
            self.wfile.write(text[index : index + 1])
            time.sleep(_PAUSE)


def _relay(one: socket.socket, other: socket.socket, state: Faulty) -> None:
    """Pass on what both send until one of them ends."""
    while not state.is_ended.is_set():
        for ready in select.select([one, other], [], [], 0.05)[0]:
            piece = ready.recv(1 << 16)
            if not piece:
                return
            (other if ready is one else one).sendall(piece)


def _spoil(fault: str, document: dict[str, object]) -> dict[str, object]:
    data = document.get("data")
    result = data.get("result") if isinstance(data, dict) else None
    if isinstance(result, list):
        if fault == "numbers":
            for index, row in enumerate(result):
                row["value"][1] = ("NaN", "+Inf", "-1", "1e400", "none")[index % 5]
        elif fault == "times":
            # Rounded, and so not all of them the same.
            for row in result:
                row["value"][0] -= "__name__" in row["metric"]
        elif fault == "partial":
            document["warnings"] = ["store-7 is unavailable"]
            del result[::2]
        else:
            result.clear()
    return document
