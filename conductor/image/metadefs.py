"""Metadata definitions: namespaces with objects, properties, tags and resource types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import IntegrityError
from django.db.models import Q, QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound
from conductor.db.transactions import write_tx
from conductor.image.models import Definition, Namespace

OBJECT, PROPERTY, TAG, RESOURCE_TYPE = "object", "property", "tag", "resource_type"
KINDS = (OBJECT, PROPERTY, TAG, RESOURCE_TYPE)
# The predefined resource types.
RESOURCE_TYPES = (
    "OS::Cinder::Volume",
    "OS::Glance::Image",
    "OS::Nova::Aggregate",
    "OS::Nova::Flavor",
    "OS::Nova::Server",
)
SORT_KEYS = {"namespace": "name", "created_at": "created_at", "updated_at": "updated_at"}
FIELDS = {
    "namespace": "name",
    "display_name": "display_name",
    "description": "description",
    "visibility": "visibility",
    "protected": "is_protected",
    "owner": "project_id",
}


def list_namespaces(
    context: RequestContext, *, filters: Mapping[str, str], sort: tuple[str, bool], limit: int, marker: str = ""
) -> list[Namespace]:
    """Return one page of visible namespaces. Raises Invalid for an unknown key, NotFound for an unknown marker."""
    key, is_descending = sort
    if key not in SORT_KEYS:
        raise Invalid(f"Invalid sort key: {key[:60]}. It must be one of {', '.join(SORT_KEYS)}.", field="sort_key")
    rows = _visible(context)
    if "visibility" in filters:
        rows = rows.filter(visibility=filters["visibility"])
    for kind in filters.get("resource_types", "").split(","):
        rows = rows.filter(definitions__kind=RESOURCE_TYPE, definitions__name=kind) if kind else rows
    sign = "-" if is_descending else ""
    found = list(rows.order_by(f"{sign}{SORT_KEYS[key]}", "name").distinct().prefetch_related("definitions"))
    if not marker:
        return found[:limit]
    names = [row.name for row in found]
    if marker not in names:
        raise NotFound(f"Namespace {marker[:60]} could not be found.")
    return found[names.index(marker) + 1 :][:limit]


def get(context: RequestContext, name: str) -> Namespace:
    """Return a namespace. Raises NotFound, also for another project's private one."""
    found = _visible(context).filter(name=name).first()
    if found is None:
        raise NotFound(f"Metadata definition namespace={name[:80]} was not found.")
    return found


def create(
    context: RequestContext, values: Mapping[str, Any], definitions: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Namespace:
    """Create a namespace with its initial definitions. Raises Conflict for a name that is taken."""
    now = timezone.now()
    known = {"project_id": context.project_id, **{FIELDS[name]: value for name, value in values.items()}}
    try:
        with write_tx():
            row = Namespace.objects.create(**known, created_at=now, updated_at=now)
            for kind, items in definitions.items():
                for item in items:
                    _insert(row, kind, item)
    except IntegrityError:
        raise Conflict(f"The metadata definition namespace={values['namespace']} already exists.") from None
    return row


def update(context: RequestContext, name: str, values: Mapping[str, Any]) -> Namespace:
    """Update a namespace. Raises NotFound, Conflict for a name that is taken."""
    row = get(context, name)
    changed = {FIELDS[field]: value for field, value in values.items()}
    try:
        with write_tx():
            Namespace.objects.filter(pk=row.pk).update(**changed, updated_at=timezone.now())
    except IntegrityError:
        raise Conflict(f"The metadata definition namespace={values['namespace']} already exists.") from None
    return Namespace.objects.get(pk=row.pk)


def delete(context: RequestContext, name: str) -> None:
    """Delete a namespace with its definitions. Raises NotFound, Forbidden for a protected one."""
    row = get(context, name)
    _require_free(row)
    with write_tx():
        Namespace.objects.filter(pk=row.pk).delete()


def list_definitions(context: RequestContext, name: str, kind: str) -> list[Definition]:
    """Return all definitions of a kind by name. Raises NotFound."""
    return list(get(context, name).definitions.filter(kind=kind).order_by("name"))


def get_definition(context: RequestContext, namespace: str, kind: str, name: str) -> Definition:
    """Return a definition. Raises NotFound."""
    found = get(context, namespace).definitions.filter(kind=kind, name=name).first()
    if found is None:
        raise NotFound(f"Metadata definition {kind} {name[:80]} was not found in namespace={namespace}.")
    return found


def add(context: RequestContext, namespace: str, kind: str, item: Mapping[str, Any]) -> Definition:
    """Add a definition. Raises NotFound, Conflict for a name that is taken."""
    row = get(context, namespace)
    try:
        with write_tx():
            return _insert(row, kind, item)
    except IntegrityError:
        raise Conflict(
            f"A metadata definition {kind} {item['name']} already exists in namespace={namespace}."
        ) from None


def replace_all(context: RequestContext, namespace: str, kind: str, items: Sequence[Mapping[str, Any]]) -> None:
    """Replace all definitions of the kind. Raises NotFound."""
    row = get(context, namespace)
    with write_tx():
        row.definitions.filter(kind=kind).delete()
        for item in items:
            _insert(row, kind, item)


def change(context: RequestContext, namespace: str, kind: str, name: str, item: Mapping[str, Any]) -> Definition:
    """Update a definition. Raises NotFound, Conflict for a name that is taken."""
    row = get_definition(context, namespace, kind, name)
    row.name, row.body = _split(item)
    row.updated_at = timezone.now()
    try:
        with write_tx():
            row.save(update_fields=["name", "body", "updated_at"])
    except IntegrityError:
        raise Conflict(
            f"A metadata definition {kind} {item['name']} already exists in namespace={namespace}."
        ) from None
    return row


def remove(context: RequestContext, namespace: str, kind: str, name: str | None = None) -> None:
    """Delete one definition, or all of a kind. Raises NotFound, Forbidden in a protected namespace."""
    row = get(context, namespace)
    _require_free(row)
    rows = row.definitions.filter(kind=kind)
    if name is not None:
        rows = rows.filter(pk=get_definition(context, namespace, kind, name).pk)
    with write_tx():
        rows.delete()


def resource_types() -> list[str]:
    """Return the predefined resource types, and all that a namespace names."""
    named = Definition.objects.filter(kind=RESOURCE_TYPE).values_list("name", flat=True)
    return sorted({*RESOURCE_TYPES, *named})


def _insert(row: Namespace, kind: str, item: Mapping[str, Any]) -> Definition:
    now = timezone.now()
    name, body = _split(item)
    return Definition.objects.create(namespace=row, kind=kind, name=name, body=body, created_at=now, updated_at=now)


def _split(item: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    body = dict(item)
    return body.pop("name"), body


def _require_free(row: Namespace) -> None:
    if row.is_protected:
        raise Forbidden(f"Metadata definition namespace {row.name} is protected: nothing of it can be deleted.")


def _visible(context: RequestContext) -> QuerySet[Namespace]:
    rows = Namespace.objects.all()
    return rows if context.is_admin else rows.filter(Q(visibility="public") | Q(project_id=context.project_id))
