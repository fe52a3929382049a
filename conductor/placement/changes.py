"""Change numbers for followers, and generations for optimistic concurrency of writers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from django.db import connections

from conductor.placement import statements
from conductor.placement.models import ChangeCounter
from conductor.placement.statements import COUNTER

ALIAS = "default"
CHUNK = 500  # values in one statement: databases limit their number
T = TypeVar("T")


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
