"""Trusts: OS-TRUST."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.core.errors import NotFound
from conductor.identity import trusts
from conductor.identity.models import Role
from conductor.identity.models import Trust as TrustRow
from conductor.identity.trusts import TrustCreate
from portal.api.base import ApiRequest
from portal.api.identity.moments import moment_of
from portal.api.identity.representations import delegation, resources
from portal.api.identity.schemas.delegation import CREATE_TRUST
from portal.api.identity.view import IdentityView
from portal.api.validation import validate


class TrustView(IdentityView):
    """Base of views about one trust: for trustor, trustee, and callers that may read everything."""

    def visible(self, trust_id: str) -> TrustRow:
        """Return the trust. Raises NotFound, Forbidden."""
        found = trusts.get(trust_id)
        is_trustee = self.request.context.user_id == found.trustee_id
        self.authorize("identity:get_trust", target_user_id=found.trustee_id if is_trustee else found.trustor_id)
        return found


class Trusts(IdentityView):
    """/v3/OS-TRUST/trusts."""

    def get(self, request: ApiRequest) -> Response:
        query = request.query_params
        trustor_id, trustee_id = query.get("trustor_user_id"), query.get("trustee_user_id")
        if trustor_id is None and trustee_id is None:
            self.authorize("identity:list_all_trusts")
        is_trustee = trustee_id == request.context.user_id
        self.authorize("identity:list_trusts", target_user_id=(trustee_id if is_trustee else trustor_id) or "")
        found = trusts.find(trustor_id=trustor_id, trustee_id=trustee_id)
        return Response(resources.listing(request, "trusts", found, delegation.trust_summary))

    def post(self, request: ApiRequest) -> Response:
        given = validate(request.data, CREATE_TRUST)["trust"]
        self.require_self("identity:create_trust", given["trustor_user_id"])
        requested = TrustCreate(
            trustor_id=given["trustor_user_id"],
            trustee_id=given["trustee_user_id"],
            project_id=given.get("project_id"),
            is_impersonation=given["impersonation"],
            roles=given.get("roles", ()),
            expires_at=moment_of(given.get("expires_at"), "expires_at"),
            remaining_uses=given.get("remaining_uses"),
        )
        return Response({"trust": delegation.trust(request, trusts.create(self.granted, requested))}, status=201)


class Trust(TrustView):
    """/v3/OS-TRUST/trusts/{id}."""

    def get(self, request: ApiRequest, trust_id: str) -> Response:
        return Response({"trust": delegation.trust(request, self.visible(trust_id))})

    def delete(self, request: ApiRequest, trust_id: str) -> Response:
        found = self.visible(trust_id)
        self.authorize("identity:delete_trust", target_user_id=found.trustor_id)
        trusts.delete(self.granted, trust_id)
        return Response(status=204)


class TrustRoles(TrustView):
    """/v3/OS-TRUST/trusts/{id}/roles."""

    def get(self, request: ApiRequest, trust_id: str) -> Response:
        found = self.visible(trust_id)
        return Response(resources.listing(request, "roles", found.roles.all(), resources.role_reference))


class TrustRole(TrustView):
    """/v3/OS-TRUST/trusts/{id}/roles/{id}."""

    def _role(self, trust_id: str, role_id: str) -> Role:
        for role in self.visible(trust_id).roles.all():
            if role.id == role_id:
                return role
        raise NotFound(f"Could not find role: {role_id}.")

    def get(self, request: ApiRequest, trust_id: str, role_id: str) -> Response:
        return Response({"role": resources.role_reference(request, self._role(trust_id, role_id))})

    def head(self, request: ApiRequest, trust_id: str, role_id: str) -> Response:
        self._role(trust_id, role_id)
        return Response(status=200)
