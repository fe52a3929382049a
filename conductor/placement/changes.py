"""The order of all changes: numbers that followers ask after, and generations that writers compare."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from django.db import connections

from conductor.placement.models import ChangeCounter
from conductor.sql.dialect import padded, places, run

ALIAS = "default"
COUNTER = 1
CHUNK = 500  # values in one statement: databases bound how many there may be
T = TypeVar("T")
# By hand: whatever is claimed or given back changes a provider.
_COUNT = "UPDATE placement_changecounter SET number = number + 1 WHERE id = %s RETURNING number"
_TOUCH = "UPDATE placement_resourceprovider SET generation = generation + %s, change_number = %s WHERE id IN"


@dataclass(frozen=True, slots=True)
class Position:
    """How far the changes have come: the newest number, and that of the newest removal, in an epoch of numbers."""

    epoch: str = ""
    number: int = 0
    removed_number: int = 0


def position() -> Position:
    """Where the changes are now: one row read, so that a follower who is up to date stops here."""
    row = ChangeCounter.objects.filter(pk=COUNTER).values_list("epoch", "number", "removed_number").first()
    return Position(str(row[0]), row[1], row[2]) if row else Position()


def next_number() -> int:
    """The next change number; inside a write transaction, which holds the counter until it commits."""
    found = run(connections[ALIAS], _COUNT, (COUNTER,))
    if not found:
        ChangeCounter.objects.bulk_create([ChangeCounter(pk=COUNTER)], ignore_conflicts=True)
        found = run(connections[ALIAS], _COUNT, (COUNTER,))
    ((number,),) = found
    return int(number)


def touch(provider_ids: Iterable[int], *, raises_generation: bool = True) -> None:
    """These providers changed: a new generation each, one change number for all; inside a write transaction."""
    ids = list(provider_ids)
    if not ids:
        return
    number = next_number()
    step = 1 if raises_generation else 0
    for part in map(padded, chunks(ids)):
        run(connections[ALIAS], f"{_TOUCH} ({places(part)})", (step, number, *part))


def note_removal() -> None:
    """A provider is gone: followers have to look who is left; inside a write transaction."""
    ChangeCounter.objects.filter(pk=COUNTER).update(removed_number=next_number())


def chunks(items: list[T]) -> list[list[T]]:
    """`items` in parts that fit one statement."""
    return [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]
