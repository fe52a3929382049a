"""Open quota requests of projects."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from conductor.api_db.models import QuotaRequest
from conductor.core.phrases import phrase
from conductor.services.operations.triage.values import WAITED_FOR, TriageItem
from conductor.services.quotas.requests import OPEN

PREFIX = "quota_request:"
KIND = "quota_request"
TITLE = phrase("Open quota request")
MOST = 100
DECIDE = phrase("Approve or decline it under Quota requests.")


def found(project_names: Callable[[set[str]], Mapping[str, str]]) -> list[TriageItem]:
    """Return the open requests, the oldest first."""
    rows = list(QuotaRequest.objects.filter(state=OPEN).order_by("pk")[:MOST])
    names = project_names({row.project_id for row in rows}) if rows else {}
    return [_item(row, names.get(row.project_id, row.project_id[:8])) for row in rows]


def _item(row: QuotaRequest, project: str) -> TriageItem:
    return TriageItem(
        key=f"{PREFIX}{row.uuid}",
        kind=KIND,
        title=TITLE,
        name=project,
        level=WAITED_FOR,
        why=phrase("%(who)s requests more: %(reason)s", who=row.user_name, reason=row.reason),
        since=row.created_at,
        hurts=phrase("project %(project)s", project=project),
        hurt=1,
        state=row.state,
        project_id=row.project_id,
        no_advice=DECIDE,
    )
