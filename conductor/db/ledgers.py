"""Ledgers: tables of changes whose sum is the amount in use, so that no request counts all rows.

Triggers append an entry for each change. A counter in one row would be cheaper to read, but transactions that change it
would wait for each other, and deadlock where they change several. A writer that reads a ledger with many entries
replaces them by their sums.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.db import connections
from django.db.models import QuerySet

from conductor.db.transactions import gathered_by

MOST_ENTRIES = 64  # that are added up by each reader
MOST_AT_ONCE = 2000


def compact(entries: QuerySet[Any], keys: Sequence[str], amounts: Sequence[str]) -> None:
    """Replace entries by one for each combination of `keys`, with the sums of `amounts`. Call it inside `write_tx`.

    Entries that another transaction replaces at the moment are left to it.
    """
    if gathered_by(connections[entries.db]) is None:
        return
    model = entries.model
    sums: defaultdict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * len(amounts))
    read = []
    rows = entries.select_for_update(skip_locked=True).order_by("pk").values_list("pk", *keys, *amounts)
    for pk, *values in rows[:MOST_AT_ONCE]:
        read.append(pk)
        key, changes = tuple(values[: len(keys)]), values[len(keys) :]
        sums[key] = [one + other for one, other in zip(sums[key], changes, strict=True)]
    model._default_manager.using(entries.db).filter(pk__in=read).delete()
    made = [
        model(**dict(zip((*keys, *amounts), (*key, *total), strict=True))) for key, total in sums.items() if any(total)
    ]
    model._default_manager.using(entries.db).bulk_create(made)
