"""Providers as they stand, for who follows them: all that there are, or those that changed.

By hand and in one statement for each table, however many providers: the first reading of a scheduler is of all hosts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connections

from conductor.core.frozen import FrozenDict
from conductor.core.placement.amounts import Amount
from conductor.placement.changes import ALIAS
from conductor.sql.dialect import Row, run
from conductor.sql.scan import scan
from conductor.sql.worded import uuid_text

Names = frozenset[str]
NOBODY: Names = frozenset()
NO_AMOUNTS: Mapping[str, Amount] = FrozenDict()

_PROVIDERS = "SELECT id, uuid, name, generation, change_number, traits FROM placement_resourceprovider"
_NESTED = (
    "SELECT p.id, parent.uuid, root.uuid FROM placement_resourceprovider p "
    "JOIN placement_resourceprovider parent ON parent.id = p.parent_id "
    "LEFT JOIN placement_resourceprovider root ON root.id = p.root_id"
)
_INVENTORIES = (
    "SELECT provider_id, resource_class, total, reserved, min_unit, max_unit, step_size, allocation_ratio, used "
    "FROM placement_inventory"
)
_AGGREGATES = "SELECT provider_id, aggregate_uuid FROM placement_provideraggregate"
_CONSUMERS = "SELECT provider_id, COUNT(DISTINCT consumer_id) FROM placement_allocation"
_CHANGED = "IN (SELECT id FROM placement_resourceprovider WHERE change_number > %s)"
_ONE = "= %s"


class ProviderState(NamedTuple):  # a dataclass that is frozen takes four times as long to make
    """A provider as it stands: amounts by resource class, and how many consumers hold something of it."""

    uuid: str
    name: str
    generation: int
    change_number: int
    traits: frozenset[str]
    amounts: Mapping[str, Amount] = NO_AMOUNTS
    num_consumers: int = 0
    parent_uuid: str | None = None
    root_uuid: str = ""
    aggregates: frozenset[str] = frozenset()


def changed_since(number: int) -> list[ProviderState]:
    """Providers that changed after change `number`; 0 gives all."""
    return _states(_Question(_CHANGED, (number,)) if number else _Question())


def state_of(provider_id: int) -> ProviderState:
    """One provider, which is there."""
    return _states(_Question(_ONE, (provider_id,)))[0]


@dataclass(frozen=True)
class _Question:
    """Which providers are asked after."""

    which: str = ""
    params: tuple[int, ...] = ()

    def rows(self, select: str, column: str = "provider_id", end: str = "") -> Iterator[Row]:
        """The rows of which `column` names one of those providers."""
        if self.which:
            return iter(run(connections[ALIAS], f"{select} WHERE {column} {self.which}{end}", self.params))
        return scan(connections[ALIAS], f"{select}{end}")


def _states(asked: _Question) -> list[ProviderState]:
    """What is said of providers that changed since the first statement is passed over: they are asked after again."""
    rows = list(asked.rows(_PROVIDERS, "id", " ORDER BY id"))
    amounts = _amounts(asked)
    consumers: dict[int, int] = dict(asked.rows(_CONSUMERS, end=" GROUP BY provider_id"))
    aggregates = _aggregates(asked)
    places = {pk: (uuid_text(parent), uuid_text(root)) for pk, parent, root in asked.rows(_NESTED, "p.id")}
    traits: dict[str, Names] = {}  # most have the same
    alike: dict[Any, Mapping[str, Amount]] = {}
    found = []
    for pk, uuid, name, generation, change_number, named in rows:
        own = uuid_text(uuid)
        parent, root = places.get(pk, (None, own))
        if named not in traits:
            traits[named] = frozenset(json.loads(named))
        found.append(
            ProviderState(
                own,
                name,
                generation,
                change_number,
                traits[named],
                _shared(alike, amounts.pop(pk, None)),
                consumers.get(pk, 0),
                parent,
                root or own,
                aggregates.get(pk, NOBODY),
            )
        )
    return found


def _amounts(asked: _Question) -> dict[int, dict[str, Amount]]:
    """What each has. Equal amounts are there once."""
    known: dict[tuple[Any, ...], Amount] = {}
    found: dict[int, dict[str, Amount]] = {}
    for row in asked.rows(_INVENTORIES):
        provider, name = row[:2]
        amount = known.get(row[2:])
        if amount is None:
            amount = known[row[2:]] = Amount(*row[2:])
        of = found.get(provider)
        if of is None:
            found[provider] = {name: amount}
        else:
            of[name] = amount
    return found


def _shared(alike: dict[Any, Mapping[str, Amount]], amounts: dict[str, Amount] | None) -> Mapping[str, Amount]:
    """The one mapping of all providers that have just this."""
    if not amounts:
        return NO_AMOUNTS
    key = (*amounts, *map(id, amounts.values()))
    return alike.setdefault(key, amounts)


def _aggregates(asked: _Question) -> dict[int, Names]:
    found: dict[int, set[str]] = {}
    for provider, aggregate in asked.rows(_AGGREGATES):
        found.setdefault(provider, set()).add(uuid_text(aggregate))
    alike: dict[Names, Names] = {}
    return {pk: alike.setdefault(names, names) for pk, names in ((pk, frozenset(s)) for pk, s in found.items())}
