"""Tokens as the identity API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from conductor.identity.models import Domain
from conductor.identity.tokens import Granted
from portal.api.catalog import catalog


def timestamp(moment: datetime) -> str:
    """`2026-01-31T12:00:00.000000Z`."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _domain(domain: Domain) -> dict[str, str]:
    return {"id": domain.id, "name": domain.name}


def token_body(granted: Granted, base_url: str, *, with_catalog: bool = True) -> dict[str, Any]:
    """The `token` document. Only a scoped token has project, roles and catalog."""
    user = granted.user
    token: dict[str, Any] = {
        "methods": list(granted.methods),
        "user": {"id": user.id, "name": user.username, "domain": _domain(user.domain), "password_expires_at": None},
        "audit_ids": [granted.audit_id],
        "issued_at": timestamp(granted.issued_at),
        "expires_at": timestamp(granted.expires_at),
    }
    if granted.project is not None:
        project = granted.project
        token["project"] = {"id": project.id, "name": project.name, "domain": _domain(project.domain)}
        token["is_domain"] = False
        token["roles"] = [{"id": role.id, "name": role.name} for role in granted.roles]
        if with_catalog:
            token["catalog"] = catalog(base_url)
    return {"token": token}
