"""X-Auth-Token → RequestContext."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from conductor.core.context import RequestContext
from conductor.identity import tokens
from portal.request_ids import request_id_of

if TYPE_CHECKING:
    from conductor.identity.models import User

HEADER = "X-Auth-Token"


class TokenAuthentication(BaseAuthentication):
    """Answers (user row, RequestContext), or None when there is no token at all.

    Any other authentication class for an ApiView answers the same pair.
    """

    def authenticate(self, request: Request | HttpRequest) -> tuple[User, RequestContext] | None:
        """Raises NotAuthenticated for a token that is unknown, expired or revoked."""
        text = request.headers.get(HEADER)
        if not text:
            return None
        granted = tokens.validate(text)
        http_request = request._request if isinstance(request, Request) else request
        return granted.user, granted.context(request_id_of(http_request))

    def authenticate_header(self, request: Request) -> str:
        return f'Keystone uri="{request.scheme}://{request.get_host()}/identity"'
