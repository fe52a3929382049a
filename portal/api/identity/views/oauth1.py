"""Consumers and what users let them do: OS-OAUTH1."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode
from urllib.request import parse_http_list, parse_keqv_list

from django.http import HttpResponse
from rest_framework.response import Response

from conductor.core.errors import Invalid, NotFound
from conductor.identity import oauth1
from conductor.identity.models import AccessToken, Consumer, Role
from conductor.identity.signatures import Signed
from portal.api.base import ApiRequest
from portal.api.identity.schemas import oauth1 as schemas
from portal.api.identity.serializers import resources
from portal.api.identity.serializers.tokens import timestamp
from portal.api.identity.view import IdentityView
from portal.api.links import absolute
from portal.api.validation import validate

FORM = "application/x-www-form-urlencoded"
PROJECT = "Requested-Project-Id"
_SCHEME = "oauth "
_LONGEST = 8192


def signed_of(request: ApiRequest) -> Signed:
    """What the header Authorization says, with the parameters of the address. Raises Invalid."""
    text = request.headers.get("Authorization", "")
    if not text.lower().startswith(_SCHEME) or len(text) > _LONGEST:
        raise Invalid("The header Authorization must hold the parameters of OAuth 1.0.", field="Authorization")
    try:
        said = parse_keqv_list(parse_http_list(text[len(_SCHEME) :]))
    except (IndexError, ValueError):
        raise Invalid(
            "The header Authorization cannot be read: it is no list of OAuth.", field="Authorization"
        ) from None
    header = [(unquote(name), unquote(value)) for name, value in said.items()]
    query = parse_qsl(request.META.get("QUERY_STRING", ""), keep_blank_values=True)
    return Signed(str(request.method), absolute(request, request.path), [*header, *query])


class Consumers(IdentityView):
    """/v3/OS-OAUTH1/consumers."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_consumers")
        return Response(resources.listing(request, "consumers", oauth1.consumers(), _consumer))

    def post(self, request: ApiRequest) -> Response:
        self.authorize("identity:change_consumers")
        given = dict(validate(request.data, schemas.CREATE_CONSUMER)["consumer"])
        made, secret = oauth1.create_consumer(given.pop("description", None), given)
        return Response({"consumer": {**_consumer(request, made), "secret": secret}}, status=201)


class ConsumerById(IdentityView):
    """/v3/OS-OAUTH1/consumers/{id}."""

    def get(self, request: ApiRequest, consumer_id: str) -> Response:
        self.authorize("identity:list_consumers")
        return Response({"consumer": _consumer(request, oauth1.consumer(consumer_id))})

    def patch(self, request: ApiRequest, consumer_id: str) -> Response:
        self.authorize("identity:change_consumers")
        oauth1.consumer(consumer_id)  # an unknown one is told before a wrong body
        given = validate(request.data, schemas.CHANGE_CONSUMER)["consumer"]
        return Response({"consumer": _consumer(request, oauth1.update_consumer(consumer_id, given))})

    def delete(self, request: ApiRequest, consumer_id: str) -> Response:
        self.authorize("identity:change_consumers")
        oauth1.delete_consumer(consumer_id)
        return Response(status=204)


class RequestToken(IdentityView):
    """/v3/OS-OAUTH1/request_token: asked by a consumer, with its signature alone."""

    public_methods = frozenset({"POST"})

    def post(self, request: ApiRequest) -> HttpResponse:
        signed = signed_of(request)
        project_id = request.headers.get(PROJECT, "")
        if not project_id:
            raise Invalid(f"The header {PROJECT} is missing: name the project that access is asked for.", field=PROJECT)
        row, secret = oauth1.ask(signed, project_id)
        return _form(oauth_token=row.id, oauth_token_secret=secret, oauth_expires_at=timestamp(row.expires_at))


class Authorize(IdentityView):
    """/v3/OS-OAUTH1/authorize/{request token}: by the user whose rights are asked for."""

    def put(self, request: ApiRequest, request_id: str) -> Response:
        self.require_self("identity:authorize_request_token", request.context.user_id)
        wanted = validate(request.data, schemas.AUTHORIZE)["roles"]
        return Response({"token": {"oauth_verifier": oauth1.authorize(self.granted, request_id, wanted)}})


class Exchange(IdentityView):
    """/v3/OS-OAUTH1/access_token: asked by a consumer, with its signature and that of the request token."""

    public_methods = frozenset({"POST"})

    def post(self, request: ApiRequest) -> HttpResponse:
        row, secret = oauth1.exchange(signed_of(request))
        return _form(oauth_token=row.id, oauth_token_secret=secret, oauth_expires_at=timestamp(row.expires_at))


class Accesses(IdentityView):
    """/v3/users/{id}/OS-OAUTH1/access_tokens."""

    def get(self, request: ApiRequest, user_id: str) -> Response:
        self.authorize("identity:list_access_tokens", target_user_id=user_id)
        return Response(resources.listing(request, "access_tokens", oauth1.accesses(user_id), _access))


class AccessById(IdentityView):
    """/v3/users/{id}/OS-OAUTH1/access_tokens/{id}."""

    def get(self, request: ApiRequest, user_id: str, access_id: str) -> Response:
        self.authorize("identity:list_access_tokens", target_user_id=user_id)
        return Response({"access_token": _access(request, oauth1.access(user_id, access_id))})

    def delete(self, request: ApiRequest, user_id: str, access_id: str) -> Response:
        self.authorize("identity:delete_access_token", target_user_id=user_id)
        oauth1.end_access(self.granted, user_id, access_id)
        return Response(status=204)


class AccessRoles(IdentityView):
    """/v3/users/{id}/OS-OAUTH1/access_tokens/{id}/roles."""

    def get(self, request: ApiRequest, user_id: str, access_id: str) -> Response:
        return Response(resources.listing(request, "roles", self.roles(user_id, access_id), resources.role_reference))

    def roles(self, user_id: str, access_id: str) -> list[Role]:
        self.authorize("identity:list_access_tokens", target_user_id=user_id)
        return list(oauth1.access(user_id, access_id).roles.all())


class AccessRole(AccessRoles):
    """/v3/users/{id}/OS-OAUTH1/access_tokens/{id}/roles/{id}."""

    def get(self, request: ApiRequest, user_id: str, access_id: str, role_id: str) -> Response:  # type: ignore[override]
        for role in self.roles(user_id, access_id):
            if role.id == role_id:
                return Response({"role": resources.role_reference(request, role)})
        raise NotFound(f"Could not find role: {role_id[:64]}.")


def _consumer(request: ApiRequest, row: Consumer) -> dict[str, Any]:
    links = {"self": absolute(request, f"/identity/v3/OS-OAUTH1/consumers/{row.id}")}
    return {**row.extra, "id": row.id, "description": row.description, "links": links}


def _access(request: ApiRequest, row: AccessToken) -> dict[str, Any]:
    path = absolute(request, f"/identity/v3/users/{row.user.id}/OS-OAUTH1/access_tokens/{row.id}")
    return {
        "id": row.id,
        "consumer_id": row.consumer.id,
        "project_id": row.project.id,
        "authorizing_user_id": row.user.id,
        "expires_at": timestamp(row.expires_at),
        "links": {"self": path, "roles": f"{path}/roles"},
    }


def _form(**values: str) -> HttpResponse:
    return HttpResponse(urlencode(values), content_type=FORM, status=201, headers={"Cache-Control": "no-store"})
