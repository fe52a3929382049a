"""X-Auth-Token → RequestContext; and the portal's own pages, which ask for somebody who has signed in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
_SPOKEN_FOR = "novella_spoken_for"  # an attribute of a request that a page made: nothing from outside can set it
# Under which types an access rule may name the service at a root.
_TYPES = {"volume": frozenset({"volumev3", "volume", "block-storage", "block-store"})}


def _heed(rules: Sequence[AccessRule], request: HttpRequest) -> None:
    """Raises NotAuthenticated for a request that an application credential may not make."""
    root, _, rest = request.path_info.lstrip("/").partition("/")
    services = _TYPES.get(root, frozenset({service_of(request.path_info) or ""}))
    if not access_rules.allow(rules, services, str(request.method), f"/{rest}"):
        raise NotAuthenticated(
            f"The access rules of this application credential do not permit {request.method} /{rest[:200]}."
        )


def speak_for(request: HttpRequest, user: Any, context: RequestContext) -> None:
    """Let a request that the portal makes to itself be somebody's whose session was looked at this very moment."""
    setattr(request, _SPOKEN_FOR, (user, context))


def spoken_for(request: HttpRequest) -> tuple[Any, RequestContext] | None:
    """Whom a page of the portal asks for; None for every request that came from outside."""
    found: tuple[Any, RequestContext] | None = getattr(request, _SPOKEN_FOR, None)
    return found


class TokenAuthentication(BaseAuthentication):
    """Answers (user row, RequestContext), or None when there is no token at all.

    Any other authentication class for an ApiView answers the same pair.
    """

    def authenticate(self, request: Request | HttpRequest) -> tuple[User, RequestContext] | None:
        """Raises NotAuthenticated for a token that is unknown, expired or revoked."""
        http_request = request._request if isinstance(request, Request) else request
        asker = spoken_for(http_request)
        if asker is not None:
            return asker
        text = request.headers.get(HEADER)
        if not text:
            return None
        granted = tokens.validate(text)
        if granted.access_rules is not None:
            _heed(granted.access_rules, http_request)
        return granted.user, granted.context(request_id_of(http_request))

    def authenticate_header(self, request: Request) -> str:
        return f'Keystone uri="{request.scheme}://{request.get_host()}/identity"'
