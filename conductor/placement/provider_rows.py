"""Rows of single providers: finding, locking with a generation check, and views."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q, QuerySet

from conductor.core.errors import ConcurrentUpdate, NotFound
from conductor.placement import codes
from conductor.placement.models import ResourceProvider


@dataclass(frozen=True, slots=True)
class ProviderView:
    """A provider and its place in its tree."""

    uuid: str
    name: str
    generation: int
    parent_uuid: str | None
    root_uuid: str


def view_of(row: ResourceProvider) -> ProviderView:
    """Return the view of a row, from its parent and root; select these with the row where there are many."""
    parent, root = row.parent, row.root or row
    return ProviderView(str(row.uuid), row.name, row.generation, str(parent.uuid) if parent else None, str(root.uuid))


def with_places(rows: QuerySet[ResourceProvider]) -> QuerySet[ResourceProvider]:
    """Select what `view_of` needs."""
    return rows.select_related("parent", "root")


def found(provider_uuid: UUID | str) -> ResourceProvider:
    """Return a provider. Raises NotFound."""
    row = with_places(ResourceProvider.objects.filter(uuid=provider_uuid)).first()
    if row is None:
        raise _missing(provider_uuid)
    return row


def held(provider_uuid: UUID | str, generation: int | None) -> ResourceProvider:
    """Return the row, locked until the surrounding write transaction ends.

    Raises NotFound, or ConcurrentUpdate when its generation is not the expected one; None expects none.
    """
    row = ResourceProvider.objects.select_for_update().filter(uuid=provider_uuid).first()
    if row is None:
        raise _missing(provider_uuid)
    if generation is not None and row.generation != generation:
        raise ConcurrentUpdate(
            f"Resource provider {provider_uuid} is at generation {row.generation}, not {generation}: it was changed "
            "meanwhile. Read it again and repeat.",
            code=codes.CONCURRENT_UPDATE,
        )
    return row


def root_id_of(row: ResourceProvider) -> int:
    return row.root_id or row.pk


def in_tree_of(root_id: int) -> Q:
    """Return the condition for members of the tree; old rows do not store their root."""
    return Q(root_id=root_id) | Q(pk=root_id)


def uuids_of(names: Iterable[UUID | str]) -> list[str]:
    """Return the uuids, each once, in order."""
    return sorted({str(name) for name in names})


def _missing(provider_uuid: UUID | str) -> NotFound:
    return NotFound(f"Resource provider {provider_uuid} could not be found.")
