"""What a finding is, and what a kind of findings must say of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conductor.services.reconciliation.facts import Facts

USUAL_GRACE_SECONDS = 300.0


class Severity(StrEnum):
    """How loudly a finding is told: data may be at stake, or something is merely held too long."""

    CRITICAL = "critical"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One thing that does not agree. `touches` are the resources of a workflow that may be changing it right now."""

    subject: str
    detail: str
    cell: str = ""
    instance_uuid: str = ""
    touches: tuple[str, ...] = ()
    data: Any = None  # what the repair needs to know


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of findings: how it is found in facts, whether and how it is repaired, and after how long.

    `repair` says what it did, or "" when there was nothing left to do. Its statements name what they expect, so that
    one who was there meanwhile is not overwritten. None: a person must look.
    """

    name: str
    title: str
    find: Callable[[Facts], Iterator[Found]]
    repair: Callable[[Facts, Found], str] | None = None
    severity: Severity = Severity.WARNING
    grace_seconds: float = USUAL_GRACE_SECONDS
