"""Requests to Prometheus' HTTP API over a kept connection, with limits on time and size.

It adds to urllib3 one deadline for a whole answer, a limit on its unpacked size, credentials, and
one clear line for each kind of failure. Redirects are not followed, since the credentials would go
along.
"""

from __future__ import annotations

import re
import ssl
import subprocess
import time
import zlib
from base64 import b64encode
from collections.abc import Mapping
from contextlib import closing
from functools import cache, partial
from gzip import GzipFile
from http.client import HTTPResponse
from socket import socket
from typing import Any
from urllib.parse import unquote

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, ProtocolError

from gpudash.fleet.prometheus.endpoint import Endpoint, parse, permitted
from gpudash.fleet.prometheus.failures import (
    PrometheusError,
    failure,
    refusal,
    shortened,
    unwrapped,
)
from gpudash.model.errors import UsageError
from gpudash.model.text import clean

MAX_BYTES = 64 << 20
"""Of one unpacked answer: 8,000 GPUs with all their labels take 3 MB."""

_FORMS = frozenset({"/api/v1/query", "/api/v1/query_range"})
"""Paths asked by POST, since a query may be longer than a URL; all others support only GET."""
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "gpudash"}
_GET: dict[str, Any] = {
    "method": "GET",
    "retries": False,
    "redirect": False,
    "preload_content": False,
    "decode_content": False,
}
_POST = {**_GET, "method": "POST", "encode_multipart": False}
_CHUNK = 1 << 16
_TOKEN_SECONDS = 45 * 60
"""How long a command's output is used: cloud tokens live for an hour."""
_COMMAND_SECONDS = 30.0
_IDLE_SECONDS = 90.0
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t -~\x80-\xff]*")
"""Characters that RFC 9110 allows in a header, its bytes as Latin-1."""


