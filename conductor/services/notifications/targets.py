"""Where the webhooks of people may go: to the world, and not to what only this machine or its network can reach.

Every request that a user of a project can cause goes out from here. The address that was checked is the one that is
connected to: a name that leads elsewhere a moment later gains nothing. Redirects are not followed.
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

LONGEST_URL = 1000
SCHEMES = ("https", "http")
FIELD = "url"
REFUSED = "leads into a private network, which subscriptions must not reach"


def require_url(text: str) -> SplitResult:
    """The parts of a target's URL. Raises Invalid for what is no URL of a web server, or names a private address."""
    try:
        parts = urlsplit(text)
        has_place = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_place, parts = False, urlsplit("")
    is_plain = len(text) <= LONGEST_URL and text.isascii() and text.isprintable() and " " not in text
    if parts.scheme not in SCHEMES or not has_place or not is_plain:
        fix = f"such as https://hooks.example.org/novella, of at most {LONGEST_URL} plain characters"
        raise Invalid(f"url is the address of a web server, {fix}.", field=FIELD)
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise Invalid("url holds neither a user nor a password nor a fragment: requests are signed.", field=FIELD)
    literal = _literal(parts.hostname or "")
    if (literal is not None and not is_allowed(literal)) or _is_local_name(parts.hostname or ""):
        raise Invalid(f"url {REFUSED}; name a public host.", field=FIELD)
    return parts


def shown(parts: SplitResult) -> str:
    """What may be shown of a URL: its path and query may be all that guards it."""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}/…"[:255]


def is_allowed(address: Address) -> bool:
    """Whether a subscription may be delivered to this address."""
    return settings.NOVELLA_NOTIFICATION_PRIVATE_TARGETS or is_public(address)


def connection(url: str, timeout: float, *, is_guarded: bool) -> http.client.HTTPConnection:
    """A connection to the URL's server, not yet open. `is_guarded` ones open to allowed addresses alone: SinkFailed."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    made: http.client.HTTPConnection
    if parts.scheme == "https":
        made = http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=ssl.create_default_context())
    else:
        made = http.client.HTTPConnection(host, parts.port, timeout=timeout)
    if is_guarded:
        # How the connection opens its socket; TLS goes on to check the certificate against the name.
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
    """Every address of a name, the preferred one first."""
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [ipaddress.ip_address(str(answer[4][0]).partition("%")[0]) for answer in answers]


def _literal(host: str) -> Address | None:
    """The address that a host spells, also in the old ways that resolvers know (127.1, 0x7f000001)."""
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
