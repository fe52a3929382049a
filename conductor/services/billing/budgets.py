"""Monthly budgets of projects. They are checked periodically, with a warning when a threshold is crossed.

A budget stops nothing. A check reports the highest threshold crossed, once a month, to the members of the project: as a
notice and as an event in the log. Changing a budget starts its warnings anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from django.db.models import F, OuterRef, Q, Subquery

from conductor import events
from conductor.api_db.models import Budget
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext, system_context
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, StaleRevision
from conductor.core.messages import message
from conductor.core.page import Page
from conductor.core.phrases import phrase
from conductor.db.transactions import database_now, one_at_a_time, write_tx
from conductor.identity.models import Project
from conductor.journal import periodic_leases
from conductor.services.accounts import credentials
from conductor.services.audit import audit
from conductor.services.audit.audit import AuditEntry
from conductor.services.billing import costs, usage
from conductor.services.billing.costs import Prices
from conductor.services.billing.usage import UsageQuery
from conductor.services.notifications import notices

log = logging.getLogger(__name__)

NAME = "budgets"
EVERY_SECONDS = 300.0
HIGHEST = Decimal("999999999999.99")
CENT = Decimal("0.01")
DEFAULT_THRESHOLDS = (50, 80, 100)
MOST_THRESHOLDS = 10
HIGHEST_THRESHOLD = 1000
WHOLE = 100
# Which of all budgets to list.
STATES: Mapping[str, Q] = {
    "spent": Q(spent__gte=F("amount")),
    "will_be_spent": Q(spent__lt=F("amount"), forecast__gt=F("amount")),
    "within": Q(spent__lt=F("amount"), forecast__lte=F("amount")),
}
NONE_YET = 0  # the revision of a budget that does not exist


@dataclass(frozen=True)
class BudgetView:
    """A project's budget for each month. `spent`, and the `forecast` for the month's end, are as of `counted_at`."""

    project_id: str
    project_name: str
    amount: Decimal
    currency: str
    thresholds: list[int]
    spent: Decimal
    forecast: Decimal
    counted_at: datetime | None
    revision: int
    set_by: str
    updated_at: datetime


def may_set(context: RequestContext, project_id: str) -> bool:
    """Whether the caller may set the project's budget: operators and managers of the project."""
    return context.is_admin or (project_id == context.project_id and "manager" in context.roles)


def project_name(context: RequestContext, project_id: str) -> str:
    """Return a project's name. Raises NotFound also for another project's, except for operators."""
    return str(_project(context, project_id).name)


def get(context: RequestContext, project_id: str) -> BudgetView:
    """Return a project's budget.

    Raises:
        NotFound: there is none, or it is another project's and the caller is not an operator.
        Forbidden: the caller has no role in the project.
    """
    project = _project(context, project_id)
    if not context.is_admin and "reader" not in context.roles:
        raise Forbidden(phrase("You need a role in this project to see its budget."))
    row = Budget.objects.filter(project_id=project.id).first()
    if row is None:
        raise NotFound(phrase("This project has no budget."))
    return _view(row, str(project.name))


def list_of(context: RequestContext, *, state: str = "", limit: int = 100, marker: str = "") -> Page[BudgetView]:
    """Return the budgets of all projects, by the project's name; `marker` is the id of a project.

    Raises Forbidden for callers other than operators, and Invalid for an unknown state or marker.
    """
    if not context.is_admin:
        raise Forbidden(phrase("Only operators can see budgets of all projects."))
    if state and state not in STATES:
        raise Invalid(phrase("state must be one of %(choices)s.", choices=", ".join(STATES)), field="state")
    names = Project.objects.filter(id=OuterRef("project_id")).values("name")[:1]
    rows = Budget.objects.annotate(name=Subquery(names)).exclude(name=None)
    if marker:
        last = rows.filter(project_id=marker).first()
        if last is None:
            raise Invalid(phrase("Marker %(marker)s could not be found.", marker=marker[:60]), field="marker")
        rows = rows.filter(Q(name__gt=last.name) | Q(name=last.name, pk__gt=last.pk))
    found = list((rows.filter(STATES[state]) if state else rows).order_by("name", "pk")[: limit + 1])
    return Page([_view(row, row.name) for row in found[:limit]], has_more=len(found) > limit)


