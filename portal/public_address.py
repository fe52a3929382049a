"""Determines the client, scheme and host of a request behind proxies.

    client ──▶ proxies that the operator trusts ──▶ PublicAddress ──▶ the application

`X-Forwarded-For`, `-Proto` and `-Host` are believed only from addresses in NOVELLA_TRUSTED_PROXIES. Code behind this
(audit records, rate limits, sessions, links) reads the connection's own fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.http.request import split_domain_port, validate_host

from conductor.core.ip_addresses import Address, Network, read_address
from portal.request_limits import Application, Receive, RequestRefused, Scope, Send, refuse

HEALTH = ("/healthz", "/readyz")  # requested by address, and without a link in their responses
SOCKET_SCHEMES = {"http": "ws", "https": "wss"}
LONGEST_SHOWN = 100


class PublicAddress:
    """ASGI middleware; `allowed_hosts` is read with each request, as in Django.

    With a public URL every request for an allowed host counts as sent to that URL, so all links lead there.
    """

    def __init__(
        self,
        application: Application,
        *,
        allowed_hosts: Sequence[str],
        trusted_proxies: Sequence[Network] = (),
        public_url: str = "",
    ) -> None:
        self.application = application
        self._allowed_hosts = allowed_hosts
        self._trusted = tuple(trusted_proxies)
        self._public = urlsplit(public_url) if public_url else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope = self._from_proxies(scope)
        host = _host_of(scope)
        is_allowed = self._is_allowed(host)
        if host and not is_allowed and scope["type"] == "http" and scope["path"] not in HEALTH:
            await refuse(scope, send, _unknown_host(host))
            await send({"type": "http.response.body", "body": b""})
            return
        if self._public is not None and is_allowed:
            scope = _sent_to(scope, self._public.scheme, self._public.netloc)
        await self.application(scope, receive, send)

    def _from_proxies(self, scope: Scope) -> Scope:
        """Return the request as the outermost trusted proxy received it."""
        peer = read_address(str((scope.get("client") or ("",))[0]))
        if peer is None:
            return scope
        client, port = peer, int(scope["client"][1] or 0)
        for text in reversed(_values(scope, b"x-forwarded-for")):
            if not self._is_trusted(client):
                break
            found = read_address(text)
            if found is None:
                break
            client, port = found, 0
        if self._is_trusted(peer):
            proto = (_values(scope, b"x-forwarded-proto") or [""])[-1].lower()
            host = (_values(scope, b"x-forwarded-host") or [""])[-1]
            scope = _sent_to(scope, proto, host)
        return {**scope, "client": (str(client), port)}

    def _is_trusted(self, address: Address) -> bool:
        return any(address in network for network in self._trusted)

    def _is_allowed(self, host: str) -> bool:
        domain, _ = split_domain_port(host)
        return bool(domain) and validate_host(domain, self._allowed_hosts)


def _host_of(scope: Scope) -> str:
    """Return the header Host; "" for none or several, which other code refuses."""
    found = [value for name, value in scope["headers"] if name == b"host"]
    return found[0].decode("latin-1") if len(found) == 1 else ""


def _values(scope: Scope, name: bytes) -> list[str]:
    """Return the comma-separated values of a header, from all lines with its name, in order."""
    lines = [value.decode("latin-1") for header, value in scope["headers"] if header == name]
    return [value for line in lines for part in line.split(",") if (value := part.strip())]


def _sent_to(scope: Scope, scheme: str, host: str) -> Scope:
    """Return the request with another scheme ("http" or "https") and host, where they are given."""
    changed: dict[str, Any] = dict(scope)
    if scheme in SOCKET_SCHEMES:
        changed["scheme"] = SOCKET_SCHEMES[scheme] if scope["type"] == "websocket" else scheme
    if host:
        others = [pair for pair in scope["headers"] if pair[0] != b"host"]
        changed["headers"] = [(b"host", host.encode("latin-1")), *others]
    return changed


def _unknown_host(host: str) -> RequestRefused:
    return RequestRefused(
        400,
        f'This cloud does not answer to the name "{host[:LONGEST_SHOWN]}". Its operator can allow the name: set '
        "NOVELLA_PUBLIC_URL to the URL that people use, or add the name to NOVELLA_ALLOWED_HOSTS.",
    )
