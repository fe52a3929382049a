"""Limits of any service's resources: a registered default, and what a project or domain has instead."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import IntegrityError
from django.db.models import ProtectedError

from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound
from conductor.identity.listing import Question, narrowed, paged
from conductor.identity.models import Domain, Limit, Project, Region, RegisteredLimit, Service
from conductor.transactions import write_tx

KEYS = ("service_id", "region_id", "resource_name")
COLUMNS = {name: name for name in KEYS}
LIMIT_COLUMNS = {name: f"registered__{name}" for name in KEYS} | {
    "project_id": "project_id",
    "domain_id": "domain_id",
}


def registered(limit_id: str) -> RegisteredLimit:
    """Raises NotFound."""
    found = RegisteredLimit.objects.filter(id=limit_id).first()
    if found is None:
        raise NotFound(f"Could not find registered limit for id: {limit_id}.")
    return found


def find_registered(question: Question) -> tuple[list[RegisteredLimit], bool]:
    """By resource, and whether there are more."""
    return paged(narrowed(RegisteredLimit.objects.all(), question, COLUMNS), question, "resource_name")


def register(own: Collection[str], wishes: Sequence[Mapping[str, Any]]) -> list[RegisteredLimit]:
    """All or none. `own` are the ids of our own services. Raises Invalid for a service or region, Conflict."""
    try:
        with write_tx():
            for wish in wishes:
                _require_place(own, wish)
            return [RegisteredLimit.objects.create(**wish) for wish in wishes]
    except IntegrityError:
        raise Conflict("Conflict occurred attempting to store registered_limit - Duplicate entry.") from None


def _require_place(own: Collection[str], wish: Mapping[str, Any]) -> None:
    service_id, region_id = wish.get("service_id"), wish.get("region_id")
    if service_id is not None and service_id not in own and not Service.objects.filter(id=service_id).exists():
        raise Invalid(f"Could not find service: {service_id}.", field="service_id")
    if region_id is not None and not Region.objects.filter(id=region_id).exists():
        raise Invalid(f"Could not find region: {region_id}.", field="region_id")


def change_registered(own: Collection[str], limit_id: str, changes: Mapping[str, Any]) -> RegisteredLimit:
    """Raises NotFound, Invalid, Conflict, and Forbidden for what a limit refers to while one does."""
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
    """Raises NotFound, and Forbidden while limits refer to it."""
    try:
        with write_tx():
            registered(limit_id).delete()
    except ProtectedError:
        raise Forbidden(f"Unable to delete registered limit {limit_id}: limits refer to it.") from None


def get(limit_id: str) -> Limit:
    """Raises NotFound."""
    found = Limit.objects.select_related("registered", "project").filter(id=limit_id).first()
    if found is None:
        raise NotFound(f"Could not find limit for id: {limit_id}.")
    return found


def find(question: Question, of: Mapping[str, str] | None = None) -> tuple[list[Limit], bool]:
    """Limits, and whether there are more; of one project or domain only (`of`), where given."""
    rows = narrowed(Limit.objects.select_related("registered"), question, LIMIT_COLUMNS)
    return paged(rows.filter(**(of or {})), question, "id")


def create(wishes: Sequence[Mapping[str, Any]]) -> list[Limit]:
    """All or none. Raises Invalid for what is not registered, NotFound for project or domain, Conflict."""
    made = []
    try:
        with write_tx():
            for wish in wishes:
                made.append(_create(wish))
    except IntegrityError:
        raise Conflict("Conflict occurred attempting to store limit - Duplicate entry.") from None
    return made


def _create(wish: Mapping[str, Any]) -> Limit:
    wanted = {"region_id": None, **{key: wish[key] for key in KEYS if key in wish}}
    found = RegisteredLimit.objects.filter(**wanted).first()
    if found is None:
        raise Invalid(f"No registered limit for the resource {wish['resource_name']} of this service and region.")
    for model, key in ((Project, "project_id"), (Domain, "domain_id")):
        if wish.get(key) is not None and not model._default_manager.filter(id=wish[key]).exists():
            raise NotFound(f"Could not find {key.removesuffix('_id')}: {wish[key]}.")
    own = {key: wish[key] for key in ("project_id", "domain_id", "resource_limit", "description") if key in wish}
    return Limit.objects.create(registered=found, **own)


def change(limit_id: str, changes: Mapping[str, Any]) -> Limit:
    """Sets `resource_limit` and `description`. Raises NotFound."""
    with write_tx():
        row = get(limit_id)
        for field, value in changes.items():
            setattr(row, field, value)
        row.save(update_fields=sorted(changes))
        return row


def delete(limit_id: str) -> None:
    """Raises NotFound."""
    with write_tx():
        get(limit_id).delete()
