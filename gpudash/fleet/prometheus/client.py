"""A request to Prometheus' HTTP API over a connection that is kept, within limits of time and size.

The standard library's http.client does: what is here is a deadline over all of a request, a limit
on what is unpacked, credentials, proxies, and one clear line for each way in which it fails. No
redirect is followed, since the credentials would go along.
"""

from __future__ import annotations

import io
import os
import ssl
import subprocess
import time
import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import gaierror
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from msgspec import Struct

from gpudash.model.errors import GpudashError, UsageError
from gpudash.model.text import SafeText, clean

MESSAGE_LENGTH = 300
"""Of what is wrong, in one line."""
MAX_BYTES = 64 << 20
"""Of one answer, unpacked: 8,000 GPUs with all their labels take 3 MB."""

_FORMS = frozenset({"/api/v1/query", "/api/v1/query_range"})
"""What is asked by POST, since a question may be longer than a URL; the rest knows GET alone."""
_CHUNK = 1 << 16
_TOKEN_SECONDS = 45 * 60
"""How long what a command prints is used: tokens of clouds live for an hour."""
_COMMAND_SECONDS = 30.0
_IDLE_SECONDS = 90.0
_TOKEN_VARIABLE = "GPUDASH_PROM_TOKEN"
_MASK = "***"


class Endpoint(Struct, frozen=True, kw_only=True):
    """How to reach a Prometheus, and what its labels are called."""

    url: str
    """With the prefix of its path, if it has one; a user and password in it are used."""
    token_file: str | None = None
    """Read again for each connection and after a 401."""
    token_command: tuple[str, ...] = ()
    """Prints a token; run again after a 401 and every 45 minutes."""
    user: str | None = None
    password_file: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    headers: Mapping[str, str] = {}
    """Sent with each request, such as X-Scope-OrgID."""
    timeout_seconds: float = 30.0
    host_label: str | None = None
    """The label that names a host, None to find it."""


