"""Stored credentials, and the EC2 key pairs among them."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.core.errors import NotFound
from conductor.identity import credentials
from conductor.identity.delegation import Power, require
from conductor.identity.listing import IdentityListQuery
from conductor.identity.models import Credential as CredentialRow
from portal.api.base import ApiRequest
from portal.api.identity.representations import delegation
from portal.api.identity.representations.resources import listing
from portal.api.identity.schemas.delegation import CHANGE_CREDENTIAL, CREATE_CREDENTIAL, CREATE_EC2
from portal.api.identity.view import IdentityView
from portal.api.validation import validate

FIELDS = ("user_id", "project_id", "type", "blob")


class SecretView(IdentityView):
    """Base of all views here. Secrets outlive the token that shows or creates them, so delegated tokens are refused."""

    def authorize(self, rule: str, **targets: str | None) -> None:
        """Raises Forbidden for a rule that does not allow it, and for a delegated token."""
        super().authorize(rule, **targets)
        require(self.granted, Power.SECRETS)


class CredentialView(SecretView):
    """Base of views about one credential: checks the rule before it reveals anything."""

    def allowed(self, rule: str, credential_id: str) -> CredentialRow:
        """Return the credential. Raises NotFound, or Forbidden where the caller may not even know whether it exists."""
        try:
            row = credentials.get(credential_id)
        except NotFound:
            self.authorize(rule, target_user_id="")
            raise
        self.authorize(rule, target_user_id=row.user_id)
        return row


class Credentials(SecretView):
    """/v3/credentials."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_credentials")
        question, own_id = self.question("user_id", "type"), request.context.user_id
        if not self.may("identity:list_all_credentials"):  # others see only their own, whatever filters they give
            if question.filters.get("user_id", own_id) != own_id:
                return Response(listing(request, "credentials", [], delegation.credential))
            question = IdentityListQuery({**question.filters, "user_id": own_id}, question.limit, question.marker)
        found, has_more = credentials.find(question)
        return Response(listing(request, "credentials", found, delegation.credential, has_more=has_more))

    def post(self, request: ApiRequest) -> Response:
        given = validate(request.data, CREATE_CREDENTIAL)["credential"]
        self.authorize("identity:change_credentials", target_user_id=given["user_id"])
        created = credentials.create(given["user_id"], given.get("project_id"), given["type"], given["blob"])
        shown = delegation.credential(request, created, given_blob=given["blob"])
        return Response({"credential": shown}, status=201)


class Credential(CredentialView):
    """/v3/credentials/{id}."""

    def get(self, request: ApiRequest, credential_id: str) -> Response:
        row = self.allowed("identity:list_credentials", credential_id)
        return Response({"credential": delegation.credential(request, row)})

    def patch(self, request: ApiRequest, credential_id: str) -> Response:
        self.allowed("identity:change_credentials", credential_id)
        given = validate(request.data, CHANGE_CREDENTIAL)["credential"]
        self.authorize("identity:change_credentials", target_user_id=given.get("user_id"))
        changes = {name: given[name] for name in FIELDS if name in given}
        changed = credentials.change(credential_id, changes)
        return Response({"credential": delegation.credential(request, changed, given_blob=given.get("blob"))})

    def delete(self, request: ApiRequest, credential_id: str) -> Response:
        self.allowed("identity:change_credentials", credential_id)
        credentials.delete(credential_id)
        return Response(status=204)


class Ec2Credentials(SecretView):
    """/v3/users/{id}/credentials/OS-EC2."""

    def get(self, request: ApiRequest, user_id: str) -> Response:
        self.authorize("identity:list_credentials", target_user_id=user_id)
        shown = [delegation.ec2(request, row) for row in credentials.ec2_of(user_id)]
        links = {"self": request.build_absolute_uri(), "previous": None, "next": None}
        return Response({"credentials": shown, "links": links})

    def post(self, request: ApiRequest, user_id: str) -> Response:
        self.authorize("identity:change_credentials", target_user_id=user_id)
        given = validate(request.data, CREATE_EC2)
        project_id = given.get("tenant_id") or given["project_id"]
        created = credentials.create_ec2(self.granted, user_id, project_id)
        return Response({"credential": delegation.ec2(request, created, is_new=True)}, status=201)


class Ec2Credential(SecretView):
    """/v3/users/{id}/credentials/OS-EC2/{access}."""

    def get(self, request: ApiRequest, user_id: str, access: str) -> Response:
        self.authorize("identity:list_credentials", target_user_id=user_id)
        return Response({"credential": delegation.ec2(request, credentials.get_ec2(user_id, access))})

    def delete(self, request: ApiRequest, user_id: str, access: str) -> Response:
        self.authorize("identity:change_credentials", target_user_id=user_id)
        credentials.delete(credentials.get_ec2(user_id, access).id)
        return Response(status=204)
