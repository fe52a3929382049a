"""Callers of requests, as far as they are known before authentication: for dividing workers, never for authorization.

A worker that has authenticated a request reports its caller (`report`). From then on the request's proof, a token or a
session, stands for that caller, and its address is known. A request with a proof that no worker has seen yet belongs to
its address, or, from an unknown address, to one caller for all anonymous requests.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest, parse_cookie

from conductor.core import request_priority

Scope = MutableMapping[str, Any]

ANONYMOUS = "anonymous"
MOST_REMEMBERED = 8192
_SLOT = "novella.caller"  # in an ASGI scope: the slot for a worker's report


@dataclass(frozen=True)
class Caller:
    """A caller. Workers are divided by `share`: "project:<id>", "address:<ip>" or ANONYMOUS; `user_id` may be "".

    Within a share its members take turns: users, or the addresses of anonymous requests.
    """

    share: str
    user_id: str = ""
    address: str = ""

    @property
    def member(self) -> str:
        return self.user_id or self.address


@dataclass
class _Slot:
    caller: Caller | None = None
    seconds: float | None = None


class Callers:
    """Callers of earlier requests. For the event loop's thread only."""

    def __init__(self) -> None:
        self._of_proofs: OrderedDict[bytes, Caller] = OrderedDict()
        self._addresses: OrderedDict[str, None] = OrderedDict()

    def known(self, scope: Scope) -> Caller | None:
        """Return the caller whose proof a worker has accepted before. It may have been revoked since."""
        proof = _proof_of(scope)
        return self._of_proofs.get(proof) if proof else None

    def of(self, scope: Scope) -> Caller:
        """Return the caller whose share a request counts against."""
        known = self.known(scope)
        if known is not None:
            return known
        address = _address_of(scope)
        return Caller(f"address:{address}" if address in self._addresses else ANONYMOUS, address=address)

    def opened(self, scope: Scope) -> Scope:
        """Return the scope with a slot for `report`."""
        return {**scope, _SLOT: _Slot()}

    def learn(self, scope: Scope) -> float | None:
        """Remember the report on a request that `opened` has passed on.

        Returns the processor time of the request, in seconds; None if it was not measured.
        """
        slot = scope[_SLOT]
        if slot.caller is not None:
            self.remember(scope, slot.caller)
        return slot.seconds  # type: ignore[no-any-return]

    def remember(self, scope: Scope, caller: Caller) -> None:
        """Remember that a request was authenticated as `caller`."""
        _remember(self._addresses, _address_of(scope), None)
        proof = _proof_of(scope)
        if proof:
            _remember(self._of_proofs, proof, caller)


def share_of(project_id: str, user_id: str) -> str:
    """Return the project's share, or the user's own for a request without a project."""
    return f"project:{project_id or user_id}"


def report(request: HttpRequest, project_id: str, user_id: str) -> None:
    """Report the authenticated caller of a request; `project_id` may be ""."""
    slot = request.META.get("asgi.scope", {}).get(_SLOT)
    if slot is not None:
        slot.caller = Caller(share_of(project_id, user_id), user_id)


def measured(application: Any) -> Any:
    """Wrap the WSGI application: measures processor time, and prefers requests' writes to those of background work."""

    def called(environ: Any, start_response: Any) -> Any:
        began = time.thread_time()
        try:
            with request_priority.for_request():
                return application(environ, start_response)
        finally:
            slot = environ.get("asgi.scope", {}).get(_SLOT)
            if slot is not None:
                slot.seconds = time.thread_time() - began

    return called


def _remember(kept: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > MOST_REMEMBERED:
        kept.popitem(last=False)


def _proof_of(scope: Scope) -> bytes:
    """Return a digest of the token, or else of the session; b"" for a request without either."""
    headers = dict(scope["headers"])
    token = headers.get(b"x-auth-token", b"")
    if not token and b"cookie" in headers:
        cookies = parse_cookie(headers[b"cookie"].decode("latin1"))
        token = cookies.get(settings.SESSION_COOKIE_NAME, "").encode("latin1", "replace")
    return hashlib.blake2b(token, digest_size=16).digest() if token else b""


def _address_of(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])
