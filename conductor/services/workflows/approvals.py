"""Approvals of forced interventions: one operator requests, another approves or declines, within a time limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from django.conf import settings

from conductor.core.context import RequestContext
from conductor.core.interventions import AGREE, BY_ID, BY_TWO, Intervention
from conductor.core.messages import message
from conductor.db.transactions import database_time
from conductor.journal.models import WorkflowRun

OWN = message("approval.own")
DELEGATED = message("approval.delegated")


@dataclass(frozen=True)
class ApprovalView:
    """Pending approval of an intervention, as requested by `by`, with the reason and the time limit."""

    intervention: str
    title: str
    by: str
    by_id: str
    reason: str
    step: str
    mark: str
    asked_at: datetime
    until: datetime


def is_needed(one: Intervention) -> bool:
    """Whether an intervention needs a second approver."""
    return bool(settings.NOVELLA_SECOND_PERSON) and one.id in BY_TWO


def asked(alias: str, context: RequestContext, one: Intervention, requested: Mapping[str, Any]) -> dict[str, Any]:
    """Return the approval request to store with the run; `requested` are the intervention's arguments."""
    now = database_time(alias)
    return {
        "id": str(uuid4()),
        "intervention": one.id,
        "by": context.user_name or context.user_id,
        "by_id": context.user_id,
        "request": dict(requested),
        "at": now.isoformat(),
        "until": (now + timedelta(seconds=settings.NOVELLA_SECOND_PERSON_SECONDS)).isoformat(),
    }


def open_of(alias: str, runs: Sequence[WorkflowRun]) -> dict[int, ApprovalView]:
    """Return the runs' pending approvals, by run key; expired ones are left out."""
    wanted = [run for run in runs if run.approval]
    if not wanted:
        return {}
    now = database_time(alias)
    found = {run.pk: _view(run.approval) for run in wanted if run.approval}
    return {pk: view for pk, view in found.items() if view.until > now}


def why_not_for(context: RequestContext, one: Intervention, asked_by: str) -> str:
    """Return why the caller must not request or approve what the rules permit.

    Requesters cannot approve their own request. A token that was handed on cannot be used, as its holder could be both.
    """
    if one.id == AGREE and asked_by == context.user_id:
        return OWN
    return DELEGATED if context.delegated_by and (one.id == AGREE or is_needed(one)) else ""


def _view(kept: Mapping[str, Any]) -> ApprovalView:
    requested = kept["request"]
    return ApprovalView(
        intervention=kept["intervention"],
        title=BY_ID[kept["intervention"]].title,
        by=kept["by"],
        by_id=kept["by_id"],
        reason=requested["reason"],
        step=requested["step"],
        mark=requested["mark"],
        asked_at=datetime.fromisoformat(kept["at"]),
        until=datetime.fromisoformat(kept["until"]),
    )
