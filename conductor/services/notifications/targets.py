"""Targets of users' webhooks: only public addresses, and none that only this machine or its network can reach.

All requests that users of projects can cause start here. The connection uses the address that was checked, so a name
that resolves differently a moment later has no effect. Redirects are not followed.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from conductor.core.errors import Invalid
from conductor.core.ip_addresses import Address, is_public
from conductor.core.notification_sink import SinkFailed
from conductor.core.phrases import phrase

LONGEST_URL = 1000
SCHEMES = ("https", "http")
FIELD = "url"
REFUSED = "leads into a private network, which subscriptions must not reach"


def require_url(text: str) -> SplitResult:
    """Return the parts of a target's URL. Raises Invalid for another kind of URL, or one of a private address."""
    try:
        parts = urlsplit(text)
        has_place = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_place, parts = False, urlsplit("")
    is_plain = len(text) <= LONGEST_URL and text.isascii() and text.isprintable() and " " not in text
    if parts.scheme not in SCHEMES or not has_place or not is_plain:
        text = phrase(
            "Enter a URL such as https://hooks.example.org/novella, of at most %(longest)s plain characters.",
            longest=LONGEST_URL,
        )
        raise Invalid(text, field=FIELD)
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise Invalid(
            phrase("Enter a URL without a user, a password or a fragment. Messages are signed instead."), field=FIELD
        )
    literal = _literal(parts.hostname or "")
    if (literal is not None and not is_allowed(literal)) or _is_local_name(parts.hostname or ""):
        raise Invalid(
            phrase("Enter a URL of a public host. Subscriptions must not reach private networks."), field=FIELD
        )
    return parts


def shown(parts: SplitResult) -> str:
    """Return a URL without its path and query, which may be its only secret."""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}/…"[:255]


def is_allowed(address: Address) -> bool:
    """Whether subscriptions may be delivered to this address."""
    return settings.NOVELLA_NOTIFICATION_PRIVATE_TARGETS or is_public(address)


def connection(url: str, timeout: float, *, is_guarded: bool) -> http.client.HTTPConnection:
    """Return a connection to the URL's server, not yet open.

    A guarded connection opens only to allowed addresses. For others it raises SinkFailed.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    made: http.client.HTTPConnection
    if parts.scheme == "https":
        made = http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=ssl.create_default_context())
    else:
        made = http.client.HTTPConnection(host, parts.port, timeout=timeout)
    if is_guarded:
        # How the connection opens its socket; TLS still checks the certificate against the name.
        vars(made)["_create_connection"] = _guarded
    return made


def _guarded(place: tuple[str, int], *args: Any, **kwargs: Any) -> socket.socket:
    host, port = place
    found = resolve(host, port)
    if not found or not all(is_allowed(address) for address in found):
        raise SinkFailed(f"the target {REFUSED}" if found else "the target's name leads nowhere")
    connect: Callable[..., socket.socket] = socket.create_connection
    return connect((str(found[0]), port), *args, **kwargs)


def resolve(host: str, port: int) -> list[Address]:
    """Return every address of a name, the preferred one first."""
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [ipaddress.ip_address(str(answer[4][0]).partition("%")[0]) for answer in answers]


def _literal(host: str) -> Address | None:
    """Return the IP address that a host is written as, also in old forms that resolvers know (127.1, 0x7f000001)."""
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


def _is_local_name(host: str) -> bool:
    name = host.rstrip(".").lower()
    is_local = name == "localhost" or name.endswith((".localhost", ".local", ".internal"))
    return is_local and not settings.NOVELLA_NOTIFICATION_PRIVATE_TARGETS
