"""Revisions: every change of a row is counted, and a change may insist on the count that its asker has seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.db.models import F, QuerySet
from django.utils import timezone

from conductor.network.errors import RevisionNumberConstraintFailed
from conductor.transactions import write_tx

Answer = TypeVar("Answer")


def touch(rows: QuerySet[Any], **changes: Any) -> None:
    """Write `changes` and count the revision."""
    rows.update(**changes, revision_number=F("revision_number") + 1, updated_at=timezone.now())


def guarded(expected: int | None, row: Any, act: Callable[[], Answer]) -> Answer:
    """What `act` answers, done only while `row` is at the revision that is expected; None expects none.

    Raises RevisionNumberConstraintFailed.
    """
    if expected is None:
        return act()
    with write_tx():
        held = type(row).objects.select_for_update().filter(pk=row.pk).values_list("revision_number", flat=True).first()
        if held != expected:
            raise RevisionNumberConstraintFailed(f"Constrained to {expected}, but current revision is {held}")
        return act()
