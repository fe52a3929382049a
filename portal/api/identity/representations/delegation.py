"""JSON of application credentials, access rules, trusts and stored credentials, and bodies parsed into the first."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from conductor.identity import credentials
from conductor.identity.application_credentials import ApplicationCredentialCreate
from conductor.identity.models import AccessRule, ApplicationCredential, Credential, Trust
from portal.api.base import ApiRequest
from portal.api.identity.moments import moment_of
from portal.api.identity.representations.resources import Document, link_to, role_reference
from portal.api.identity.representations.tokens import timestamp
from portal.api.identity.schemas.delegation import CREATE_APPLICATION_CREDENTIAL
from portal.api.validation import validate


def moment(time: datetime | None) -> str | None:
    """Return a time, or null."""
    return None if time is None else timestamp(time)


def application_credential_request(body: Any) -> ApplicationCredentialCreate:
    """Parse the credential in a request's body. Raises Invalid."""
    given = validate(body, CREATE_APPLICATION_CREDENTIAL)["application_credential"]
    roles, rules = given.get("roles"), given.get("access_rules")
    return ApplicationCredentialCreate(
        name=given["name"],
        secret=given.get("secret"),
        description=given.get("description") or "",
        roles=roles or None,
        expires_at=moment_of(given.get("expires_at"), "expires_at"),
        is_unrestricted=bool(given.get("unrestricted")),
        access_rules=rules or (),  # clients send an empty list for none
    )


def application_credential(request: ApiRequest, row: ApplicationCredential) -> Document:
    """Return an application credential without its secret, which is shown once."""
    links = link_to(request, f"users/{row.user_id}/application_credentials/{row.id}")
    return {**application_credential_fields(row), "links": links}


def application_credential_fields(row: ApplicationCredential) -> Document:
    rules = [access_rule_reference(rule) for rule in row.access_rules.all()]
    return {
        "id": row.id,
        "name": row.name,
        "description": row.description or None,
        "project_id": row.project_id,
        "user_id": row.user_id,
        "expires_at": moment(row.expires_at)[:-1] if row.expires_at else None,  # type: ignore[index]
        "unrestricted": row.is_unrestricted,
        "system": None,
        "roles": [{"id": role.id, "name": role.name, "domain_id": role.domain_id} for role in row.roles.all()],
        **({"access_rules": rules} if rules else {}),
    }


def access_rule_reference(row: AccessRule) -> Document:
    return {"id": row.id, "service": row.service, "path": row.path, "method": row.method}


def access_rule(request: ApiRequest, row: AccessRule) -> Document:
    links = link_to(request, f"users/{row.user_id}/access_rules/{row.id}")
    return {**access_rule_reference(row), "links": links}


def trust_summary(request: ApiRequest, row: Trust) -> Document:
    """Return a trust in a list: without its roles."""
    return {
        "id": row.id,
        "trustor_user_id": row.trustor_id,
        "trustee_user_id": row.trustee_id,
        "project_id": row.project_id,
        "impersonation": row.is_impersonation,
        "expires_at": moment(row.expires_at),
        "remaining_uses": row.remaining_uses,
        "redelegation_count": 0,
        "deleted_at": None,
        "links": link_to(request, f"OS-TRUST/trusts/{row.id}"),
    }


def trust(request: ApiRequest, row: Trust) -> Document:
    roles = [role_reference(request, role) for role in row.roles.all()]
    links = {**link_to(request, f"OS-TRUST/trusts/{row.id}/roles"), "previous": None, "next": None}
    return {**trust_summary(request, row), "roles": roles, "roles_links": links}


def credential(request: ApiRequest, row: Credential, *, given_blob: str | None = None) -> Document:
    """Return a stored credential.

    Only its owner sees the blob; other callers see the blob that they have just sent, or null.
    """
    is_own = row.user_id == request.context.user_id
    return {
        "id": row.id,
        "user_id": row.user_id,
        "project_id": row.project_id,
        "type": row.type,
        "blob": credentials.blob_of(row) if is_own else given_blob,
        "links": link_to(request, f"credentials/{row.id}"),
    }


def ec2(request: ApiRequest, row: Credential, *, is_new: bool = False) -> Document:
    """Return an EC2 key pair on its own route. Callers other than its owner see the secret once, when they create
    the pair.
    """
    is_shown = is_new or row.user_id == request.context.user_id
    pair = json.loads(credentials.blob_of(row))
    return {
        "access": pair["access"],
        "secret": pair.get("secret") if is_shown else None,
        "user_id": row.user_id,
        "tenant_id": row.project_id,
        "trust_id": pair.get("trust_id"),
        "links": link_to(request, f"users/{row.user_id}/credentials/OS-EC2/{pair['access']}"),
    }
