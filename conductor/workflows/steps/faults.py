"""What an instance says went wrong: the newest fault is shown, with the first cause."""

from __future__ import annotations

from conductor.cell_db.models import InstanceFault
from conductor.transactions import database_now
from conductor.workflows.flow import Work

LONGEST_MESSAGE = 255


def keep_first_cause(work: Work) -> None:
    """Keep the run's first cause, and what is left, as the instance's newest fault; inside a fenced transaction."""
    error = work.run.error or {}
    left = f" Not given back: {'; '.join(work.run.leftovers)}." if work.run.leftovers else ""
    at = f"step {error.get('step')} of {work.run.action}, attempt {error.get('attempt')}"
    add(
        work,
        f"{error.get('message', '')}{left}",
        f"{error.get('class')} at {at}",
        decision_uuid=(error.get("details") or {}).get("decision_uuid"),
    )


def add(work: Work, message: str, details: str, *, decision_uuid: str | None = None) -> None:
    """Add a fault to the run's instance, its message as long as clients are shown; inside a fenced transaction."""
    InstanceFault.objects.using(work.alias).create(
        instance_uuid=work.instance_uuid,
        message=message[:LONGEST_MESSAGE],
        details=details,
        decision_uuid=decision_uuid,
        created_at=database_now(),
    )
