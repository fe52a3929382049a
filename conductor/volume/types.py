"""Volume types: their requirements, their access lists, and the default type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import IntegrityError
from django.db.models import Q, QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.db.transactions import write_tx
from conductor.volume.lists import order_of, page
from conductor.volume.models import TypeAccess, Volume, VolumeType

DEFAULT_UUID = UUID("6c7a1f0e-5d5b-4c5e-9a51-1f0b7f6f0a01")
DEFAULT_NAME = "files"
SORT_KEYS = {"id": "uuid", "name": "name", "is_public": "is_public", "created_at": "created_at"}
IS_TRUE = "<is> true"


@dataclass(frozen=True, slots=True)
class TypeQuery:
    """Query of types. `is_public` None means both kinds."""

    is_public: bool | None = True
    name: str | None = None
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    sort: Sequence[tuple[str, bool]] = (("created_at", True),)
    limit: int | None = None
    marker: str = ""
    offset: int = 0


def missing(ref: str) -> NotFound:
    return NotFound(f"Volume type {ref[:60]} could not be found.")


def default() -> VolumeType:
    """Return the type of volumes that name none; it is created at its first use."""
    found = _rows().filter(uuid=DEFAULT_UUID).first()
    if found is None:
        now = timezone.now()
        values = {"name": DEFAULT_NAME, "description": "Files on the storage of this cloud", "created_at": now}
        with write_tx():
            found, _ = VolumeType.objects.get_or_create(uuid=DEFAULT_UUID, defaults={**values, "updated_at": now})
    return found


def get_visible(context: RequestContext, ref: str) -> VolumeType:
    """Return the type with that uuid. Raises NotFound, also for another project's private one."""
    wanted = uuid_or_none(ref)
    default()
    found = _visible(context).filter(uuid=wanted).first() if wanted else None
    if found is None:
        raise missing(ref)
    return found


def named(context: RequestContext, ref: str) -> VolumeType:
    """Return the type with that uuid or name. Raises NotFound."""
    default()
    wanted = uuid_or_none(ref)
    found = _visible(context).filter(Q(uuid=wanted) if wanted else Q(name=ref)).first()
    if found is None:
        raise missing(ref)
    return found


def list_visible(context: RequestContext, query: TypeQuery) -> list[VolumeType]:
    """Return one page of types: public ones, and private ones that the caller may use. Raises Invalid."""
    default()
    rows = anchors = _visible(context)
    if query.is_public is not None:
        mine = Q(pk__in=_granted(context)) if query.is_public and not context.is_admin else Q(pk=None)
        rows = rows.filter(Q(is_public=query.is_public) | mine)
    if query.name is not None:
        rows = rows.filter(name=query.name)
    order = order_of(SORT_KEYS, query.sort)
    last = None if query.limit is None else query.offset + query.limit
    limit = None if query.extra_specs else last
    found = page(rows, order, anchors=anchors, marker=query.marker, limit=limit)
    # Extra specs are JSON text: types are few, and not all supported databases can search it.
    wanted = query.extra_specs.items()
    return [row for row in found if wanted <= row.extra_specs.items()][query.offset : last]


def create(wanted: Mapping[str, Any]) -> VolumeType:
    """Create a type. Raises Conflict for a name that is taken."""
    now = timezone.now()
    default()
    try:
        with write_tx():
            return VolumeType.objects.create(**wanted, created_at=now, updated_at=now)
    except IntegrityError:
        raise _taken(wanted["name"]) from None


def update(context: RequestContext, ref: str, values: Mapping[str, Any]) -> VolumeType:
    """Update a type. Raises NotFound, Conflict for a name that is taken."""
    row = get_visible(context, ref)
    try:
        with write_tx():
            VolumeType.objects.filter(pk=row.pk).update(**values, updated_at=timezone.now())
    except IntegrityError:
        raise _taken(str(values.get("name"))) from None
    return get_visible(context, ref)


