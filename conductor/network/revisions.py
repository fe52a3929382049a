"""Revision numbers for optimistic concurrency: each change of a row raises its number, which a caller may require."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.db.models import F, QuerySet
from django.utils import timezone

from conductor.db.transactions import write_tx
from conductor.network.errors import RevisionNumberConstraintFailed

Answer = TypeVar("Answer")


def touch(rows: QuerySet[Any], **changes: Any) -> int:
    """Write `changes` and raise the revision. Return the number of rows."""
    return rows.update(**changes, revision_number=F("revision_number") + 1, updated_at=timezone.now())


def guarded(expected: int | None, row: Any, act: Callable[[], Answer]) -> Answer:
    """Run `act` only while `row` is at the expected revision, and return its result; None expects none.

    Raises RevisionNumberConstraintFailed.
    """
    if expected is None:
        return act()
    with write_tx():
        held = type(row).objects.select_for_update().filter(pk=row.pk).values_list("revision_number", flat=True).first()
        if held != expected:
            raise RevisionNumberConstraintFailed(f"Constrained to {expected}, but current revision is {held}")
        return act()
