"""Monthly budgets of projects: they are looked at now and then, and warn as their thresholds are crossed.

A budget stops nothing. Of the thresholds that a look finds crossed the highest is told, once in a month, to whoever
works in the project: by a notice in the bell and by an event in the log. A budget that is set anew begins anew.
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
from conductor.identity.models import Project
from conductor.journal import periodic_leases
from conductor.services import audit, costs, project_people, usage
from conductor.services.audit import Entry
from conductor.services.costs import Prices
from conductor.services.notifications import notices
from conductor.services.usage import UsageQuery
from conductor.services.values import Page
from conductor.transactions import database_now, one_at_a_time, write_tx

log = logging.getLogger(__name__)

NAME = "budgets"
EVERY_SECONDS = 300.0
HIGHEST = Decimal("999999999999.99")
CENT = Decimal("0.01")
USUAL_THRESHOLDS = (50, 80, 100)
MOST_THRESHOLDS = 10
HIGHEST_THRESHOLD = 1000
WHOLE = 100
# Which of all budgets to list.
STATES: Mapping[str, Q] = {
    "spent": Q(spent__gte=F("amount")),
    "will_be_spent": Q(spent__lt=F("amount"), forecast__gt=F("amount")),
    "within": Q(spent__lt=F("amount"), forecast__lte=F("amount")),
}
NONE_YET = 0  # the revision of a budget that is not there


@dataclass(frozen=True)
class BudgetView:
    """A project's budget for each month; `spent` and `forecast`, to the month's end, are as of `counted_at`."""

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
    """Operators, and who manages the project."""
    return context.is_admin or (project_id == context.project_id and "manager" in context.roles)


def project_name(context: RequestContext, project_id: str) -> str:
    """Raises NotFound also for another project's; operators see all."""
    return str(_project(context, project_id).name)


def get(context: RequestContext, project_id: str) -> BudgetView:
    """Raises NotFound also for another project's, and Forbidden for who has no role; operators see all."""
    project = _project(context, project_id)
    if not context.is_admin and "reader" not in context.roles:
        raise Forbidden("Who has no role in this project cannot see its budget.")
    row = Budget.objects.filter(project_id=project.id).first()
    if row is None:
        raise NotFound("This project has no budget.")
    return _view(row, str(project.name))


def list_of(context: RequestContext, *, state: str = "", limit: int = 100, marker: str = "") -> Page[BudgetView]:
    """Those of all projects, by the project's name; `marker` is the id of a project.

    Raises Forbidden for who is no operator, and Invalid for a state or marker that there is not.
    """
    if not context.is_admin:
        raise Forbidden("Budgets of all projects are for operators.")
    if state and state not in STATES:
        raise Invalid(f"state is one of {', '.join(STATES)}.", field="state")
    names = Project.objects.filter(id=OuterRef("project_id")).values("name")[:1]
    rows = Budget.objects.annotate(name=Subquery(names)).exclude(name=None)
    if marker:
        last = rows.filter(project_id=marker).first()
        if last is None:
            raise Invalid(f"Marker {marker[:60]} could not be found.", field="marker")
        rows = rows.filter(Q(name__gt=last.name) | Q(name=last.name, pk__gt=last.pk))
    found = list((rows.filter(STATES[state]) if state else rows).order_by("name", "pk")[: limit + 1])
    return Page([_view(row, row.name) for row in found[:limit]], has_more=len(found) > limit)


def put(
    context: RequestContext, project_id: str, amount: Decimal, thresholds: Collection[int], revision: int | None
) -> BudgetView:
    """Set the budget of a project. `revision` is the one that was seen, 0 where there was none; None for any.

    Raises NotFound, Forbidden, Invalid naming the field, StaleRevision, and Conflict where nothing has a price.
    """
    project = _require_setter(context, project_id)
    rates = costs.prices()
    if rates is None:
        raise Conflict("Nothing has a price here, so there is nothing to hold against a budget.")
    values = {
        "amount": _require_amount(amount),
        "thresholds": _require_thresholds(thresholds),
        "currency": rates.currency,
        "set_by": context.user_name,
    }
    with write_tx(API_ALIAS):
        row = _seen(project.id, revision)
        before = _told(row)
        row = row or Budget(project_id=project.id, revision=NONE_YET)
        for name, value in values.items():
            setattr(row, name, value)
        row.revision += 1
        row.told_percent = 0
        row.updated_at = database_now()
        row.save()
        _record(context, project.id, "set", before, _told(row))
    look([project.id])
    return get(context, project.id)


def remove(context: RequestContext, project_id: str, revision: int | None) -> None:
    """Raises NotFound, Forbidden and StaleRevision."""
    project = _require_setter(context, project_id)
    with write_tx(API_ALIAS):
        row = _seen(project.id, revision)
        if row is None:
            raise NotFound("This project has no budget.")
        _record(context, project.id, "remove", _told(row), {})
        row.delete()


