"""A second person for what is forced: one operator asks, another agrees or declines, in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from django.conf import settings

from conductor.core.context import RequestContext
from conductor.core.interventions import AGREE, BY_ID, BY_TWO, Intervention
from conductor.journal.models import WorkflowRun
from conductor.transactions import database_time

OWN = "You asked for it yourself: another operator has to agree."


@dataclass(frozen=True)
class AgreementView:
    """What waits for a second person: which intervention, as `by` asked for it and why, and until when."""

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
    """Whether an intervention takes two."""
    return bool(settings.NOVELLA_SECOND_PERSON) and one.id in BY_TWO


def asked(alias: str, context: RequestContext, one: Intervention, wish: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept with the run; `wish` is what came with the intervention."""
    now = database_time(alias)
    return {
        "id": str(uuid4()),
        "intervention": one.id,
        "by": context.user_name or context.user_id,
        "by_id": context.user_id,
        "wish": dict(wish),
        "at": now.isoformat(),
        "until": (now + timedelta(seconds=settings.NOVELLA_SECOND_PERSON_SECONDS)).isoformat(),
    }


def open_of(alias: str, runs: Sequence[WorkflowRun]) -> dict[int, AgreementView]:
    """What waits for a second person, by the run's key; what came too late is left out."""
    wanted = [run for run in runs if run.agreement]
    if not wanted:
        return {}
    now = database_time(alias)
    found = {run.pk: _view(run.agreement) for run in wanted if run.agreement}
    return {pk: view for pk, view in found.items() if view.until > now}


def why_not_for(context: RequestContext, one: Intervention, asked_by: str) -> str:
    """Why this person must not do what the rules would allow: nobody agrees with himself."""
    return OWN if one.id == AGREE and asked_by == context.user_id else ""


def _view(kept: Mapping[str, Any]) -> AgreementView:
    wish = kept["wish"]
    return AgreementView(
        intervention=kept["intervention"],
        title=BY_ID[kept["intervention"]].title,
        by=kept["by"],
        by_id=kept["by_id"],
        reason=wish["reason"],
        step=wish["step"],
        mark=wish["mark"],
        asked_at=datetime.fromisoformat(kept["at"]),
        until=datetime.fromisoformat(kept["until"]),
    )