def put(
    context: RequestContext, project_id: str, amount: Decimal, thresholds: Collection[int], revision: int | None
) -> BudgetView:
    """Set the budget of a project.

    Args:
        revision: The revision that the caller saw, 0 where there was none. None for any.

    Raises:
        NotFound, Forbidden: the caller must not see or set it.
        Invalid: a field is invalid; the error names it.
        StaleRevision: the budget has changed since.
        Conflict: nothing has a price.
    """
    project = _require_setter(context, project_id)
    rates = costs.prices()
    if rates is None:
        raise Conflict("Pricing isn't configured, so budgets aren't available.")
    values = {
        "amount": _require_amount(amount),
        "thresholds": _require_thresholds(thresholds),
        "currency": rates.currency,
        "set_by": context.user_name,
    }
    with write_tx(API_ALIAS):
        row = _seen(project.id, revision)
        before = _audited(row)
        row = row or Budget(project_id=project.id, revision=NONE_YET)
        for name, value in values.items():
            setattr(row, name, value)
        row.revision += 1
        row.notified_percent = 0
        row.updated_at = database_now()
        row.save()
        _record(context, project.id, "set", before, _audited(row))
    look([project.id])
    return get(context, project.id)


def remove(context: RequestContext, project_id: str, revision: int | None) -> None:
    """Remove a project's budget. Raises NotFound, Forbidden and StaleRevision."""
    project = _require_setter(context, project_id)
    with write_tx(API_ALIAS):
        row = _seen(project.id, revision)
        if row is None:
            raise NotFound(phrase("This project has no budget."))
        _record(context, project.id, "remove", _audited(row), {})
        row.delete()


def carry_out(owner: str) -> bool:
    """Check all budgets if that is due and no other process does it. Return whether this process did."""
    with periodic_leases.hold(API_ALIAS, NAME, owner, every_seconds=EVERY_SECONDS) as lease:
        if lease is None:
            return False
        look(before_write=lease.require)
    return True


def look(project_ids: Sequence[str] = (), *, before_write: Callable[[], None] = lambda: None) -> None:
    """Compute the spending of all budgets, or of these projects', and report the thresholds that were crossed.

    All projects are counted at once. While a cell is down, the last known spending of the month still counts.
    `before_write` is called before each change, and ends the check by raising.
    """
    rates = costs.prices()
    if rates is None:
        return
    rows = Budget.objects.filter(currency=rates.currency, project_id__in=Project.objects.values("id"))
    kept = list(rows.filter(project_id__in=project_ids) if project_ids else rows)
    if not kept:
        return
    now = usage.now()
    is_whole = _count(kept, rates, now)
    for row in kept:
        row.counted_at = now if is_whole else row.counted_at
    before_write()
    with write_tx(API_ALIAS):
        Budget.objects.bulk_update(kept, ["spent", "forecast", "counted_at"])
    for row in kept:
        reached = [percent for percent in row.thresholds if row.spent * WHOLE >= row.amount * percent]
        if reached:
            before_write()
            _notify(row, max(reached), f"{now:%Y-%m}")


def _count(rows: Iterable[Budget], rates: Prices, now: datetime) -> bool:
    """Fill in the spending and the forecast. Return whether all cells responded."""
    by_project = {row.project_id: row for row in rows}
    begin = costs.month_of(now)
    found = usage.servers(system_context(), UsageQuery(begin, now, project_ids=tuple(by_project)))
    lines: dict[str, list[costs.CostLine]] = {project_id: [] for project_id in by_project}
    for line in costs.lines(found.items, rates):
        lines[line.server.project_id].append(line)
    for project_id, row in by_project.items():
        spent, forecast = costs.pace(lines[project_id], rates, now)
        if found.missing_cells and row.counted_at is not None and row.counted_at >= begin:
            spent, forecast = max(spent, row.spent), max(forecast, row.forecast)
        row.spent, row.forecast = spent, forecast
    return not found.missing_cells


