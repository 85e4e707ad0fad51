"""Why a request to an HTTP API brought no data: one clear line for each case."""

from __future__ import annotations

import re
import ssl
import zlib
from gzip import BadGzipFile
from http.client import IncompleteRead
from socket import gaierror
from typing import Any
from urllib.parse import SplitResult, urlsplit

from msgspec import DecodeError, Struct, json
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import LocationParseError, ReadTimeoutError

from gpudash.fleet.prometheus.endpoint import ServerUrl
from gpudash.model.errors import GpudashError
from gpudash.model.text import SafeText, clean

MESSAGE_LENGTH = 300
"""Of an error message, in one line."""
_PLAIN_BYTES = 1 << 16
_LONG_QUOTE = re.compile(r'"(?:[^"\\]|\\.){40,}"')


class PrometheusError(GpudashError):
    """A request failed; `status` is that of the answer, 0 without one."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_busy(self) -> bool:
        """Whether the server asks for fewer requests."""
        return self.status in (422, 429, 502, 503, 504)


def public_url(url: str) -> SafeText:
    """Return a URL fit to be shown: without user, password, query and fragment.

    An invalid one is not shown at all, as it is unclear where a password in it ends.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return SafeText("an invalid URL")
    return clean(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/"))


_REFUSALS = {403: "forbids the query (403)", 429: "asks for fewer requests (429)"}
_LOGINS = {
    "Prometheus": "token_file, token_command, user and password_file, GPUDASH_PROM_TOKEN",
    "exporter": "[exporters] in the settings",
}


def refusal(
    response: BaseHTTPResponse,
    body: bytes,
    what: str,
    proxy: SplitResult | None,
    *,
    has_login: bool,
    withheld: str | None,
) -> PrometheusError:
    """Return the meaning of an answer without the requested data; it may come from the proxy.

    `withheld` is why configured credentials were not sent.
    """
    status = response.status
    if status == 407 and proxy is not None:
        return PrometheusError(_proxy_refusal(proxy, "407"), status)
    reason = _reason(body)
    if 300 <= status < 400:
        target = public_url(response.headers.get("Location", "")).partition("/api/v1/")[0]
        text = f"redirects to {target}: not followed, give the URL of the Prometheus itself"
    elif status == 401 and b"no org id" in body:
        text = "needs a tenant (401 no org id): set X-Scope-OrgID among the headers"
    elif status == 401:
        problem = "refuses the token or password (401)" if has_login else "needs a login (401)"
        text = problem if withheld else f"{problem}; see {_LOGINS[what]}"
    elif reason is not None:
        text = f"{reason} ({status})"
    elif status == 404 or b"unsupported path" in body:
        text = f"no {what} here ({status}): is a part of the path missing?"
    elif status == 200 or (b"<html" in body[:1000].lower() and status not in _REFUSALS):
        text = f"answers with a web page, such as a login page, not with data ({status})"
    else:
        text = _REFUSALS.get(status, f"answers {status} {response.reason}") + _plain(response, body)
    if withheld is not None and status <= 403:
        text = f"{text}; {withheld}"
    if proxy is not None:
        text = _through(proxy, text)
    return PrometheusError(text, status)


class _Fault(Struct, rename="camel"):
    """Prometheus' own error format."""

    error: str
    error_type: str = ""


def _reason(body: bytes) -> str | None:
    try:
        fault = json.decode(body, type=_Fault)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # VictoriaMetrics repeats the status in `errorType`.
    kind = "" if fault.error_type.isdecimal() else fault.error_type
    return f"{kind}: {fault.error}" if kind else fault.error


def _plain(response: BaseHTTPResponse, body: bytes) -> str:
    """Return ": " and a server's plain text; empty if that is only its status."""
    if not response.headers.get("Content-Type", "").startswith("text/plain"):
        return ""
    text, reason = body[:_PLAIN_BYTES].decode("utf-8", "replace").strip(), response.reason
    return "" if text in ("", reason, f"{response.status} {reason}".strip()) else f": {text}"


def shortened(text: str) -> SafeText:
    """Return one line without the long queries that servers repeat before the reason."""
    text = _LONG_QUOTE.sub('"…"', text)
    if len(text) > MESSAGE_LENGTH:
        half = (MESSAGE_LENGTH - 3) // 2
        text = f"{text[:half]} … {text[-half:]}"
    return clean(text, MESSAGE_LENGTH)


def _through(proxy: SplitResult, text: str) -> str:
    return f"through the proxy {public_url(proxy.geturl())}: {text}"


def _proxy_refusal(proxy: SplitResult, reason: str) -> str:
    """Return the meaning of a proxy's answer that refuses a connection."""
    name = public_url(proxy.geturl())
    if "407" not in reason:
        return f"the proxy {name} refuses the connection: {reason}"
    verb = "needs a login" if proxy.username is None else "refuses the login"
    return f"the proxy {name} {verb} (407)"


def unwrapped(error: Exception) -> Exception:
    """Return the error that urllib3 has wrapped, as a cause or an argument, without its frames.

    These refer to it in turn, which only the garbage collector would undo, if it runs.
    """
    error.__traceback__ = None
    while inner := [each for each in (error.__cause__, *error.args) if isinstance(each, Exception)]:
        error = inner[0]
        error.__traceback__ = None
    return error


def failure(error: Exception, address: ServerUrl, withheld: str | None) -> PrometheusError:
    """Return why there was no complete answer of a server, or of the proxy before it.

    `withheld` is as for `refusal`.
    """
    if (proxy := address.proxy) is None:
        text = _failure_text(error, address.host, address.port)
    elif reason := str(error).partition("Tunnel connection failed: ")[2]:
        text = _proxy_refusal(proxy, reason)
    else:
        text = _through(proxy, _failure_text(error, proxy.hostname or "", proxy.port or 80))
    if withheld is not None and isinstance(error, ssl.SSLError):
        # A server may end the handshake with a client that has no certificate.
        text = f"{text}; {withheld}"
    return PrometheusError(text)


# The first matching kind of error counts.
_FAILURES: tuple[tuple[Any, str], ...] = (
    ((TimeoutError, ReadTimeoutError), "no whole answer in time"),
    (gaierror, "cannot resolve {host}: {why}"),
    ((UnicodeError, LocationParseError), "cannot resolve {host}: not a host name"),
    (
        ssl.SSLCertVerificationError,
        "its certificate is not valid: {error.verify_message}; see ca_file",
    ),
    (ssl.SSLError, "TLS failed: {why}"),
    (ConnectionRefusedError, "refuses connections on port {port}"),
    ((zlib.error, BadGzipFile), "the answer is no valid gzip"),
    ((EOFError, IncompleteRead), "the answer is cut off"),
    (ConnectionError, "closed the connection without an answer"),
    (OSError, "{why}"),
    (Exception, "the answer is no valid HTTP or cut off ({name})"),
)


def _failure_text(error: Exception, host: str, port: int) -> str:
    name = type(error).__name__
    why = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error) or name
    text = next(text for kind, text in _FAILURES if isinstance(error, kind))
    return text.format(error=error, host=host, port=port, why=why, name=name)
