"""Changes of providers: numbers and states for followers, and generations for optimistic concurrency of writers.

Followers read the states of all providers once, then of those that changed. One statement per table serves any number
of them: a scheduler's first reading is of all hosts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from django.db import connections

from conductor.core.frozen import FrozenDict
from conductor.core.placement.amounts import Amount
from conductor.db.compiled import uuid_text
from conductor.placement import statements
from conductor.placement.models import ChangeCounter
from conductor.placement.statements import COUNTER, ProviderReading

ALIAS = "default"
CHUNK = 500  # values in one statement: databases limit their number
T = TypeVar("T")
Names = frozenset[str]
NO_NAMES: Names = frozenset()
NO_AMOUNTS: Mapping[str, Amount] = FrozenDict()


@dataclass(frozen=True, slots=True)
class Position:
    """Position in the sequence of changes: the newest number, and that of the newest removal, in an epoch."""

    epoch: str = ""
    number: int = 0
    removed_number: int = 0


def position() -> Position:
    """Return the current position: one row, so that an up-to-date follower stops here."""
    row = ChangeCounter.objects.filter(pk=COUNTER).values_list("epoch", "number", "removed_number").first()
    return Position(str(row[0]), row[1], row[2]) if row else Position()


def next_number() -> int:
    """Return the next change number; inside a write transaction, which locks the counter until it commits."""
    number = statements.next_change_number(connections[ALIAS])
    if number is None:
        ChangeCounter.objects.bulk_create([ChangeCounter(pk=COUNTER)], ignore_conflicts=True)
        number = statements.next_change_number(connections[ALIAS])
    assert number is not None, "the counter was just created"
    return number


def touch(provider_ids: Iterable[int], *, raises_generation: bool = True) -> None:
    """Mark providers as changed: a new generation each, one change number for all; inside a write transaction."""
    ids = list(provider_ids)
    if not ids:
        return
    number = next_number()
    for part in chunks(ids):
        statements.touch_providers(connections[ALIAS], part, number, 1 if raises_generation else 0)


def note_removal() -> None:
    """Record that a provider was removed: followers have to list all; inside a write transaction."""
    ChangeCounter.objects.filter(pk=COUNTER).update(removed_number=next_number())


def chunks(items: list[T]) -> list[list[T]]:
    """Split `items` into parts that fit one statement."""
    return [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]


class ProviderState(NamedTuple):  # a frozen dataclass takes four times as long
    """State of a provider: amounts by resource class, and the number of its consumers."""

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
    """Return the providers that changed after change `number`; 0 gives all."""
    connection = connections[ALIAS]
    return _states(ProviderReading.changed(connection, number) if number else ProviderReading.all(connection))


def state_of(provider_id: int) -> ProviderState:
    """Return the state of one existing provider."""
    return _states(ProviderReading.one(connections[ALIAS], provider_id))[0]


def _states(reading: ProviderReading) -> list[ProviderState]:
    """Return the states. Rows of providers that changed since the first statement are skipped, as the next read has
    them.
    """
    rows = list(reading.providers())
    amounts = _amounts(reading)
    consumers: dict[int, int] = dict(reading.num_consumers())
    aggregates = _aggregates(reading)
    places = {pk: (uuid_text(parent), uuid_text(root)) for pk, parent, root in reading.nested()}
    traits: dict[str, Names] = {}  # mostly equal
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
                aggregates.get(pk, NO_NAMES),
            )
        )
    return found


def _amounts(reading: ProviderReading) -> dict[int, dict[str, Amount]]:
    """Return the amounts of each provider. Equal amounts share one object."""
    known: dict[tuple[Any, ...], Amount] = {}
    found: dict[int, dict[str, Amount]] = {}
    for row in reading.inventories():
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
    """Return the one mapping for all providers with these amounts."""
    if not amounts:
        return NO_AMOUNTS
    key = (*amounts, *map(id, amounts.values()))
    return alike.setdefault(key, amounts)


def _aggregates(reading: ProviderReading) -> dict[int, Names]:
    found: dict[int, set[str]] = {}
    for provider, aggregate in reading.aggregates():
        found.setdefault(provider, set()).add(uuid_text(aggregate))
    alike: dict[Names, Names] = {}
    return {pk: alike.setdefault(names, names) for pk, names in ((pk, frozenset(s)) for pk, s in found.items())}