def _notify(row: Budget, percent: int, month: str) -> None:
    """Report a crossed threshold once. Skipped if another process did, or if the budget was changed meanwhile."""
    if row.notified_month == month and row.notified_percent >= percent:
        return
    with write_tx(API_ALIAS):
        seen = {name: getattr(row, name) for name in ("pk", "revision", "notified_month", "notified_percent")}
        if not Budget.objects.filter(**seen).update(notified_month=month, notified_percent=percent):
            return
        amounts = {"spent": f"{row.spent:.2f}", "amount": f"{row.amount:.2f}", "currency": row.currency}
        subject = events.EventSubject(f"budget:{row.project_id}", row.project_id)
        text = f"{percent} %, {month}: {amounts['spent']} / {amounts['amount']} {row.currency}"
        kind = notices.BUDGET_SPENT if percent >= WHOLE else notices.BUDGET_WARNING
        fields = {"month": month, "percent": percent, **amounts, "sentence": f"{notices.TITLES[kind]}: {text}"}
        events.append(API_ALIAS, subject, notices.BUDGET_WARNING, fields)
        key = f"budget:{row.pk}:{row.revision}:{month}:{percent}"
        for user_id in credentials.members(row.project_id):
            notices.notify(user_id, row.project_id, kind, uuid5(NAMESPACE_URL, f"{key}:{user_id}"), text)


def _project(context: RequestContext, project_id: str) -> Project:
    project = Project.objects.filter(pk=project_id).first() if context.may_see_project(project_id) else None
    if project is None:
        raise NotFound(phrase("Project %(project)s could not be found.", project=project_id[:60]))
    return project


def _require_setter(context: RequestContext, project_id: str) -> Project:
    project = _project(context, project_id)
    if not may_set(context, project_id):
        raise Forbidden("Project managers and operators set the budget.")
    return project


def _require_amount(amount: Decimal) -> Decimal:
    if not amount.is_finite() or not CENT <= amount <= HIGHEST or amount != amount.quantize(CENT):
        raise Invalid(message("budget.amount"), field="amount")
    return amount


def _require_thresholds(thresholds: Collection[int]) -> list[int]:
    wanted = sorted(set(thresholds))
    if len(wanted) > MOST_THRESHOLDS or any(not 1 <= percent <= HIGHEST_THRESHOLD for percent in wanted):
        text = message("budget.thresholds", most=MOST_THRESHOLDS, highest=HIGHEST_THRESHOLD)
        raise Invalid(text, field="thresholds")
    return wanted


def _seen(project_id: str, revision: int | None) -> Budget | None:
    """Return the row, locked until this transaction ends. None where there is none."""
    one_at_a_time(API_ALIAS, f"budget:{project_id}")
    row = Budget.objects.select_for_update().filter(project_id=project_id).first()
    there = row.revision if row else NONE_YET
    if revision is not None and revision != there:
        raise StaleRevision(message("budget.changed", newest=there, revision=revision))
    return row


def _audited(row: Budget | None) -> Mapping[str, Any]:
    if row is None:
        return {}
    return {"amount": f"{row.amount:.2f}", "currency": row.currency, "thresholds": row.thresholds}


def _record(
    context: RequestContext, project_id: str, verb: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    details = {"before": before, "after": after}
    audit.record(API_ALIAS, context, AuditEntry(action=f"budget.{verb}", project_id=project_id, details=details))


def _view(row: Budget, project_name: str) -> BudgetView:
    shown = ("project_id", "amount", "currency", "thresholds", "spent", "forecast", "counted_at", "revision")
    plain: dict[str, Any] = {name: getattr(row, name) for name in (*shown, "set_by", "updated_at")}
    return BudgetView(project_name=project_name, **plain)
