"""A request to Prometheus' HTTP API over a connection that is kept, within limits of time and size.

The standard library's http.client does: what is here is a deadline over all of a request, a limit
on what is unpacked, credentials, proxies, and one clear line for each way in which it fails. No
redirect is followed, since the credentials would go along.
"""

from __future__ import annotations

import io
import re
import ssl
import subprocess
import time
import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import socket
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlencode

from gpudash.fleet.prometheus.endpoint import Endpoint, ServerUrl, parse, permitted
from gpudash.fleet.prometheus.failures import PrometheusError, failure, refusal, shortened
from gpudash.model.errors import UsageError
from gpudash.model.text import clean

MAX_BYTES = 64 << 20
"""Of one answer, unpacked: 8,000 GPUs with all their labels take 3 MB."""

_FORMS = frozenset({"/api/v1/query", "/api/v1/query_range"})
"""What is asked by POST, since a question may be longer than a URL; the rest knows GET alone."""
_CHUNK = 1 << 16
_TOKEN_SECONDS = 45 * 60
"""How long what a command prints is used: tokens of clouds live for an hour."""
_COMMAND_SECONDS = 30.0
_IDLE_SECONDS = 90.0
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t -~\x80-\xff]*")
"""What RFC 9110 lets into a header, its bytes as Latin-1."""
_MASK = "***"


class _Request(NamedTuple):
    path: str
    parameters: list[tuple[str, str]]
    deadline: float


class Client:
    """Makes one request at a time; for a second one at once there is a second client.

    Raises UsageError for a URL, a proxy, certificates or headers that cannot be used.
    """

    def __init__(self, endpoint: Endpoint, what: str = "Prometheus") -> None:
        _check_headers(endpoint.headers)
        self._address, self._userinfo = parse(endpoint.url)
        has_login = self._userinfo is not None
        self._endpoint = permitted(endpoint, self._address, has_login=has_login)
        if self._endpoint is not endpoint:
            self._userinfo = None
        self._what = what
        self._context = _tls(self._endpoint) if self._address.is_tls else None
        self._connection: HTTPConnection | None = None
        self.can_lag = False
        """Whether the server, a VictoriaMetrics, answers as of half a minute ago if it may."""
        self._only_get = False
        self._token: str | None = None
        self._token_read_at = 0.0
        self._secrets: set[str] = set()
        if self._address.proxy is not None:
            login = _proxy_login(self._address.proxy).get("Proxy-Authorization", "")
            self._secrets.update(
                (unquote(self._address.proxy.password or ""), login.removeprefix("Basic "))
            )
        self._used_at = 0.0

    def request(self, path: str, parameters: list[tuple[str, str]], seconds: float) -> bytes:
        """Return the body of the answer to `/api/v1/...`, unpacked.

        Raises PrometheusError, whose text is one line without secrets.
        """
        try:
            return self._request(_Request(path, parameters, time.monotonic() + seconds))
        except PrometheusError as error:
            self.close()
            raise PrometheusError(shortened(self._masked(str(error))), error.status) from None

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _request(self, request: _Request) -> bytes:
        authorization = self._authorization(is_refused=False)
        response, body = self._exchange(request, authorization)
        if response.status == 401 and self._endpoint.token_command:
            authorization = self._authorization(is_refused=True)
            response, body = self._exchange(request, authorization)
        if response.status in (403, 405) and not self._only_get and request.path in _FORMS:
            # Proxies that only read let GET through alone.
            self._only_get = True
            status = response.status
            response, body = self._exchange(request, authorization)
            self._only_get = response.status != status
        if response.status == 200 and not body[:_CHUNK].lstrip().startswith(b"<"):
            return body
        # Through a tunnel answers are the server's own.
        proxy = None if self._address.is_tls else self._address.proxy
        has_login, withheld = authorization is not None, self._endpoint.withheld
        raise refusal(response, body, self._what, proxy, has_login=has_login, withheld=withheld)

    def _exchange(self, request: _Request, authorization: str | None) -> tuple[HTTPResponse, bytes]:
        """Send a request and read all of the answer; once more if the connection was closed."""
        while True:
            was_kept = self._connection is not None
            try:
                return self._exchange_once(request, authorization)
            except (OSError, HTTPException, zlib.error, ValueError) as error:
                self.close()
                if was_kept and isinstance(error, (ConnectionError, HTTPException)):
                    continue
                failure = self._failure(error)
            # Here, so that the error goes, and with it what it keeps of a socket.
            raise failure

    def _exchange_once(
        self, request: _Request, authorization: str | None
    ) -> tuple[HTTPResponse, bytes]:
        connection = self._connected(request.deadline)
        address = self._address
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            **self._endpoint.headers,
        }
        if authorization is not None:
            headers["Authorization"] = authorization
        target = address.path + request.path
        form = urlencode(request.parameters) or address.query
        if address.proxy is not None and not address.is_tls:
            target = address.origin + target
            headers.update(_proxy_login(address.proxy))
        if self._only_get or request.path not in _FORMS:
            connection.request("GET", f"{target}?{form}".removesuffix("?"), headers=headers)
        else:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            connection.request("POST", target, form, headers)
        response = connection.getresponse()
        self.can_lag = response.getheader("X-Server-Hostname") is not None
        return response, b"".join(_unpacked(response))

    def _connected(self, deadline: float) -> HTTPConnection:
        if time.time() - self._used_at > _IDLE_SECONDS:
            # It may be gone without a word: the host was suspended, or a firewall forgot it.
            self.close()
        self._used_at = time.time()
        if self._connection is None:
            self._connection = _connection(self._address, self._context)
        connection = self._connection
        connection.timeout = _left(deadline)
        # Also for what a proxy answers before there is a connection.
        connection.response_class = lambda sock, *rest, **more: HTTPResponse(  # type: ignore[assignment]
            _Timed(sock, deadline),  # type: ignore[arg-type]
            *rest,
            **more,
        )
        if connection.sock is None:
            connection.connect()
        connection.sock.settimeout(_left(deadline))
        return connection

    def _authorization(self, *, is_refused: bool) -> str | None:
        """Return the header that logs in, None for none."""
        endpoint = self._endpoint
        if endpoint.token_command:
            age = time.monotonic() - self._token_read_at
            if self._token is None or is_refused or age > _TOKEN_SECONDS:
                self._token = _printed(endpoint.token_command)
                self._token_read_at = time.monotonic()
            return self._bearer(self._token)
        if endpoint.token_file is not None:
            return self._bearer(_secret(endpoint.token_file))
        if endpoint.token:
            return self._bearer(endpoint.token.strip())
        user, password = self._userinfo or (endpoint.user, "")
        if user is None:
            return None
        if endpoint.password_file is not None:
            password = _secret(endpoint.password_file)
        login = b64encode(f"{user}:{password}".encode()).decode()
        self._secrets.update((password, login))
        return f"Basic {login}"

    def _bearer(self, token: str) -> str:
        if not token or not token.isascii() or not token.isprintable():
            raise PrometheusError("the token is empty or has characters that no token has")
        self._secrets.add(token)
        return f"Bearer {token}"

    def _failure(self, error: Exception) -> PrometheusError:
        found = failure(error, self._address)
        withheld = self._endpoint.withheld
        if withheld is None or not isinstance(error, ssl.SSLError):
            return found
        # A server may end the handshake of a client without a certificate.
        return PrometheusError(f"{found}; {withheld}")

    def _masked(self, text: str) -> str:
        for secret in filter(None, self._secrets):
            text = text.replace(secret, _MASK)
        return text


