"""Traits of providers: the standard ones, and CUSTOM_… ones that operators and hosts create."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from uuid import UUID

import os_traits

from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.db.transactions import write_tx
from conductor.placement.changes import ALIAS, touch
from conductor.placement.models import ProviderTrait, ResourceProvider, Trait
from conductor.placement.provider_rows import found, held

STANDARD = frozenset(os_traits.get_traits())
DISABLED = "COMPUTE_STATUS_DISABLED"
CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]{1,248}")


def names(prefix: str = "", among: Collection[str] | None = None, is_associated: bool | None = None) -> list[str]:
    """Return names in order: with this `prefix`, `among` these, and of some provider, or of none."""
    wanted = STANDARD.union(Trait.objects.values_list("name", flat=True))
    if among is not None:
        wanted &= set(among)
    if is_associated is not None:
        in_use = set(ProviderTrait.objects.values_list("name", flat=True).distinct())
        wanted = wanted & in_use if is_associated else wanted - in_use
    return sorted(name for name in wanted if name.startswith(prefix))


def get(name: str) -> str:
    """Return the name of a trait. Raises NotFound."""
    if name not in STANDARD and not Trait.objects.filter(name=name).exists():
        raise NotFound(f"No such trait: {name[:255]}.")
    return name


def ensure(name: str) -> bool:
    """Create a custom trait if it is missing. Return whether it was created. Raises Invalid."""
    if not CUSTOM.fullmatch(name):
        raise Invalid(
            f"{name[:255]!r} is no name for a trait: it must be CUSTOM_ and then A-Z, 0-9 and _, at most 255.",
            field="name",
        )
    return bring([name])


def bring(wanted: Iterable[str]) -> bool:
    """Create the unknown traits of a host's report. Return whether there were any."""
    fresh = set(wanted) - STANDARD
    if not fresh:
        return False
    missing = sorted(fresh - set(Trait.objects.filter(name__in=fresh).values_list("name", flat=True)))
    if missing:
        with write_tx(ALIAS):
            Trait.objects.bulk_create([Trait(name=name) for name in missing], ignore_conflicts=True)
    return bool(missing)


def delete(name: str) -> None:
    """Delete a custom trait. Raises Invalid, NotFound, or Conflict while a provider has it."""
    if name in STANDARD:
        raise Invalid(f"Trait {name} is a standard one: it cannot be deleted.", field="name")
    with write_tx(ALIAS):
        row = Trait.objects.select_for_update().filter(name=name).first()
        if row is None:
            raise NotFound(f"No such trait: {name[:255]}.")
        if ProviderTrait.objects.filter(name=name).exists():
            raise Conflict(f"The trait {name} is in use by a resource provider.")
        row.delete()


def of_provider(provider_uuid: UUID | str) -> tuple[int, list[str]]:
    """Return generation and traits of a provider. Raises NotFound."""
    row = found(provider_uuid)
    return row.generation, sorted(row.traits)


def set_of_provider(provider_uuid: UUID | str, wanted: Iterable[str], generation: int | None) -> tuple[int, list[str]]:
    """Replace the provider's traits; its generation stays where they are the same.

    Raises NotFound, Invalid for unknown traits, or ConcurrentUpdate when `generation` is not its own.
    """
    traits = sorted(set(wanted))
    with write_tx(ALIAS):
        row = held(provider_uuid, generation)
        _stay(traits)
        if sorted(row.traits) != traits:
            write(row, traits)
            touch([row.pk])
            row.refresh_from_db(fields=["generation"])
        return row.generation, traits


def mark(provider_uuids: Iterable[UUID | str], name: str, *, is_on: bool) -> None:
    """Give these providers a trait, or take it away, and leave their others; unchanged providers are not written."""
    known = ResourceProvider.objects.filter(uuid__in=list(provider_uuids)).values_list("pk", "traits")
    others = [pk for pk, names in known if (name in names) != is_on]
    if not others:
        return
    with write_tx(ALIAS):
        for row in ResourceProvider.objects.filter(pk__in=others).order_by("pk").select_for_update():
            write(row, {*row.traits, name} if is_on else {*row.traits} - {name})
        touch(others)


def write(row: ResourceProvider, wanted: Collection[str]) -> None:
    """Write both copies of a provider's traits; inside a write transaction that locks the row."""
    ResourceProvider.objects.filter(pk=row.pk).update(traits=sorted(wanted))
    links = ProviderTrait.objects.filter(provider=row)
    links.exclude(name__in=wanted).delete()
    missing = set(wanted) - set(links.values_list("name", flat=True))
    ProviderTrait.objects.bulk_create([ProviderTrait(provider=row, name=name) for name in sorted(missing)])


def _stay(wanted: Iterable[str]) -> None:
    """Lock these traits against deletion until the transaction ends. Raises Invalid."""
    list(Trait.objects.filter(name__in=wanted).order_by("name").select_for_update())
    refuse_unknown(wanted)


def refuse_unknown(wanted: Iterable[str]) -> None:
    """Raise Invalid naming unknown traits."""
    fresh = set(wanted) - STANDARD
    if fresh:
        possible = [name for name in fresh if CUSTOM.fullmatch(name)]  # the database cannot hold others
        fresh -= set(Trait.objects.filter(name__in=possible).values_list("name", flat=True))
    if fresh:
        raise Invalid(f"No such trait: {', '.join(sorted(fresh))[:500]}.", field="required")
