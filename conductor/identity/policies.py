"""Policies of services that are not built in, stored for their clients. The product's own rules are in the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.errors import NotFound
from conductor.db.transactions import write_tx
from conductor.identity.models import Policy


def find(kind: str | None = None) -> list[Policy]:
    """Return all policies, or those of a type."""
    found = Policy.objects.order_by("id")
    return list(found if kind is None else found.filter(type=kind))


def get(policy_id: str) -> Policy:
    """Return a policy. Raises NotFound."""
    found = Policy.objects.filter(id=policy_id).first()
    if found is None:
        raise NotFound(f"Could not find policy: {policy_id}.")
    return found


def create(blob: Any, kind: str, extra: Mapping[str, Any]) -> Policy:
    with write_tx():
        return Policy.objects.create(blob=blob, type=kind, extra=dict(extra))


def change(policy_id: str, changes: Mapping[str, Any]) -> Policy:
    """Update a policy. Entries of `extra` are merged. Raises NotFound."""
    with write_tx():
        row = get(policy_id)
        for name, value in changes.items():
            setattr(row, name, {**row.extra, **value} if name == "extra" else value)
        if changes:
            row.save(update_fields=sorted(changes))
        return row


def delete(policy_id: str) -> None:
    """Delete a policy. Raises NotFound."""
    with write_tx():
        get(policy_id).delete()
