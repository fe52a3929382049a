"""QoS specs of volume types, for the components that transport the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db import IntegrityError
from django.db.models import Q
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.db.transactions import write_tx
from conductor.volume import types
from conductor.volume.lists import order_of, page
from conductor.volume.models import QosSpec, VolumeType

SORT_KEYS = {"id": "uuid", "name": "name", "created_at": "created_at", "consumer": "consumer"}


def get(ref: str) -> QosSpec:
    """Return QoS specs. Raises NotFound."""
    wanted = uuid_or_none(ref)
    found = QosSpec.objects.filter(uuid=wanted).first() if wanted else None
    if found is None:
        raise NotFound(f"No such qos spec with id: {ref[:60]}.")
    return found


def list_all(*, sort: Sequence[tuple[str, bool]], limit: int, marker: str = "", offset: int = 0) -> list[QosSpec]:
    """Return one page. Raises Invalid, NotFound for an unknown marker."""
    rows = QosSpec.objects.all()
    return page(rows, order_of(SORT_KEYS, sort), anchors=rows, marker=marker, limit=offset + limit)[offset:]


def create(name: str, consumer: str, specs: Mapping[str, str]) -> QosSpec:
    """Create QoS specs. Raises Conflict for a name that is taken."""
    try:
        with write_tx():
            return QosSpec.objects.create(name=name, consumer=consumer, specs=dict(specs), created_at=timezone.now())
    except IntegrityError:
        raise Conflict(f"Qos specs {name[:60]} already exists.") from None


def set_keys(ref: str, given: Mapping[str, str]) -> QosSpec:
    """Add or replace specs, and the consumer where it is among them. Raises NotFound."""
    with write_tx():
        row = QosSpec.objects.select_for_update().get(pk=get(ref).pk)
        row.consumer = given.get("consumer", row.consumer)
        row.specs = {**row.specs, **{name: value for name, value in given.items() if name != "consumer"}}
        row.save(update_fields=["consumer", "specs"])
    return row


def remove_keys(ref: str, names: Sequence[str]) -> None:
    """Remove specs. Raises NotFound for a missing one; then none is removed."""
    with write_tx():
        row = QosSpec.objects.select_for_update().get(pk=get(ref).pk)
        absent = [name for name in names if name not in row.specs]
        if absent:
            raise NotFound(f"No spec {absent[0][:60]} in qos specs {row.uuid}.")
        row.specs = {name: value for name, value in row.specs.items() if name not in names}
        row.save(update_fields=["specs"])


def delete(ref: str, *, is_forced: bool = False) -> None:
    """Delete QoS specs. Raises NotFound, Invalid for those that types have, unless `is_forced`."""
    with write_tx():
        row = get(ref)
        users = VolumeType.objects.filter(qos_spec=row)
        if users.exists() and not is_forced:
            raise Invalid(f"Qos specs {row.uuid} is still associated with entities.")
        users.update(qos_spec=None)
        QosSpec.objects.filter(pk=row.pk).delete()


def types_of(ref: str) -> list[VolumeType]:
    """Return the types that have them. Raises NotFound."""
    return list(get(ref).types.order_by("name"))


def associate(context: RequestContext, ref: str, type_ref: str) -> None:
    """Associate with a type. Raises NotFound, Invalid for a type that has others."""
    row, wanted = get(ref), types.get_visible(context, type_ref)
    with write_tx():
        free_or_mine = VolumeType.objects.filter(Q(qos_spec=None) | Q(qos_spec=row), pk=wanted.pk)
        if not free_or_mine.update(qos_spec=row):
            raise Invalid(f"Type {wanted.uuid} is already associated with another qos specs.")


def disassociate(context: RequestContext, ref: str, type_ref: str | None = None) -> None:
    """Disassociate from one type, or from all. Raises NotFound."""
    row = get(ref)
    rows = VolumeType.objects.filter(qos_spec=row)
    if type_ref is not None:
        rows = rows.filter(pk=types.get_visible(context, type_ref).pk)
    with write_tx():
        rows.update(qos_spec=None)
