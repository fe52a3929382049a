"""JSON of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from conductor.identity.models import Domain, User
from conductor.identity.tokens import Granted


def timestamp(moment: datetime) -> str:
    """`2026-01-31T12:00:00.000000Z`."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def domain_reference(domain: Domain) -> dict[str, str]:
    return {"id": domain.id, "name": domain.name}


def _user(user: User) -> dict[str, Any]:
    domain = domain_reference(user.domain)
    return {"id": user.id, "name": user.username, "domain": domain, "password_expires_at": None}


def token_body(granted: Granted, catalog: Sequence[dict[str, Any]] | None) -> dict[str, Any]:
    """Return the `token` document. Only a scoped token has a scope, roles and, unless left out on request, the
    catalog.
    """
    token: dict[str, Any] = {
        "methods": list(granted.methods),
        "user": _user(granted.user),
        "audit_ids": list(granted.audit_ids),
        "issued_at": timestamp(granted.issued_at),
        "expires_at": timestamp(granted.expires_at),
        **_scope(granted),
        **_delegation(granted),
    }
    if not granted.scope.is_nothing:
        token["roles"] = [{"id": role.id, "name": role.name} for role in granted.roles]
        if catalog is not None:
            token["catalog"] = list(catalog)
    return {"token": token}


def _scope(granted: Granted) -> dict[str, Any]:
    project, domain = granted.scope.project, granted.scope.domain
    if project is not None:
        shown = {"id": project.id, "name": project.name, "domain": domain_reference(project.domain)}
        return {"project": shown, "is_domain": False}
    if domain is not None:
        return {"domain": domain_reference(domain)}
    return {"system": {"all": True}} if granted.scope.is_on_system else {}


def _delegation(granted: Granted) -> dict[str, Any]:
    credential, trust = granted.application_credential, granted.trust
    if credential is not None:
        shown: dict[str, Any] = {
            "id": credential.id,
            "name": credential.name,
            "restricted": not credential.is_unrestricted,
        }
        if granted.access_rules is not None:
            shown["access_rules"] = [
                {"id": rule.id, "service": rule.service, "path": rule.path, "method": rule.method}
                for rule in granted.access_rules
            ]
        return {"application_credential": shown}
    if trust is not None:
        return {
            "OS-TRUST:trust": {
                "id": trust.id,
                "impersonation": trust.is_impersonation,
                "trustor_user": {"id": trust.trustor_id},
                "trustee_user": {"id": trust.trustee_id},
            }
        }
    return {}