class _Timed(io.RawIOBase):
    """A socket to read within one deadline: a byte a second does not go on for ever."""

    def __init__(self, sock: socket, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline
        self._raw = sock.makefile("rb", buffering=0)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return what an answer's head and body are read from."""
        return io.BufferedReader(self, _CHUNK)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int | None:  # type: ignore[override]
        self._sock.settimeout(_left(self._deadline))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _left(deadline: float) -> float:
    """Return the seconds up to a deadline; raises TimeoutError after it."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _check_headers(headers: Mapping[str, str]) -> None:
    """Raise UsageError for a header that cannot be sent, without its value: it may be a secret."""
    for name, value in headers.items():
        if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            expected = "expected a name like X-Scope-OrgID, and a value of one line in Latin-1"
            raise UsageError(f"cannot send the header '{clean(name, 100)}': {expected}")


def _connection(address: ServerUrl, context: ssl.SSLContext | None) -> HTTPConnection:
    host, port = address.host, address.port
    proxy = address.proxy
    if proxy is not None and proxy.hostname:
        host, port = proxy.hostname, proxy.port or 80
    if context is None:
        return HTTPConnection(host, port)
    connection = HTTPSConnection(host, port, context=context)
    if proxy is not None:
        connection.set_tunnel(address.host, address.port, _proxy_login(proxy))
    return connection


def _proxy_login(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(login.encode()).decode()}"}


def _tls(endpoint: Endpoint) -> ssl.SSLContext:
    """Return what servers are checked by; raises UsageError for files that cannot be used."""
    try:
        context = ssl.create_default_context(cafile=endpoint.ca_file)
        if endpoint.certificate_file is not None:
            context.load_cert_chain(endpoint.certificate_file, endpoint.key_file, _no_password)
    except (OSError, ssl.SSLError) as error:
        names = (endpoint.ca_file, endpoint.certificate_file, endpoint.key_file)
        files = ", ".join(filter(None, names))
        raise UsageError(f"cannot use the certificates {files}: {error}") from None
    return context


def _no_password() -> str:
    raise OSError("the key is encrypted; expected one without a passphrase")


def _secret(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(_CHUNK).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise PrometheusError(f"cannot read {path}: {why}") from None


def _printed(command: tuple[str, ...]) -> str:
    """Return what a command prints; its stderr may hold a secret and is not shown."""
    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_COMMAND_SECONDS,
        )
    except subprocess.TimeoutExpired:
        why = "did not end within 30 s"
    except OSError as error:
        why = f"cannot run: {error.strerror}"
    else:
        if not done.returncode:
            return done.stdout.decode("utf-8", "replace").strip()
        why = f"failed: status {done.returncode}"
    raise PrometheusError(f"token_command {command[0]} {why}")


def _unpacked(response: HTTPResponse) -> Iterator[bytes]:
    """Yield the body in pieces, unpacked; raises PrometheusError beyond `MAX_BYTES`."""
    encoding = response.getheader("Content-Encoding", "identity").lower()
    packer = zlib.decompressobj(16 + zlib.MAX_WBITS) if encoding in ("gzip", "x-gzip") else None
    if packer is None and encoding != "identity":
        raise PrometheusError(f"answers in an encoding that was not asked for: {encoding}")
    size = 0
    while piece := response.read(_CHUNK):
        while piece:
            part = packer.decompress(piece, _CHUNK << 4) if packer else piece
            piece = packer.unconsumed_tail if packer else b""
            size += len(part)
            if size > MAX_BYTES:
                limit = MAX_BYTES >> 20
                raise PrometheusError(f"answers with more than {limit} MiB")
            yield part
    if response.length or (packer is not None and not packer.eof):
        raise PrometheusError("the answer is cut off")
