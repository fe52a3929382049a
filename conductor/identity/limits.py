"""Unified limits of any service's resources: registered defaults, and limits of single projects or domains."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import IntegrityError
from django.db.models import ProtectedError

from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound
from conductor.db.transactions import write_tx
from conductor.identity.listing import IdentityListQuery, narrowed, paged
from conductor.identity.models import Domain, Limit, Project, Region, RegisteredLimit, RegisteredService

KEYS = ("service_id", "region_id", "resource_name")
COLUMNS = {name: name for name in KEYS}
LIMIT_COLUMNS = {name: f"registered__{name}" for name in KEYS} | {
    "project_id": "project_id",
    "domain_id": "domain_id",
}


def registered(limit_id: str) -> RegisteredLimit:
    """Return a registered limit. Raises NotFound."""
    found = RegisteredLimit.objects.filter(id=limit_id).first()
    if found is None:
        raise NotFound(f"Could not find registered limit for id: {limit_id}.")
    return found


def find_registered(question: IdentityListQuery) -> tuple[list[RegisteredLimit], bool]:
    """Return a page of registered limits by resource, and whether there are more."""
    return paged(narrowed(RegisteredLimit.objects.all(), question, COLUMNS), question, "resource_name")


def register(own: Collection[str], requests: Sequence[Mapping[str, Any]]) -> list[RegisteredLimit]:
    """Register limits, all or none. `own` are ids of built-in services.

    Raises Invalid for an unknown service or region, Conflict.
    """
    try:
        with write_tx():
            for requested in requests:
                _require_place(own, requested)
            return [RegisteredLimit.objects.create(**requested) for requested in requests]
    except IntegrityError:
        raise Conflict("Conflict occurred attempting to store registered_limit - Duplicate entry.") from None


def _require_place(own: Collection[str], requested: Mapping[str, Any]) -> None:
    service_id, region_id = requested.get("service_id"), requested.get("region_id")
    if (
        service_id is not None
        and service_id not in own
        and not RegisteredService.objects.filter(id=service_id).exists()
    ):
        raise Invalid(f"Could not find service: {service_id}.", field="service_id")
    if region_id is not None and not Region.objects.filter(id=region_id).exists():
        raise Invalid(f"Could not find region: {region_id}.", field="region_id")


def change_registered(own: Collection[str], limit_id: str, changes: Mapping[str, Any]) -> RegisteredLimit:
    """Update a registered limit. Raises NotFound, Invalid, Conflict, and Forbidden for fields that limits refer to."""
    try:
        with write_tx():
            row = registered(limit_id)
            if row.limits.exists() and any(getattr(row, key) != changes.get(key, getattr(row, key)) for key in KEYS):
                raise Forbidden(f"Unable to update registered limit {limit_id}: limits refer to it.")
            _require_place(own, changes)
            for field, value in changes.items():
                setattr(row, field, value)
            row.save(update_fields=sorted(changes))
            return row
    except IntegrityError:
        raise Conflict("Conflict occurred attempting to store registered_limit - Duplicate entry.") from None


def unregister(limit_id: str) -> None:
    """Delete a registered limit. Raises NotFound, and Forbidden while limits refer to it."""
    try:
        with write_tx():
            registered(limit_id).delete()
    except ProtectedError:
        raise Forbidden(f"Unable to delete registered limit {limit_id}: limits refer to it.") from None


def get(limit_id: str) -> Limit:
    """Return a limit. Raises NotFound."""
    found = Limit.objects.select_related("registered", "project").filter(id=limit_id).first()
    if found is None:
        raise NotFound(f"Could not find limit for id: {limit_id}.")
    return found


def find(question: IdentityListQuery, of: Mapping[str, str] | None = None) -> tuple[list[Limit], bool]:
    """Return a page of limits, and whether there are more; of one project or domain only (`of`), where given."""
    rows = narrowed(Limit.objects.select_related("registered"), question, LIMIT_COLUMNS)
    return paged(rows.filter(**(of or {})), question, "id")


def create(requests: Sequence[Mapping[str, Any]]) -> list[Limit]:
    """Create limits, all or none. Raises Invalid for unregistered ones, NotFound for project or domain, Conflict."""
    made = []
    try:
        with write_tx():
            for requested in requests:
                made.append(_create(requested))
    except IntegrityError:
        raise Conflict("Conflict occurred attempting to store limit - Duplicate entry.") from None
    return made


def _create(requested: Mapping[str, Any]) -> Limit:
    wanted = {"region_id": None, **{key: requested[key] for key in KEYS if key in requested}}
    found = RegisteredLimit.objects.filter(**wanted).first()
    if found is None:
        raise Invalid(f"No registered limit for the resource {requested['resource_name']} of this service and region.")
    for model, key in ((Project, "project_id"), (Domain, "domain_id")):
        if requested.get(key) is not None and not model._default_manager.filter(id=requested[key]).exists():
            raise NotFound(f"Could not find {key.removesuffix('_id')}: {requested[key]}.")
    own = {
        key: requested[key] for key in ("project_id", "domain_id", "resource_limit", "description") if key in requested
    }
    return Limit.objects.create(registered=found, **own)


def change(limit_id: str, changes: Mapping[str, Any]) -> Limit:
    """Update `resource_limit` and `description`. Raises NotFound."""
    with write_tx():
        row = get(limit_id)
        for field, value in changes.items():
            setattr(row, field, value)
        row.save(update_fields=sorted(changes))
        return row


def delete(limit_id: str) -> None:
    """Delete a limit. Raises NotFound."""
    with write_tx():
        get(limit_id).delete()
