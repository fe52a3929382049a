"""Findings of the reconciler, for operators: discrepancies, since when they exist, and how they were repaired."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q, QuerySet

from conductor.api_db.models import Finding
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, Invalid
from conductor.core.identifiers import uuid_or_none
from conductor.core.page import Page
from conductor.core.phrases import phrase
from conductor.services.operations.reconciliation.finding import Severity
from conductor.services.operations.reconciliation.kinds import BY_NAME

STATES = {
    "open": Q(repaired_at__isnull=True, gone_at__isnull=True),
    "repaired": Q(repaired_at__isnull=False),
    "gone": Q(gone_at__isnull=False),
}


@dataclass(frozen=True, kw_only=True)
class FindingQuery:
    """Filters for findings; empty fields do not narrow, except that `state` is then "open"."""

    state: str = ""
    kind: str = ""
    severity: str = ""
    cell: str = ""
    instance_uuid: str = ""
    limit: int = 100
    marker: str = ""


@dataclass(frozen=True)
class FindingView:
    """One finding. `may_be_repaired` means that the reconciler repairs this kind where it can."""

    uuid: str
    kind: str
    title: str
    severity: str
    state: str
    subject: str
    cell: str
    instance_uuid: str
    detail: str
    outcome: str
    may_be_repaired: bool
    times_seen: int
    first_seen_at: datetime
    last_seen_at: datetime


def list_findings(context: RequestContext, query: FindingQuery) -> Page[FindingView]:
    """Return findings, newest first.

    Raises Forbidden for callers other than operators, Invalid for an unknown filter.
    """
    _require_operator(context)
    rows = _narrowed(query)
    if query.marker:
        marker = uuid_or_none(query.marker)
        anchor = Finding.objects.filter(uuid=marker).first() if marker else None
        if anchor is None:
            raise Invalid(phrase("Marker %(marker)s could not be found.", marker=query.marker[:60]), field="marker")
        rows = rows.filter(pk__lt=anchor.pk)
    found = list(rows.order_by("-pk")[: query.limit + 1])
    return Page(items=[_view(row) for row in found[: query.limit]], has_more=len(found) > query.limit)


def counts(context: RequestContext) -> dict[str, int]:
    """Return the number of open findings by kind. Raises Forbidden for callers other than operators."""
    _require_operator(context)
    rows = Finding.objects.filter(STATES["open"]).values_list("kind").annotate(count=Count("pk"))
    return dict(rows.order_by("kind"))


def _require_operator(context: RequestContext) -> None:
    if not context.is_admin:
        raise Forbidden(phrase("Only operators can see findings."))


def _narrowed(query: FindingQuery) -> QuerySet[Finding]:
    state = query.state or "open"
    for name, value, known in (
        ("state", state, STATES), ("kind", query.kind, BY_NAME), ("severity", query.severity, tuple(Severity)),
    ):  # fmt: skip
        if value and value not in known:
            raise Invalid(
                phrase(
                    "Unknown %(name)s %(value)s. Use one of %(choices)s.",
                    name=name,
                    value=value[:60],
                    choices=", ".join(known),
                ),
                field=name,
            )
    wanted = STATES[state]
    for name in ("kind", "severity", "cell"):
        if getattr(query, name):
            wanted &= Q(**{name: getattr(query, name)})
    if query.instance_uuid:
        uuid = uuid_or_none(query.instance_uuid)
        if uuid is None:
            raise Invalid(phrase("%(text)s is not a UUID.", text=query.instance_uuid[:60]), field="instance_uuid")
        wanted &= Q(instance_uuid=uuid)
    return Finding.objects.filter(wanted)


def _view(row: Finding) -> FindingView:
    kind = BY_NAME.get(row.kind)  # a kind of an earlier version may not exist any more
    return FindingView(
        uuid=str(row.uuid),
        kind=row.kind,
        title=kind.title if kind else row.kind,
        severity=row.severity,
        state="repaired" if row.repaired_at else "gone" if row.gone_at else "open",
        subject=row.subject,
        cell=row.cell,
        instance_uuid=str(row.instance_uuid or ""),
        detail=row.detail,
        outcome=row.outcome,
        may_be_repaired=kind is not None and kind.repair is not None,
        times_seen=row.times_seen,
        first_seen_at=row.first_seen_at,
        last_seen_at=row.last_seen_at,
    )
