"""Domains: realms of users and projects. There is one, `default`, unless an operator adds rows."""

from __future__ import annotations

from conductor.core.errors import NotFound
from conductor.identity.models import Domain

DEFAULT_ID = "default"


def get(domain_id: str) -> Domain:
    """Raises NotFound."""
    domain = Domain.objects.filter(id=domain_id).first()
    if domain is None:
        raise NotFound(f"Could not find domain: {domain_id}.")
    return domain


def find(*, name: str | None = None, is_enabled: bool | None = None) -> list[Domain]:
    """Domains by name, narrowed by what is given."""
    found = Domain.objects.order_by("name", "id")
    if name is not None:
        found = found.filter(name=name)
    if is_enabled is not None:
        found = found.filter(is_enabled=is_enabled)
    return list(found)
