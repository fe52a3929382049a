"""Resource providers: create, move in trees, remove, and the changes since a follower last looked."""

from __future__ import annotations

import uuid as uuids
from collections import defaultdict
from collections.abc import Iterable
from uuid import UUID

from django.db.models import Count, ProtectedError, Q
from django.db.models.functions import Coalesce

from conductor.core.errors import Conflict, Invalid
from conductor.db.transactions import one_at_a_time, write_tx
from conductor.placement import codes
from conductor.placement.changes import (
    ALIAS,
    Position,
    ProviderState,
    changed_since,
    chunks,
    note_removal,
    position,
    state_of,
    touch,
)
from conductor.placement.models import Allocation, ResourceProvider
from conductor.placement.provider_rows import ProviderView, found, held, in_tree_of, root_id_of, view_of
from conductor.placement.provider_search import search

__all__ = [
    "Position",
    "ProviderState",
    "ProviderView",
    "changed_since",
    "consumers_of_trees",
    "create",
    "delete",
    "get",
    "position",
    "remove",
    "search",
    "update",
    "view",
]

TREES = "placement: trees"  # branches move one at a time: two concurrent moves could make a cycle


def consumers_of_trees(roots: Iterable[str]) -> dict[str, int]:
    """Return how many consumers have allocations anywhere in each of these trees."""
    found = dict.fromkeys(roots, 0)
    for part in chunks(sorted(found)):
        rows = Allocation.objects.filter(Q(provider__root__uuid__in=part) | Q(provider__uuid__in=part))
        by_root = rows.annotate(of=Coalesce("provider__root__uuid", "provider__uuid")).values_list("of")
        found |= {str(root): count for root, count in by_root.annotate(count=Count("consumer_id", distinct=True))}
    return found


def get(provider_uuid: UUID | str) -> ProviderState:
    """Return a provider's state. Raises NotFound."""
    return state_of(found(provider_uuid).pk)


def view(provider_uuid: UUID | str) -> ProviderView:
    """Return a provider's view. Raises NotFound."""
    return view_of(found(provider_uuid))


def create(name: str, uuid: UUID | str | None = None, parent: UUID | str | None = None) -> ProviderView:
    """Create a provider, below `parent` where given.

    Raises Conflict when its name or uuid is taken, Invalid when there is no such parent.
    """
    wanted = str(uuid or uuids.uuid4())
    with write_tx(ALIAS):
        one_at_a_time(ALIAS, f"placement: provider {wanted}", f"placement: provider {name}")
        _refuse_taken(name, wanted)
        above = _parent(parent, wanted)
        row = ResourceProvider.objects.create(uuid=wanted, name=name, parent=above)
        root = root_id_of(above) if above else row.pk
        ResourceProvider.objects.filter(pk=row.pk).update(root_id=root)
        touch([row.pk], raises_generation=False)
    return view(wanted)


def update(provider_uuid: UUID | str, name: str, parent: UUID | str | None, may_reparent: bool) -> ProviderView:
    """Set the provider's name and parent; its branch moves along.

    Without `may_reparent` only a root gets a parent. Raises NotFound, Conflict when the name is taken, Invalid for a
    parent that does not exist, would make a cycle, or may not be changed.
    """
    with write_tx(ALIAS):
        one_at_a_time(ALIAS, TREES, f"placement: provider {name}")
        row = held(provider_uuid, None)
        _refuse_taken(name, but=row)
        branch = _moved(row, parent, may_reparent) if str(parent or "") != _parent_uuid(row) else []
        ResourceProvider.objects.filter(pk=row.pk).update(name=name)
        touch({row.pk, *branch}, raises_generation=False)
    return view(provider_uuid)


def delete(provider_uuid: UUID | str) -> None:
    """Delete a provider with its inventory. Raises NotFound, or Conflict while it has allocations or children."""
    with write_tx(ALIAS):
        row = held(provider_uuid, None)
        if row.children.exists():
            raise Conflict(
                f"Resource provider {provider_uuid} is the parent of others. Delete those first.",
                code=codes.PROVIDER_IS_PARENT,
            )
        _forget([row])


def remove(provider_uuid: UUID | str) -> None:
    """Delete a provider and all below it; a missing one is no error. Raises Conflict while they have allocations."""
    with write_tx(ALIAS):
        one_at_a_time(ALIAS, TREES)
        row = ResourceProvider.objects.select_for_update().filter(uuid=provider_uuid).first()
        if row is not None:
            below = [pk for pk in _branch(row) if pk != row.pk]
            rows = ResourceProvider.objects.filter(pk__in=below).order_by("pk").select_for_update()
            by_id = {child.pk: child for child in rows}
            _forget([*(by_id[pk] for pk in reversed(below)), row])


def _forget(rows: list[ResourceProvider]) -> None:
    """Delete the rows, children first; inside a write transaction that locks them."""
    for row in rows:
        try:
            row.delete()
        except ProtectedError as error:
            raise Conflict(f"Resource provider {row.uuid} has allocations.", code=codes.PROVIDER_IN_USE) from error
    note_removal()


def _refuse_taken(name: str, uuid: str | None = None, but: ResourceProvider | None = None) -> None:
    others = ResourceProvider.objects.exclude(pk=but.pk) if but else ResourceProvider.objects.all()
    if others.filter(name=name).exists():
        raise Conflict(f"There is another resource provider named {name}.", code=codes.DUPLICATE_NAME)
    if uuid and others.filter(uuid=uuid).exists():
        raise Conflict(f"There is another resource provider with uuid {uuid}.", code=codes.DUPLICATE_NAME)


def _parent(parent: UUID | str | None, child: str) -> ResourceProvider | None:
    """Return the row of the parent, locked. Raises Invalid."""
    if parent is None:
        return None
    if str(parent) == child:
        raise Invalid(f"Resource provider {child} cannot be its own parent.", field="parent_provider_uuid")
    row = ResourceProvider.objects.select_for_update().filter(uuid=parent).first()
    if row is None:
        raise Invalid(f"There is no resource provider {parent} to be the parent.", field="parent_provider_uuid")
    return row


def _parent_uuid(row: ResourceProvider) -> str:
    return str(row.parent.uuid) if row.parent else ""


def _moved(row: ResourceProvider, parent: UUID | str | None, may_reparent: bool) -> list[int]:
    """Move the branch of `row` below another parent, or below none. Return the ids of the branch."""
    if row.parent_id is not None and not may_reparent:
        raise Invalid(
            f"Resource provider {row.uuid} has a parent already, which only newer versions of the API can change.",
            field="parent_provider_uuid",
        )
    above = _parent(parent, str(row.uuid))
    branch = _branch(row)
    if above is not None and above.pk in branch:
        raise Invalid(
            f"Resource provider {parent} is below {row.uuid}: as its parent it would make a cycle.",
            field="parent_provider_uuid",
        )
    root = root_id_of(above) if above else row.pk
    ResourceProvider.objects.filter(pk=row.pk).update(parent=above)
    ResourceProvider.objects.filter(pk__in=branch).update(root_id=root)
    return branch


def _branch(row: ResourceProvider) -> list[int]:
    """Return the ids of the row and of all below it, parents first."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    tree = ResourceProvider.objects.filter(in_tree_of(root_id_of(row))).exclude(parent=None)
    for pk, parent in tree.order_by("pk").values_list("pk", "parent_id"):
        children[parent].append(pk)
    branch = [row.pk]
    for pk in branch:
        branch += children[pk]
    return branch