def carry_out(owner: str) -> bool:
    """Look at all budgets if it is due and nobody else does it; whether this process did."""
    with periodic_leases.hold(API_ALIAS, NAME, owner, every_seconds=EVERY_SECONDS) as lease:
        if lease is None:
            return False
        look(before_write=lease.require)
    return True


def look(project_ids: Sequence[str] = (), *, before_write: Callable[[], None] = lambda: None) -> None:
    """Count what was spent of all budgets, or of these projects', and tell of the thresholds that were crossed.

    All projects are counted in one go. While a cell does not answer, what was known of the month still counts.
    `before_write` is called before each change, and ends the look by what it raises.
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
        crossed = [percent for percent in row.thresholds if row.spent * WHOLE >= row.amount * percent]
        if crossed:
            before_write()
            _tell(row, max(crossed), f"{now:%Y-%m}")


def _count(rows: Iterable[Budget], rates: Prices, now: datetime) -> bool:
    """Fill in what was spent and what it comes to; whether all cells have answered."""
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


def _tell(row: Budget, percent: int, month: str) -> None:
    """Once: whoever was first has told, and a budget that was set anew meanwhile is looked at anew."""
    if row.told_month == month and row.told_percent >= percent:
        return
    with write_tx(API_ALIAS):
        seen = {name: getattr(row, name) for name in ("pk", "revision", "told_month", "told_percent")}
        if not Budget.objects.filter(**seen).update(told_month=month, told_percent=percent):
            return
        amounts = {"spent": f"{row.spent:.2f}", "amount": f"{row.amount:.2f}", "currency": row.currency}
        subject = events.Subject(f"budget:{row.project_id}", row.project_id)
        said = f"{percent} %, {month}: {amounts['spent']} / {amounts['amount']} {row.currency}"
        kind = notices.BUDGET_SPENT if percent >= WHOLE else notices.BUDGET_CROSSED
        told = {"month": month, "percent": percent, **amounts, "said": f"{notices.SAID[kind]}: {said}"}
        events.append(API_ALIAS, subject, notices.BUDGET_CROSSED, told)
        key = f"budget:{row.pk}:{row.revision}:{month}:{percent}"
        for user_id in project_people.members(row.project_id):
            notices.tell(user_id, row.project_id, kind, uuid5(NAMESPACE_URL, f"{key}:{user_id}"), said)


def _project(context: RequestContext, project_id: str) -> Project:
    project = Project.objects.filter(pk=project_id).first() if context.may_see_project(project_id) else None
    if project is None:
        raise NotFound(f"Project {project_id[:60]} could not be found.")
    return project


def _require_setter(context: RequestContext, project_id: str) -> Project:
    project = _project(context, project_id)
    if not may_set(context, project_id):
        raise Forbidden("The budget of a project is set by who manages it and by operators.")
    return project


def _require_amount(amount: Decimal) -> Decimal:
    if not amount.is_finite() or not CENT <= amount <= HIGHEST or amount != amount.quantize(CENT):
        raise Invalid("Give an amount above 0, with two decimals at most, such as 500.00.", field="amount")
    return amount


def _require_thresholds(thresholds: Collection[int]) -> list[int]:
    wanted = sorted(set(thresholds))
    if len(wanted) > MOST_THRESHOLDS or any(not 1 <= percent <= HIGHEST_THRESHOLD for percent in wanted):
        text = f"Thresholds are at most {MOST_THRESHOLDS} percents from 1 to {HIGHEST_THRESHOLD}, such as 50, 80, 100."
        raise Invalid(text, field="thresholds")
    return wanted


def _seen(project_id: str, revision: int | None) -> Budget | None:
    """The row, which nobody else changes until this transaction ends; None where there is none."""
    one_at_a_time(API_ALIAS, f"budget:{project_id}")
    row = Budget.objects.select_for_update().filter(project_id=project_id).first()
    there = row.revision if row else NONE_YET
    if revision is not None and revision != there:
        raise StaleRevision(f"The budget was changed meanwhile: revision {there}, not {revision}.")
    return row


def _told(row: Budget | None) -> Mapping[str, Any]:
    if row is None:
        return {}
    return {"amount": f"{row.amount:.2f}", "currency": row.currency, "thresholds": row.thresholds}


def _record(
    context: RequestContext, project_id: str, verb: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    details = {"before": before, "after": after}
    audit.record(API_ALIAS, context, Entry(action=f"budget.{verb}", project_id=project_id, details=details))


def _view(row: Budget, project_name: str) -> BudgetView:
    shown = ("project_id", "amount", "currency", "thresholds", "spent", "forecast", "counted_at", "revision")
    plain: dict[str, Any] = {name: getattr(row, name) for name in (*shown, "set_by", "updated_at")}
    return BudgetView(project_name=project_name, **plain)
