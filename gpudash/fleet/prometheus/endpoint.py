"""A server to ask: where its URL leads, and which credentials may be sent there.

A credential belongs to an origin: scheme, host and port. It is sent only to the URLs configured
beside it and, unless the settings allow more, unencrypted only to this machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import field
from msgspec.structs import replace

from gpudash.config.settings import Credentials
from gpudash.fleet.sources import SOURCES
from gpudash.model.errors import UsageError
from gpudash.model.text import clean

TOKEN = "GPUDASH_PROM_TOKEN"
"""The environment variable with a token for every Prometheus."""

_PORTS = {"http": 80, "https": 443}
_PUBLIC = frozenset({"ca_file", "plain_http"})
_SECRET = tuple(name for name in Credentials.__struct_fields__ if name not in _PUBLIC)
_FILES = tuple(name for name in Credentials.__struct_fields__ if name.endswith("_file"))
_OTHERS = "the credentials in the settings are for other URLs: add this one beside them"
_UNENCRYPTED = (
    "credentials are not sent over plain http to another machine: use https, or see plain_http "
    "in the settings"
)


class Endpoint(Credentials, frozen=True, kw_only=True):
    """How to reach a Prometheus, and the names of its labels."""

    url: str
    """Includes the path prefix, if any; a user and password in it are used."""
    token: str | None = None
    """Used if neither a command nor a file provides one."""
    withheld: str | None = None
    """Why configured credentials are withheld, shown if the server refuses; None for none."""
    host_label: str | None = None
    """The label that names a host, None to detect it."""
    metrics: dict[str, str] = field(default_factory=dict)
    """The server's names for exporters' metrics that recording rules have renamed."""
    look_back_days: float = 1.0
    """How long something that has vanished is reported missing."""


class ServerUrl(NamedTuple):
    """Where to connect to, and the path to request there."""

    is_tls: bool
    host: str
    port: int
    path: str
    query: str
    proxy: SplitResult | None

    @property
    def origin(self) -> str:
        """The scheme, the host and the port, as a URL without a path."""
        name = f"[{self.host}]" if ":" in self.host else self.host.encode("idna").decode()
        return f"http{'s' * self.is_tls}://{name}:{self.port}"

    @property
    def is_exposed(self) -> bool:
        """Whether requests go to another machine unencrypted."""
        hosts = [self.host] if self.proxy is None else [self.host, self.proxy.hostname or ""]
        return not self.is_tls and not all(map(_is_loopback, hosts))


def endpoint(
    url: str, settings: Credentials, configured: Iterable[str], *, token: str | None = None
) -> Endpoint:
    """Return how to reach a URL, with the credentials of the settings if they are of its origin.

    `configured` are the URLs beside these; `token` is independent of them and may go to any URL.
    """
    given = {name: getattr(settings, name) for name in Credentials.__struct_fields__}
    for name in _FILES:
        given[name] = given[name] and os.path.expanduser(given[name])
    found = Endpoint(url=url, token=token, **given)
    origin = _origin(url)
    if origin is not None and origin in map(_origin, configured):
        return found
    bare = replace(_bare(found), token=token)
    return replace(bare, withheld=_OTHERS) if has_credentials(settings) else bare


def urls(
    option: str,
    given: Iterable[str],
    known: Iterable[str],
    section: str,
    *,
    separator: str | None = None,
) -> tuple[str, ...]:
    """Return the given URLs, else those of the environment, else of the settings.

    They may be divided by `separator`. Raises UsageError for invalid URLs and if there are none.
    """
    variable = SOURCES[option].variable or ""
    words = [*filter(None, given)] or os.environ.get(variable, "").split() or known
    found = [url for word in words for url in word.split(separator) if url]
    if not found:
        places = f"here, in {variable} or in the settings [{section}]"
        raise UsageError(f"--{option} needs a URL, {places}")
    for url in found:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"--{option} {url!r}: expected a URL such as http://127.0.0.1:9090")
    return tuple(dict.fromkeys(found))


def permitted(endpoint: Endpoint, address: ServerUrl, *, has_login: bool) -> Endpoint:
    """Return an endpoint without its credentials, and the reason, if they would be exposed.

    `has_login` says whether its URL has a user and a password.
    """
    has_any = has_login or endpoint.token is not None or has_credentials(endpoint)
    if endpoint.plain_http or not address.is_exposed or not has_any:
        return endpoint
    return replace(_bare(endpoint), withheld=_UNENCRYPTED)


def has_credentials(settings: Credentials) -> bool:
    """Whether there is a secret that only its own servers may see."""
    return any(getattr(settings, name) for name in _SECRET)


def _bare(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint without credentials, but with the authorities that it trusts."""
    none = Credentials()
    return replace(endpoint, token=None, **{name: getattr(none, name) for name in _SECRET})


def _origin(url: str) -> tuple[str, str, int] | None:
    """Return the scheme, the host and the port of a URL, None for an invalid one."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not host:
        return None
    return parts.scheme, host, port or _PORTS[parts.scheme]


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def parse(url: str) -> tuple[ServerUrl, tuple[str, str] | None]:
    """Return where a URL leads, and its user and password; raises UsageError."""
    from urllib.request import getproxies

    origin = _origin(url)
    parts = urlsplit(url if origin is not None else "")
    can_be_sent = url.isprintable() and " " not in url and (parts.path + parts.query).isascii()
    if origin is None or not can_be_sent:
        shown = clean(url.rpartition("@")[2], 100)
        raise UsageError(f"invalid URL {shown!r}: expected http://HOST[:PORT][/PREFIX] or https://")
    scheme, host, port = origin
    proxy = getproxies().get(scheme)
    through = _proxy(proxy) if proxy and not _is_exempt(host, port) else None
    address = ServerUrl(scheme == "https", host, port, parts.path.rstrip("/"), parts.query, through)
    if parts.username is None:
        return address, None
    return address, (unquote(parts.username), unquote(parts.password or ""))


def _is_exempt(host: str, port: int) -> bool:
    """Return whether no_proxy has a host: by name, with a port, or by network."""
    from urllib.request import getproxies, proxy_bypass

    if proxy_bypass(f"{host}:{port}"):
        return True
    for name in getproxies().get("no", "").split(","):
        with suppress(ValueError):
            if ip_address(host) in ip_network(name.strip(), strict=False):
                return True
    return False


def _proxy(url: str) -> SplitResult:
    """Return the parts of a proxy's URL; raises UsageError for an unusable one."""
    from urllib3.util import parse_url

    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host = parse_url(parts.geturl()).host
        is_usable = parts.scheme == "http" and bool(host) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        scheme, separator, rest = url.rpartition("://")
        shown = clean(f"{scheme}{separator}{rest.rpartition('@')[2]}", 100)
        raise UsageError(f"cannot use the proxy {shown!r}: expected http://HOST:PORT; see no_proxy")
    return parts
