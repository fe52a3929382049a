"""Findings of the reconciler: discrepancies and their kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conductor.services.operations.reconciliation.facts import ReconciliationFacts

DEFAULT_GRACE_SECONDS = 300.0


class Severity(StrEnum):
    """Severity of a finding: critical if data may be at stake, a warning if something is merely held too long."""

    CRITICAL = "critical"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrepancy:
    """One discrepancy. `touches` are the resources of workflows that may be changing it now."""

    subject: str
    detail: str
    cell: str = ""
    instance_uuid: str = ""
    touches: tuple[str, ...] = ()
    data: Any = None  # arguments of the repair


@dataclass(frozen=True, slots=True)
class DiscrepancyKind:
    """A kind of discrepancies: how it is found in facts, whether and how it is repaired, and its grace period.

    `repair` returns what it did, or "" when there was nothing left to do. Its statements check the expected state, so
    that concurrent changes are not overwritten. Without a `repair` an operator must decide.
    """

    name: str
    title: str
    find: Callable[[ReconciliationFacts], Iterator[Discrepancy]]
    repair: Callable[[ReconciliationFacts, Discrepancy], str] | None = None
    severity: Severity = Severity.WARNING
    grace_seconds: float = DEFAULT_GRACE_SECONDS
