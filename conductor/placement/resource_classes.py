"""Resource classes: the standard ones, and CUSTOM_… ones that operators and hosts create."""

from __future__ import annotations

import re
from collections.abc import Iterable

import os_resource_classes

from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.db.transactions import write_tx
from conductor.placement.changes import ALIAS
from conductor.placement.models import Allocation, ProviderInventory, ResourceClass

STANDARD = tuple(os_resource_classes.STANDARDS)
CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]{1,248}")
_KNOWN = frozenset(STANDARD)


def names() -> list[str]:
    """Return standard names first, then custom ones in the order of their creation."""
    return [*STANDARD, *ResourceClass.objects.order_by("pk").values_list("name", flat=True)]


def get(name: str) -> str:
    """Return the name of a class. Raises NotFound."""
    if name not in _KNOWN and not ResourceClass.objects.filter(name=name).exists():
        raise NotFound(f"No such resource class: {name[:255]}.")
    return name


def ensure(name: str) -> bool:
    """Create a custom class if it is missing. Return whether it was created. Raises Invalid."""
    if name in _KNOWN:
        return False
    _refuse_odd(name)
    return bring([name])


def bring(wanted: Iterable[str]) -> bool:
    """Create the unknown classes of a host's report. Return whether there were any."""
    fresh = set(wanted) - _KNOWN
    if not fresh:
        return False
    missing = sorted(fresh - set(ResourceClass.objects.filter(name__in=fresh).values_list("name", flat=True)))
    if missing:
        with write_tx(ALIAS):
            ResourceClass.objects.bulk_create([ResourceClass(name=name) for name in missing], ignore_conflicts=True)
    return bool(missing)


def create(name: str) -> str:
    """Create a custom class. Raises Invalid, or Conflict when it exists."""
    _refuse_odd(name)
    if not bring([name]):
        raise Conflict(f"There is a resource class {name} already.")
    return name


def rename(name: str, to: str) -> str:
    """Rename a custom class, also where it is used. Raises Invalid, NotFound or Conflict."""
    _refuse_standard(name, "renamed")
    _refuse_odd(to)
    with write_tx(ALIAS):
        row = ResourceClass.objects.select_for_update().filter(name=name).first()
        if row is None:
            raise NotFound(f"No such resource class: {name[:255]}.")
        if ResourceClass.objects.filter(name=to).exists():
            raise Conflict(f"There is a resource class {to} already.")
        ResourceClass.objects.filter(pk=row.pk).update(name=to)
        for model in (ProviderInventory, Allocation):
            model.objects.filter(resource_class=name).update(resource_class=to)
    return to


def delete(name: str) -> None:
    """Delete a custom class. Raises Invalid, NotFound, or Conflict while a provider has some of it."""
    _refuse_standard(name, "deleted")
    with write_tx(ALIAS):
        row = ResourceClass.objects.select_for_update().filter(name=name).first()
        if row is None:
            raise NotFound(f"No such resource class: {name[:255]}.")
        if ProviderInventory.objects.filter(resource_class=name).exists():
            raise Conflict(f"Resource class {name} cannot be deleted: providers have inventory of it.")
        row.delete()


def stay(wanted: Iterable[str]) -> None:
    """Lock these classes against deletion until the transaction ends. Raises Invalid."""
    list(ResourceClass.objects.filter(name__in=list(wanted)).order_by("name").select_for_update())
    refuse_unknown(wanted)


def refuse_unknown(wanted: Iterable[str]) -> None:
    """Raise Invalid naming unknown classes."""
    fresh = set(wanted) - _KNOWN
    if fresh:
        possible = [name for name in fresh if CUSTOM.fullmatch(name)]  # the database cannot hold others
        fresh -= set(ResourceClass.objects.filter(name__in=possible).values_list("name", flat=True))
    if fresh:
        raise Invalid(f"No such resource class: {', '.join(sorted(fresh))[:500]}.", field="resource_class")


def _refuse_odd(name: str) -> None:
    if not CUSTOM.fullmatch(name):
        raise Invalid(
            f"{name[:255]!r} is no name for a resource class: it must be CUSTOM_ and then A-Z, 0-9 and _, at most 255.",
            field="name",
        )


def _refuse_standard(name: str, done: str) -> None:
    if name in _KNOWN:
        raise Invalid(f"Resource class {name} is a standard one: it cannot be {done}.", field="name")