class PrometheusError(GpudashError):
    """A request failed; `is_busy` if the server asks to be left alone for a while."""

    def __init__(self, message: str, *, status: int = 0, is_busy: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.is_busy = is_busy


class _Address(NamedTuple):
    """Where to connect to, and what to ask for there."""

    is_tls: bool
    host: str
    port: int
    path: str
    query: str
    proxy: SplitResult | None

    @property
    def origin(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' * self.is_tls}://{name}:{self.port}"


class Client:
    """Makes one request at a time; for a second one at once there is a second client."""

    def __init__(self, endpoint: Endpoint, what: str = "Prometheus") -> None:
        self._endpoint, self._what = endpoint, what
        self._address, self._userinfo = _parse(endpoint.url)
        self._context = _tls(endpoint) if self._address.is_tls else None
        self._connection: HTTPConnection | None = None
        self._only_get = False
        self._token: str | None = None
        self._token_read_at = 0.0
        self._secrets: set[str] = set()
        self._used_at = 0.0

    def request(self, path: str, parameters: list[tuple[str, str]], seconds: float) -> bytes:
        """Return the body of the answer to `/api/v1/...`, unpacked.

        Raises PrometheusError, whose text is one line without secrets.
        """
        deadline = time.monotonic() + seconds
        try:
            return self._request(path, parameters, deadline)
        except PrometheusError as error:
            self.close()
            message = clean(self._masked(str(error)), MESSAGE_LENGTH)
            raise PrometheusError(message, status=error.status, is_busy=error.is_busy) from None

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _request(self, path: str, parameters: list[tuple[str, str]], deadline: float) -> bytes:
        authorization = self._authorization(is_refused=False)
        response, body = self._exchange(path, parameters, authorization, deadline)
        if response.status == 401 and self._endpoint.token_command:
            authorization = self._authorization(is_refused=True)
            response, body = self._exchange(path, parameters, authorization, deadline)
        if response.status in (403, 405) and not self._only_get and path in _FORMS:
            # Proxies that only read let GET through alone.
            self._only_get = True
            status = response.status
            response, body = self._exchange(path, parameters, authorization, deadline)
            self._only_get = response.status != status
        if response.status == 200 and not body[:_CHUNK].lstrip().startswith(b"<"):
            return body
        raise _refusal(response, body, self._what, has_login=authorization is not None)

    def _exchange(
        self,
        path: str,
        parameters: list[tuple[str, str]],
        authorization: str | None,
        deadline: float,
    ) -> tuple[HTTPResponse, bytes]:
        """Send a request and read all of the answer; once more if the connection was closed."""
        was_kept = self._connection is not None
        try:
            return self._exchange_once(path, parameters, authorization, deadline)
        except (ConnectionError, HTTPException) as error:
            self.close()
            if not was_kept:
                raise _failure(error, self._address) from None
        except (OSError, zlib.error, ValueError) as error:
            raise _failure(error, self._address) from None
        try:
            return self._exchange_once(path, parameters, authorization, deadline)
        except (OSError, HTTPException, zlib.error, ValueError) as error:
            raise _failure(error, self._address) from None

    def _exchange_once(
        self,
        path: str,
        parameters: list[tuple[str, str]],
        authorization: str | None,
        deadline: float,
    ) -> tuple[HTTPResponse, bytes]:
        connection = self._connected(deadline)
        address = self._address
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            **self._endpoint.headers,
        }
        if authorization is not None:
            headers["Authorization"] = authorization
        target, form = address.path + path, urlencode(parameters) or address.query
        if address.proxy is not None and not address.is_tls:
            target = address.origin + target
            headers.update(_proxy_login(address.proxy))
        if self._only_get or path not in _FORMS:
            connection.request("GET", f"{target}?{form}".removesuffix("?"), headers=headers)
        else:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            connection.request("POST", target, form, headers)
        response = connection.getresponse()
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
        if connection.sock is None:
            connection.connect()
        connection.sock.settimeout(_left(deadline))
        connection.response_class = lambda sock, *rest, **more: _TimedResponse(  # type: ignore[assignment]
            deadline, sock, *rest, **more
        )
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
        token = os.environ.get(_TOKEN_VARIABLE)
        if token:
            return self._bearer(token.strip())
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

    def _masked(self, text: str) -> str:
        for secret in filter(None, self._secrets):
            text = text.replace(secret, _MASK)
        return text


def public_url(url: str) -> SafeText:
    """Return a URL as it may be shown: without user, password, query and fragment."""
    parts = urlsplit(url)
    return clean(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/"))


class _TimedReader(io.RawIOBase):
    """Reads a socket within a deadline over all reads: a byte a second does not go on for ever."""

    def __init__(self, raw: io.RawIOBase, sock: ssl.SSLSocket, deadline: float) -> None:
        self._raw, self._sock, self._deadline = raw, sock, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int | None:  # type: ignore[override]
        self._sock.settimeout(_left(self._deadline))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedResponse(HTTPResponse):
    """An answer whose head and body are read within one deadline."""

    def __init__(self, deadline: float, sock: ssl.SSLSocket, *args: int, **more: str) -> None:
        super().__init__(sock, *args, **more)  # type: ignore[arg-type]
        raw = self.fp.detach()
        self.fp = io.BufferedReader(_TimedReader(raw, sock, deadline), _CHUNK)


def _left(deadline: float) -> float:
    """Return the seconds up to a deadline; raises TimeoutError after it."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _parse(url: str) -> tuple[_Address, tuple[str, str] | None]:
    """Return where a URL leads, and its user and password; raises UsageError."""
    from urllib.request import getproxies, proxy_bypass

    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        parts, port, host = urlsplit(""), None, None
    is_printable = url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not host or not is_printable:
        shown = clean(url.rpartition("@")[2], 100)
        raise UsageError(f"invalid URL {shown!r}: expected http://HOST[:PORT][/PREFIX] or https://")
    is_tls = parts.scheme == "https"
    proxy = None if proxy_bypass(host) else getproxies().get(parts.scheme)
    through = urlsplit(proxy if "://" in proxy else f"http://{proxy}") if proxy else None
    port = port or (443 if is_tls else 80)
    address = _Address(is_tls, host, port, parts.path.rstrip("/"), parts.query, through)
    if parts.username is None:
        return address, None
    return address, (unquote(parts.username), unquote(parts.password or ""))


def _connection(address: _Address, context: ssl.SSLContext | None) -> HTTPConnection:
    host, port = address.host, address.port
    proxy = address.proxy
    if proxy is not None:
        if proxy.scheme != "http" or not proxy.hostname:
            raise PrometheusError(f"the proxy {public_url(proxy.geturl())} is not an http:// one")
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
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            return file.read(_CHUNK).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise PrometheusError(f"cannot read {path}: {why}") from None


def _printed(command: tuple[str, ...]) -> str:
    """Return what a command prints; its stderr may hold a secret and is not shown."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_COMMAND_SECONDS,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        status = error.returncode
        raise PrometheusError(f"token_command {command[0]} failed: status {status}") from None
    except subprocess.TimeoutExpired:
        raise PrometheusError(f"token_command {command[0]} did not end within 30 s") from None
    except OSError as error:
        raise PrometheusError(f"token_command {command[0]}: {error.strerror}") from None
    return done.stdout.decode("utf-8", "replace").strip()


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


_REFUSALS = {
    407: "the proxy refuses the login (407)",
    429: "asks for fewer requests (429)",
}


def _refusal(response: HTTPResponse, body: bytes, what: str, *, has_login: bool) -> PrometheusError:
    """Return what an answer means that is not the data asked for."""
    status = response.status
    is_busy = status in (422, 429, 502, 503, 504)
    reason = _reason(body)
    if 300 <= status < 400:
        target = public_url(response.getheader("Location", "")).partition("/api/v1/")[0]
        text = f"redirects to {target}: not followed, give the URL of the Prometheus itself"
    elif status == 401:
        refusal = "refuses the token or password (401)" if has_login else "needs a login (401)"
        text = f"{refusal}; see token_file, token_command, GPUDASH_PROM_TOKEN"
    elif reason is not None:
        text = f"{reason} ({status})"
    elif status == 404:
        text = f"no {what} here (404): is a part of the path missing?"
    elif status in _REFUSALS:
        text = _REFUSALS[status]
    elif status == 403:
        text = "forbids the query (403)"
    elif status == 200 or b"<html" in body[:1000].lower():
        text = f"answers with a web page, such as a login page, not with data ({status})"
    else:
        text = f"answers {status} {response.reason}"
    return PrometheusError(text, status=status, is_busy=is_busy)


class _Fault(Struct, rename="camel"):
    """Prometheus' own words for an error."""

    error: str
    error_type: str = ""


def _reason(body: bytes) -> str | None:
    from msgspec import DecodeError, json

    try:
        fault = json.decode(body, type=_Fault)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return f"{fault.error_type}: {fault.error}" if fault.error_type else fault.error


def _failure(error: Exception, address: _Address) -> PrometheusError:
    """Return why there was no whole answer."""
    if isinstance(error, PrometheusError):
        return error
    if isinstance(error, TimeoutError):
        text = "no whole answer in time"
    elif isinstance(error, gaierror):
        name = address.proxy.hostname if address.proxy else address.host
        text = f"cannot resolve {name}: {error.strerror}"
    elif isinstance(error, ssl.SSLCertVerificationError):
        text = f"its certificate is not valid: {error.verify_message}; see ca_file"
    elif isinstance(error, ssl.SSLError):
        text = f"TLS failed: {error.reason or error}"
    elif isinstance(error, ConnectionRefusedError):
        text = f"refuses connections on port {address.port}"
    elif isinstance(error, zlib.error):
        text = "the answer is no valid gzip"
    elif isinstance(error, ConnectionError):
        text = "closed the connection without an answer"
    elif isinstance(error, OSError):
        text = error.strerror or str(error) or type(error).__name__
    else:
        text = f"the answer is no valid HTTP or cut off ({type(error).__name__})"
    return PrometheusError(text)