class Client:
    """Makes one request at a time; concurrent requests need a client each.

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
        self._secrets: set[str] = set()
        self._pools = self._manager()
        self._used_at = 0.0
        self._is_kept = False
        """Whether the connection is kept from an earlier answer."""
        self.can_lag = False
        """Whether the server, a VictoriaMetrics, may answer with data half a minute old."""
        self._only_get = False
        self._token: str | None = None
        self._token_read_at = 0.0

    def request(self, path: str, parameters: list[tuple[str, str]], seconds: float) -> bytes:
        """Return the body of the answer to `/api/v1/...`, unpacked.

        Raises PrometheusError, whose text is one line without secrets.
        """
        try:
            return self._request(path, parameters, time.monotonic() + seconds)
        except PrometheusError as error:
            text, status = str(error), error.status
        for secret in filter(None, self._secrets):
            text = text.replace(secret, "***")
        # Raised here to drop the caught error, and with it the reference to an answer.
        raise PrometheusError(shortened(text), status)

    def close(self) -> None:
        """End the connection."""
        self._pools.clear()
        self._is_kept = False

    def _request(self, path: str, parameters: list[tuple[str, str]], deadline: float) -> bytes:
        ask = partial(self._exchange, path, parameters, deadline)
        authorization = self._authorization(is_refused=False)
        response, body = ask(authorization)
        if response.status == 401 and self._endpoint.token_command:
            authorization = self._authorization(is_refused=True)
            response, body = ask(authorization)
        if response.status in (403, 405) and not self._only_get and path in _FORMS:
            # Read-only proxies allow only GET.
            self._only_get = True
            status = response.status
            response, body = ask(authorization)
            self._only_get = response.status != status
        if response.status == 200 and not body[:_CHUNK].lstrip().startswith(b"<"):
            return body
        # Through a tunnel, answers come from the server itself.
        proxy = None if self._address.is_tls else self._address.proxy
        has_login, withheld = authorization is not None, self._endpoint.withheld
        raise refusal(response, body, self._what, proxy, has_login=has_login, withheld=withheld)

    def _exchange(
        self, path: str, parameters: list[tuple[str, str]], deadline: float, login: str | None
    ) -> tuple[urllib3.BaseHTTPResponse, bytes]:
        """Send a request and read the whole answer; retry once if the connection was closed."""
        if time.time() - self._used_at > _IDLE_SECONDS:
            # It may be dead without notice: the host was suspended, or a firewall dropped it.
            self.close()
        self._used_at = time.time()
        was_kept, self._is_kept = self._is_kept, False
        address = self._address
        query = f"?{address.query}" if address.query and not parameters else ""
        headers = {**_HEADERS, **self._endpoint.headers}
        if login is not None:
            headers["Authorization"] = login
        try:
            response = self._pools.request(
                url=address.origin + address.path + path + query,
                fields=parameters,
                headers=headers,
                timeout=urllib3.Timeout(total=_left(deadline)),
                **(_GET if self._only_get or path not in _FORMS else _POST),
            )
            with closing(response):
                body = _body(response)
        except (HTTPError, OSError, EOFError, ValueError, zlib.error) as error:
            inner = unwrapped(error)
            if not was_kept or not isinstance(error, ProtocolError):
                raise failure(inner, address, self._endpoint.withheld) from None
        else:
            self._is_kept = True
            self.can_lag = "X-Server-Hostname" in response.headers
            return response, body
        return self._exchange(path, parameters, deadline, login)

    def _manager(self) -> urllib3.PoolManager:
        """Return a manager of the connection to the server or its proxy."""
        context = _tls(self._endpoint) if self._address.is_tls else None
        proxy = self._address.proxy
        if proxy is None:
            pools = urllib3.PoolManager(ssl_context=context)
        else:
            headers = {}
            if proxy.username is not None:
                user, password = unquote(proxy.username), unquote(proxy.password or "")
                headers["Proxy-Authorization"] = self._basic(user, password)
            pools = urllib3.ProxyManager(proxy.geturl(), proxy_headers=headers, ssl_context=context)
        # Closed at once, not by the garbage collector.
        pools.pools.dispose_func = urllib3.HTTPConnectionPool.close
        pools.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
        return pools

    def _authorization(self, *, is_refused: bool) -> str | None:
        """Return the authorization header, None for none."""
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
        return self._basic(user, password)

    def _basic(self, user: str, password: str) -> str:
        login = b64encode(f"{user}:{password}".encode()).decode()
        self._secrets.update((password, login))
        return f"Basic {login}"

    def _bearer(self, token: str) -> str:
        if not token or not token.isascii() or not token.isprintable():
            raise PrometheusError("the token is empty or has characters that no token has")
        self._secrets.add(token)
        return f"Bearer {token}"


class _Answer(HTTPResponse):
    """An answer with one timeout for all of it: a byte a second cannot keep it open for ever."""

    def __init__(self, sock: socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        deadline = time.monotonic() + (sock.gettimeout() or 0.0)

        def readinto(buffer: memoryview) -> int:
            sock.settimeout(_left(deadline))
            return sock.recv_into(buffer)

        self.fp.raw.readinto = readinto  # type: ignore[method-assign]


class _Pool(urllib3.HTTPConnectionPool):
    class ConnectionCls(HTTPConnection):
        response_class = _Answer


class _TlsPool(urllib3.HTTPSConnectionPool):
    class ConnectionCls(HTTPSConnection):
        response_class = _Answer


def _left(deadline: float) -> float:
    """Return the seconds left until a deadline; raises TimeoutError after it."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _check_headers(headers: Mapping[str, str]) -> None:
    """Raise UsageError for an invalid header, without showing its value: it may be a secret."""
    for name, value in headers.items():
        if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            expected = "expected a name like X-Scope-OrgID, and a value of one line in Latin-1"
            raise UsageError(f"cannot send the header '{clean(name, 100)}': {expected}")


def _tls(endpoint: Endpoint) -> ssl.SSLContext:
    """Return the TLS context; raises UsageError for unusable certificate files."""
    if endpoint.ca_file is None and endpoint.certificate_file is None:
        return _system_tls()
    try:
        context = ssl.create_default_context(cafile=endpoint.ca_file)
        if endpoint.certificate_file is not None:
            context.load_cert_chain(endpoint.certificate_file, endpoint.key_file, _no_password)
    except (OSError, ssl.SSLError) as error:
        names = (endpoint.ca_file, endpoint.certificate_file, endpoint.key_file)
        files = ", ".join(filter(None, names))
        raise UsageError(f"cannot use the certificates {files}: {error}") from None
    return context


@cache
def _system_tls() -> ssl.SSLContext:
    """Return the TLS context of the host's authorities, which take 20 ms to load."""
    return ssl.create_default_context()


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
    """Return the output of a command; its stderr may hold a secret and is not shown."""
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


def _body(response: urllib3.BaseHTTPResponse) -> bytes:
    """Return the whole answer, unpacked; raises PrometheusError beyond `MAX_BYTES`."""
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise PrometheusError(f"answers in an encoding that was not asked for: {encoding}")
    source = response if encoding == "identity" else GzipFile(fileobj=response, mode="rb")
    body = source.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise PrometheusError(f"answers with more than {MAX_BYTES >> 20} MiB")
    # Only its end shows whether it is complete; gzip takes an empty answer for an empty file.
    response.read(1)
    if source is not response and not response.tell():
        raise EOFError
    return body
