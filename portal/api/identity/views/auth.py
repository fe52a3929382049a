"""Tokens: log in, validate, revoke; and what a token opens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid, NotAuthenticated, NotFound
from conductor.identity import domains, logins, projects, tokens
from conductor.identity.logins import Login, Reference
from portal.api.base import ApiRequest
from portal.api.catalog import catalog
from portal.api.identity.schemas.auth import LOG_IN
from portal.api.identity.serializers import resources
from portal.api.identity.serializers.tokens import token_body
from portal.api.identity.view import IdentityView
from portal.api.links import base_url
from portal.api.validation import validate

SUBJECT = "X-Subject-Token"


def _reference(given: Mapping[str, Any]) -> Reference:
    domain = given.get("domain", {})
    return Reference(
        id=given.get("id", ""),
        name=given.get("name", ""),
        domain_id=domain.get("id", ""),
        domain_name=domain.get("name", ""),
    )


def login_of(body: Any) -> Login:
    """The login in a request's body. Raises Invalid for a body that does not fit."""
    auth = validate(body, LOG_IN)["auth"]
    identity, scope = auth["identity"], auth.get("scope", {})
    for method in identity["methods"]:
        if method not in identity:
            raise Invalid(f"Invalid input for field/attribute auth.identity. '{method}' is a required property.")
    scope = {} if scope == "unscoped" else scope
    user = identity["password"]["user"] if "password" in identity["methods"] else None
    return Login(
        user=_reference(user) if user is not None else None,
        password=user["password"] if user is not None else "",
        token=identity["token"]["id"] if "token" in identity["methods"] else None,
        project=_reference(scope["project"]) if "project" in scope else None,
        has_unknown_scope="system" in scope or "domain" in scope,
    )


class Tokens(IdentityView):
    """/v3/auth/tokens."""

    public_methods = frozenset({"POST"})

    def post(self, request: ApiRequest) -> Response:
        text, granted = logins.log_in(login_of(request.data))
        return self._answer(request, text, granted, status=201)

    def get(self, request: ApiRequest) -> Response:
        text, granted = self._subject(request)
        self.authorize("identity:validate_token", target_user_id=granted.user.id)
        return self._answer(request, text, granted, status=200)

    def delete(self, request: ApiRequest) -> Response:
        text, granted = self._subject(request)
        self.authorize("identity:revoke_token", target_user_id=granted.user.id)
        tokens.revoke(text)
        return Response(status=204)

    def _subject(self, request: ApiRequest) -> tuple[str, tokens.Granted]:
        text = request.headers.get(SUBJECT)
        if not text:
            raise Invalid(f"The header {SUBJECT} is missing.")
        try:
            return text, tokens.validate(text)
        except NotAuthenticated:
            raise NotFound("This token could not be found.") from None

    def _answer(self, request: ApiRequest, text: str, granted: tokens.Granted, *, status: int) -> Response:
        body = token_body(granted, base_url(request), with_catalog="nocatalog" not in request.query_params)
        return Response(
            body, status=status, headers={SUBJECT: text, "Vary": "X-Auth-Token", "Cache-Control": "no-store"}
        )


class AuthCatalog(IdentityView):
    """/v3/auth/catalog: the catalog of the caller's own token."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:get_auth_catalog")
        return Response({"catalog": catalog(base_url(request)), "links": {"self": request.build_absolute_uri()}})


class AuthProjects(IdentityView):
    """/v3/auth/projects: where the caller may log in."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:get_auth_projects")
        found = [row for row in projects.of_user(request.context.user_id) if row.is_enabled]
        return Response(resources.listing(request, "projects", found, resources.project))


class AuthDomains(IdentityView):
    """/v3/auth/domains: domains that the caller may scope to. Nobody has roles on domains."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:get_auth_domains")
        return Response(resources.listing(request, "domains", [], resources.domain))


class Domains(IdentityView):
    """/v3/domains."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_domains")
        found = domains.find(name=request.query_params.get("name"))
        return Response(resources.listing(request, "domains", found, resources.domain))


class Domain(IdentityView):
    """/v3/domains/{id}."""

    def get(self, request: ApiRequest, domain_id: str) -> Response:
        self.authorize("identity:get_domain")
        return Response({"domain": resources.domain(request, domains.get(domain_id))})
