"""Projects that have asked for more quota, and have no answer yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from conductor.api_db.models import QuotaRequest
from conductor.core.phrases import phrase
from conductor.services.quota_requests import OPEN
from conductor.services.triage.values import WAITED_FOR, TriageItem

PREFIX = "quota_request:"
KIND = "quota_request"
TITLE = phrase("Quota request waits")
MOST = 100
DECIDE = phrase("Approve it or refuse it among the quota requests.")


def found(project_names: Callable[[set[str]], Mapping[str, str]]) -> list[TriageItem]:
    """The open requests, the oldest first."""
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
        why=phrase("%(who)s asks for more: %(reason)s", who=row.user_name, reason=row.reason),
        since=row.created_at,
        hurts=phrase("the project %(project)s", project=project),
        hurt=1,
        state=row.state,
        project_id=row.project_id,
        no_advice=DECIDE,
    )
