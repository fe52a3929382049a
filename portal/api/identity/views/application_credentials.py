"""Application credentials of a user, and their access rules."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.identity import application_credentials as service
from portal.api.base import ApiRequest
from portal.api.identity import queries
from portal.api.identity.representations import delegation
from portal.api.identity.representations.resources import listing
from portal.api.identity.view import IdentityView

NAME = "application_credential"


class ApplicationCredentials(IdentityView):
    """/v3/users/{id}/application_credentials."""

    def get(self, request: ApiRequest, user_id: str) -> Response:
        self.authorize("identity:list_application_credentials", target_user_id=user_id)
        found, has_more = service.find(user_id, self.question(*queries.CREDENTIALS))
        shown = listing(request, f"{NAME}s", found, delegation.application_credential, has_more=has_more)
        return Response(shown)

    def post(self, request: ApiRequest, user_id: str) -> Response:
        self.require_self("identity:create_application_credential", user_id)
        created, secret = service.create(self.granted, delegation.application_credential_request(request.data))
        shown = {**delegation.application_credential(request, created), "secret": secret}
        return Response({NAME: shown}, status=201, headers={"Cache-Control": "no-store"})


class ApplicationCredential(IdentityView):
    """/v3/users/{id}/application_credentials/{id}."""

    def get(self, request: ApiRequest, user_id: str, credential_id: str) -> Response:
        self.authorize("identity:list_application_credentials", target_user_id=user_id)
        return Response({NAME: delegation.application_credential(request, service.get(user_id, credential_id))})

    def delete(self, request: ApiRequest, user_id: str, credential_id: str) -> Response:
        self.authorize("identity:delete_application_credential", target_user_id=user_id)
        service.delete(self.granted, user_id, credential_id)
        return Response(status=204)


class AccessRules(IdentityView):
    """/v3/users/{id}/access_rules."""

    def get(self, request: ApiRequest, user_id: str) -> Response:
        self.authorize("identity:list_access_rules", target_user_id=user_id)
        return Response(listing(request, "access_rules", service.access_rules(user_id), delegation.access_rule))


class AccessRule(IdentityView):
    """/v3/users/{id}/access_rules/{id}."""

    def get(self, request: ApiRequest, user_id: str, rule_id: str) -> Response:
        self.authorize("identity:list_access_rules", target_user_id=user_id)
        return Response({"access_rule": delegation.access_rule(request, service.access_rule(user_id, rule_id))})

    def delete(self, request: ApiRequest, user_id: str, rule_id: str) -> Response:
        self.authorize("identity:delete_access_rule", target_user_id=user_id)
        service.delete_access_rule(self.granted, user_id, rule_id)
        return Response(status=204)
