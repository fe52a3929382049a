"""Tokens: issue, validate, revoke; and the catalog and scopes that a token gives access to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rest_framework.response import Response

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotAuthenticated, NotFound
from conductor.identity import catalog, effective, endpoint_filters, logins, tokens
from conductor.identity.logins import Login, Reference
from conductor.services.audit import audit
from portal import callers
from portal.api.base import ApiRequest
from portal.api.identity.representations import resources
from portal.api.identity.representations.catalog import for_token, narrowed
from portal.api.identity.representations.tokens import token_body
from portal.api.identity.schemas.auth import LOG_IN
from portal.api.identity.view import IdentityView
from portal.api.links import base_url
from portal.api.validation import validate
from portal.request_ids import remote_address_of, request_id_of

SUBJECT = "X-Subject-Token"


def _reference(given: Mapping[str, Any] | None) -> Reference | None:
    if given is None:
        return None
    domain = given.get("domain", {})
    return Reference(
        id=given.get("id", ""),
        name=given.get("name", ""),
        domain_id=domain.get("id", ""),
        domain_name=domain.get("name", ""),
    )


def login_of(request: ApiRequest) -> Login:
    """Parse the login in a request. Raises Invalid."""
    auth = validate(request.data, LOG_IN)["auth"]
    identity, scope = auth["identity"], auth.get("scope", {})
    for method in identity["methods"]:
        if method not in identity:
            raise Invalid(f"Invalid input for field/attribute auth.identity. '{method}' is a required property.")
    scope = {"unscoped": {}} if scope == "unscoped" else scope
    shown = {method: identity[method] for method in identity["methods"]}
    user = shown.get("password", {}).get("user")
    credential, code = shown.get("application_credential"), shown.get("totp", {}).get("user")
    return Login(
        user=_reference(user or (credential or {}).get("user")),
        password=user["password"] if user is not None else None,
        passcode=code["passcode"] if code is not None else None,
        passcode_user=_reference(code),
        token=shown.get("token", {}).get("id"),
        credential=_reference(credential),
        secret=credential["secret"] if credential is not None else "",
        project=_reference(scope.get("project")),
        domain=_reference(scope.get("domain")),
        wants_system="system" in scope,
        trust_id=scope.get("OS-TRUST:trust", {}).get("id", ""),
        wants_nothing="unscoped" in scope,
        address=remote_address_of(request._request),
    )


def catalog_of(request: ApiRequest, granted: tokens.Granted) -> list[dict[str, Any]]:
    """Return the catalog of a token, narrowed where its project has endpoint filters."""
    found = for_token(base_url(request), granted, catalog.services(), catalog.endpoints())
    project = granted.scope.project
    narrowing = endpoint_filters.narrowing(project.id) if project is not None else None
    return found if narrowing is None else narrowed(found, narrowing)


def _signed_in(request: ApiRequest, login: Login) -> tuple[str, tokens.Granted]:
    """Issue a token and record the sign-in; narrowing an earlier token is not a sign-in."""
    origin = RequestContext("", "", request_id_of(request._request), remote_address=login.address)

    def record(granted: tokens.Granted) -> None:
        if login.method:
            user = replace(origin, user_id=granted.user.id, user_name=granted.user.username)
            audit.record_sign_in(user, method=login.method)

    try:
        return logins.log_in(login, on_issue=record)
    except NotAuthenticated as error:
        if login.method:
            audit.record_sign_in(origin, method=login.method, account=login.who, error=error)
        raise


class Tokens(IdentityView):
    """/v3/auth/tokens."""

    public_methods = frozenset({"POST"})

    def post(self, request: ApiRequest) -> Response:
        text, granted = _signed_in(request, login_of(request))
        callers.report(request._request, granted.project.id if granted.project else "", granted.user.id)
        return self._answer(request, text, granted, status=201)

    def get(self, request: ApiRequest) -> Response:
        text, granted = self._subject(request, allow_expired=self.asks_for("allow_expired"))
        self.authorize("identity:validate_token", target_user_id=granted.user.id)
        return self._answer(request, text, granted, status=200)

    def delete(self, request: ApiRequest) -> Response:
        text, granted = self._subject(request)
        self.authorize("identity:revoke_token", target_user_id=granted.user.id)
        tokens.revoke(text)
        return Response(status=204)

    def _subject(self, request: ApiRequest, *, allow_expired: bool = False) -> tuple[str, tokens.Granted]:
        text = request.headers.get(SUBJECT)
        if not text:
            raise Invalid(f"The header {SUBJECT} is missing.")
        try:
            return text, tokens.validate(text, allow_expired=allow_expired)
        except NotAuthenticated:
            raise NotFound("This token could not be found.") from None

    def _answer(self, request: ApiRequest, text: str, granted: tokens.Granted, *, status: int) -> Response:
        wants_catalog = not granted.scope.is_nothing and "nocatalog" not in request.query_params
        body = token_body(granted, catalog_of(request, granted) if wants_catalog else None)
        return Response(
            body, status=status, headers={SUBJECT: text, "Vary": "X-Auth-Token", "Cache-Control": "no-store"}
        )


class AuthCatalog(IdentityView):
    """/v3/auth/catalog: the catalog of the caller's own token."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:get_auth_catalog")
        shown = catalog_of(request, self.granted)
        return Response({"catalog": shown, "links": {"self": request.build_absolute_uri()}})


class AuthProjects(IdentityView):
    """/v3/auth/projects: the projects that the caller may get a token for."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:get_auth_projects")
        found = effective.projects_of(request.context.user_id)
        is_open = [row for row in found if row.is_enabled and row.domain.is_enabled]
        return Response(resources.listing(request, "projects", is_open, resources.project))


class AuthDomains(IdentityView):
    """/v3/auth/domains: the domains that the caller may get a token for."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:get_auth_domains")
        found = [row for row in effective.domains_of(request.context.user_id) if row.is_enabled]
        return Response(resources.listing(request, "domains", found, resources.domain))


class AuthSystem(IdentityView):
    """/v3/auth/system: whether the caller may get a system-scoped token."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:get_auth_system")
        shown = [{"all": True}] if effective.is_on_system(request.context.user_id) else []
        return Response({"system": shown, "links": {"self": request.build_absolute_uri()}})