def delete(context: RequestContext, ref: str) -> None:
    """Delete a type. Raises NotFound, Invalid for the default one or one that volumes have."""
    row = get_visible(context, ref)
    if row.uuid == DEFAULT_UUID:
        raise Invalid(f"Volume type {row.uuid} is the default one: volumes that name no type need it.")
    with write_tx():
        VolumeType.objects.select_for_update().filter(pk=row.pk).first()
        if Volume.objects.filter(volume_type=row).exists():
            raise Invalid(f"Volume type {row.uuid} is in use by volumes: delete or retype them first.")
        VolumeType.objects.filter(pk=row.pk).delete()


def set_specs(context: RequestContext, ref: str, given: Mapping[str, str]) -> dict[str, str]:
    """Add or replace extra specs, and return all of them. Raises NotFound."""
    with write_tx():
        row = _held(context, ref)
        specs = {**row.extra_specs, **given}
        VolumeType.objects.filter(pk=row.pk).update(extra_specs=specs, updated_at=timezone.now())
    return specs


def remove_spec(context: RequestContext, ref: str, key: str) -> None:
    """Remove an extra spec. Raises NotFound."""
    with write_tx():
        row = _held(context, ref)
        specs = dict(row.extra_specs)
        if key not in specs:
            raise NotFound(f"Volume Type {row.uuid} has no extra specs with key {key[:60]}.")
        del specs[key]
        VolumeType.objects.filter(pk=row.pk).update(extra_specs=specs, updated_at=timezone.now())


def accesses(context: RequestContext, ref: str) -> list[TypeAccess]:
    """Return the projects that may use a private type. Raises NotFound, also for a public one."""
    row = get_visible(context, ref)
    if row.is_public:
        raise NotFound("Access list not available for public volume types.")
    return list(row.accesses.order_by("project_id"))


def allow(context: RequestContext, ref: str, project_id: str) -> None:
    """Give a project access. Raises NotFound, Conflict for a public type or a project that has access already."""
    row = _private(context, ref)
    try:
        with write_tx():
            TypeAccess.objects.create(type=row, project_id=project_id)
    except IntegrityError:
        raise Conflict(f"Volume type access for {row.uuid} / {project_id} combination already exists.") from None


def refuse(context: RequestContext, ref: str, project_id: str) -> None:
    """Take access away. Raises NotFound, Conflict for a public type."""
    row = _private(context, ref)
    with write_tx():
        count, _ = row.accesses.filter(project_id=project_id).delete()
    if not count:
        raise NotFound(f"Volume type access not found for {row.uuid} / {project_id} combination.")


def set_encryption(context: RequestContext, ref: str, encryption: Mapping[str, Any] | None) -> None:
    """Store or delete the encryption settings of a type. Raises NotFound, Invalid for one with volumes."""
    row = get_visible(context, ref)
    with write_tx():
        if Volume.objects.filter(volume_type=row).exists():
            raise Invalid(f"Cannot change the encryption of volume type {row.uuid}: it is in use by volumes.")
        VolumeType.objects.filter(pk=row.pk).update(encryption=encryption, updated_at=timezone.now())


def is_shareable(row: VolumeType) -> bool:
    """Whether volumes of the type may be attached to several servers at once."""
    return str(row.extra_specs.get("multiattach", "")).strip().lower() == IS_TRUE


def _private(context: RequestContext, ref: str) -> VolumeType:
    row = get_visible(context, ref)
    if row.is_public:
        raise Conflict("Type access modification is not applicable to public volume type.")
    return row


def _held(context: RequestContext, ref: str) -> VolumeType:
    row = get_visible(context, ref)
    return VolumeType.objects.select_for_update().get(pk=row.pk)


def _taken(name: str) -> Conflict:
    return Conflict(f"Volume Type {name[:60]} already exists.")


def _rows() -> QuerySet[VolumeType]:
    return VolumeType.objects.select_related("qos_spec")


def _visible(context: RequestContext) -> QuerySet[VolumeType]:
    if context.is_admin:
        return _rows()
    return _rows().filter(Q(is_public=True) | Q(pk__in=_granted(context)))


def _granted(context: RequestContext) -> QuerySet[TypeAccess, Any]:
    return TypeAccess.objects.filter(project_id=context.project_id).values("type_id")
