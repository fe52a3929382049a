"""Open findings of the reconciler: leaks and other discrepancies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from conductor.api_db.models import Finding, InstanceMapping
from conductor.core.phrases import phrase
from conductor.services.operations.findings import STATES
from conductor.services.operations.reconciliation.finding import Severity
from conductor.services.operations.reconciliation.kinds import BY_NAME
from conductor.services.operations.triage.values import LEFT_BEHIND, SURE, UNTIDY, Advice, TriageItem

PREFIX = "finding:"
MOST_FINDINGS = 500
NOTHING = phrase("Can't be repaired automatically. Decide which state is correct.")
REPAIR = Advice("repair", "Repair now", "Applies the reconciler's next repair now.", SURE)


def found(project_names: Callable[[set[str]], Mapping[str, str]]) -> list[TriageItem]:
    """Return the open findings, critical ones before the others."""
    rows = list(Finding.objects.filter(STATES["open"]).order_by("severity", "first_seen_at")[:MOST_FINDINGS])
    uuids = [row.instance_uuid for row in rows if row.instance_uuid]
    mappings = InstanceMapping.objects.filter(instance_uuid__in=uuids)
    projects: dict[UUID, str] = dict(mappings.values_list("instance_uuid", "project_id"))
    names = project_names(set(projects.values()))
    return [_item(row, projects, names) for row in rows]


def _item(row: Finding, projects: Mapping[UUID, str], names: Mapping[str, str]) -> TriageItem:
    kind = BY_NAME.get(row.kind)
    project_id = projects.get(row.instance_uuid, "") if row.instance_uuid else ""
    may_repair = kind is not None and kind.repair is not None
    message = f" {row.outcome}" if row.outcome else ""
    return TriageItem(
        key=f"{PREFIX}{row.uuid}",
        kind=row.kind,
        title=kind.title if kind else row.kind.replace("_", " ").capitalize(),
        name=row.subject,
        level=LEFT_BEHIND if row.severity == Severity.CRITICAL else UNTIDY,
        why=f"{row.detail}{message}",
        since=row.first_seen_at,
        hurts=_hurts(names.get(project_id, project_id[:8])),
        hurt=1 if project_id else 0,
        state=row.severity,
        cell=row.cell,
        finding_uuid=str(row.uuid),
        instance_uuid=str(row.instance_uuid or ""),
        project_id=project_id,
        advice=REPAIR if may_repair else None,
        no_advice="" if may_repair else NOTHING,
    )


def _hurts(project: str) -> str:
    return phrase("a server of %(project)s", project=project) if project else phrase("unknown")
