"""How requests were placed: counts and advice for those who asked, hosts and weights for operators."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from conductor.api_db.models import SchedulingDecision
from conductor.core.context import RequestContext
from conductor.core.errors import NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.scheduler.decision_log import NOT_NEEDED, USED
from conductor.services.values import DecisionView


def for_run(context: RequestContext, run_uuid: UUID | str) -> list[DecisionView]:
    """The decisions of a workflow, oldest first; none for one that made none. Raises NotFound across projects."""
    rows = list(_rows(context).filter(run_uuid=uuid_or_none(str(run_uuid))).order_by("pk"))
    for row in rows:
        _refuse_stranger(context, row)
    return [_view(context, row) for row in rows]


def get(context: RequestContext, decision_uuid: UUID | str) -> DecisionView:
    """One decision. Raises NotFound, for another project's too."""
    row = _rows(context).filter(uuid=uuid_or_none(str(decision_uuid))).first()
    if row is None:
        raise NotFound(f"Decision {decision_uuid} could not be found.")
    _refuse_stranger(context, row)
    return _view(context, row)


def _rows(context: RequestContext) -> Any:
    rows = SchedulingDecision.objects.all()
    return rows if context.is_admin else rows.defer("details", "selections")


def _refuse_stranger(context: RequestContext, row: SchedulingDecision) -> None:
    if not context.may_see_project(row.project_id):
        raise NotFound(f"Decision {row.uuid} could not be found.")


def _view(context: RequestContext, row: SchedulingDecision) -> DecisionView:
    summary = row.summary
    private: dict[str, Any] = {"missing_cells": dict.fromkeys(summary["missing_cells"], "did not answer")}
    if context.is_admin:
        private = {
            "hosts": row.details["hosts"],
            "weights": row.details["weights"],
            "nearest": row.details["nearest"],
            "faults": summary["faults"],
            "lost_races": row.details["lost_races"],
            "selections": _selections(row),
            "missing_cells": summary["missing_cells"],
        }
    return DecisionView(
        uuid=str(row.uuid),
        run_uuid=str(row.run_uuid),
        is_successful=row.is_successful,
        created_at=row.created_at,
        seed=summary["seed"],
        snapshot_age_seconds=summary["snapshot_age_seconds"],
        num_instances=summary["num_instances"],
        funnel=summary["funnel"],
        advice=summary["advice"],
        **private,
    )


def _selections(row: SchedulingDecision) -> list[dict[str, Any]]:
    found = []
    for uuid, (chosen, *alternates) in zip(row.summary["instance_uuids"], row.selections, strict=False):
        fates = row.summary["fates"].get(uuid, {})
        found.append(
            {
                "instance_uuid": uuid,
                "host": chosen["host"],
                "cell": chosen["cell"],
                "fate": fates.get(chosen["host"], USED),
                "alternates": [
                    {"host": item["host"], "fate": fates.get(item["host"], NOT_NEEDED)} for item in alternates
                ],
            }
        )
    return found
