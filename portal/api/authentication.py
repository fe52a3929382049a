"""Authentication by X-Auth-Token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from conductor.core.context import RequestContext
from conductor.core.errors import NotAuthenticated
from conductor.identity import access_rules, tokens
from portal.api.roots import service_of
from portal.request_ids import request_id_of

if TYPE_CHECKING:
    from conductor.identity.models import AccessRule, User

HEADER = "X-Auth-Token"
# Service types by which an access rule may name the service at a root.
_TYPES = {"volume": frozenset({"volumev3", "volume", "block-storage", "block-store"})}


def _heed(rules: Sequence[AccessRule], request: HttpRequest) -> None:
    """Apply an application credential's access rules. Raises NotAuthenticated for a request that they do not permit."""
    root, _, rest = request.path_info.lstrip("/").partition("/")
    services = _TYPES.get(root, frozenset({service_of(request.path_info) or ""}))
    if not access_rules.allow(rules, services, str(request.method), f"/{rest}"):
        raise NotAuthenticated(
            f"The access rules of this application credential do not permit {request.method} /{rest[:200]}."
        )


class TokenAuthentication(BaseAuthentication):
    """Authenticates a request by its token.

    Returns (user row, RequestContext), or None when there is no token at all.

    Any other authentication class for an ApiView returns the same pair.
    """

    def authenticate(self, request: Request | HttpRequest) -> tuple[User, RequestContext] | None:
        """Raises NotAuthenticated for a token that is unknown, expired or revoked."""
        http_request = request._request if isinstance(request, Request) else request
        text = request.headers.get(HEADER)
        if not text:
            return None
        granted = tokens.validate(text)
        if granted.access_rules is not None:
            _heed(granted.access_rules, http_request)
        return granted.user, granted.context(request_id_of(http_request))

    def authenticate_header(self, request: Request) -> str:
        return f'Keystone uri="{request.scheme}://{request.get_host()}/identity"'
