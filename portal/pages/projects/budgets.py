"""A project's monthly budget: its bar on pages, and the form that sets it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_safe

from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, NovellaError, StaleRevision
from conductor.services.billing import budgets, costs
from conductor.services.billing.budgets import DEFAULT_THRESHOLDS, BudgetView
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, operators_only, signed_in
from portal.pages.status_badges import StatusBadge

STATUS: tuple[tuple[type[NovellaError], int], ...] = (
    (StaleRevision, 412),
    (Conflict, 409),
    (Forbidden, 403),
    (Invalid, 400),
)
REFUSALS = tuple(kind for kind, _ in STATUS)
LONGEST_TYPED = 120
PER_PAGE = 50
BADGES = {
    "spent": StatusBadge("bad", "spent"),
    "will_be_spent": StatusBadge("waiting", "forecast over budget"),
    "within": StatusBadge("good", "within the budget"),
}


@dataclass(frozen=True)
class BudgetBar:
    """The budget's bar: amount spent, forecast for the month, and the budget, as shares of one bar."""

    budget: BudgetView

    @property
    def _whole(self) -> Decimal:
        return max(self.budget.amount, self.budget.forecast, self.budget.spent)

    @property
    def spent_share(self) -> float:
        return float(self.budget.spent / self._whole)

    @property
    def more_share(self) -> float:
        return float(max(self.budget.forecast, self.budget.spent) / self._whole) - self.spent_share

    @property
    def end_share(self) -> float:
        return float(self.budget.amount / self._whole)

    @property
    def percent(self) -> Decimal:
        return self.budget.spent * 100 / self.budget.amount

    @property
    def is_spent(self) -> bool:
        return self.budget.spent >= self.budget.amount

    @property
    def will_be_spent(self) -> bool:
        return not self.is_spent and self.budget.forecast > self.budget.amount

    @property
    def is_of_now(self) -> bool:
        """Whether the operator's prices still have the currency of the budget."""
        rates = costs.prices()
        return rates is not None and rates.currency == self.budget.currency


def budget_context(request: PageRequest) -> dict[str, Any]:
    """Context about the current project: its bar, None without a budget, and whether the caller may set it."""
    project_id = request.caller.project_id
    try:
        bar = BudgetBar(budgets.get(request.caller, project_id))
    except (NotFound, Forbidden):
        bar = None
    return {"budget_bar": bar, "may_set_budget": budgets.may_set(request.caller, project_id)}


@require_safe
@operators_only
def budget_list(request: PageRequest) -> HttpResponse:
    """List the budgets of all projects, by name; `state` filters."""
    state = request.GET.get("state", "")
    page = budgets.list_of(request.caller, state=state, limit=PER_PAGE, marker=request.GET.get("marker", "")[:64])
    kept = {"state": state} if state else {}
    following = {**kept, "marker": page.items[-1].project_id} if page.has_more else {}
    context = {
        "bars": [(bar, _badge(bar)) for bar in map(BudgetBar, page.items)],
        "states": [("", "All"), *((name, badge.word) for name, badge in BADGES.items())],
        "state": state,
        "next_url": f"{reverse('budgets')}?{urlencode(following)}" if following else "",
        "first_url": f"{reverse('budgets')}?{urlencode(kept)}" if request.GET.get("marker") else "",
        "prices": costs.prices(),
    }
    return render(request, "projects/budgets.html", context)


def _badge(bar: BudgetBar) -> StatusBadge:
    return BADGES["spent" if bar.is_spent else "will_be_spent" if bar.will_be_spent else "within"]


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def budget(request: PageRequest, project_id: str) -> HttpResponse:
    """Set a project's budget, or remove it; typed values stay after an error. Raises NotFound."""
    project = budgets.project_name(request.caller, project_id)
    if request.method != "POST":
        return _form(request, project_id, project)
    try:
        if "remove" in request.POST:
            budgets.remove(request.caller, project_id, _revision(request))
            sentence = gettext("Budget of {name} removed.")
        else:
            budgets.put(request.caller, project_id, _amount(request), _thresholds(request), _revision(request))
            sentence = gettext("Budget of {name} set.")
    except REFUSALS as error:
        return _form(request, project_id, project, error)
    leave_note(request, sentence.format(name=project), "good")
    return redirect("usage") if project_id == request.caller.project_id else redirect("budget", project_id)


def _form(request: PageRequest, project_id: str, project_name: str, error: NovellaError | None = None) -> HttpResponse:
    try:
        found = budgets.get(request.caller, project_id)
    except NotFound:
        found = None
    rates = costs.prices()
    thresholds = " ".join(str(percent) for percent in (found.thresholds if found else DEFAULT_THRESHOLDS))
    context = {
        "project_id": project_id,
        "project_name": project_name,
        "is_own": project_id == request.caller.project_id,
        "bar": BudgetBar(found) if found else None,
        "prices": rates,
        "may_set": budgets.may_set(request.caller, project_id) and rates is not None,
        "amount": request.POST.get("amount", f"{found.amount}" if found else "")[:LONGEST_TYPED],
        "thresholds": request.POST.get("thresholds", thresholds)[:LONGEST_TYPED],
        "revision": found.revision if found else budgets.NONE_YET,
        "problem": error.message if error else "",
        "wrong": str(error.details.get("field", "")) if error else "",
    }
    status = next((status for kind, status in STATUS if isinstance(error, kind)), 200)
    return render(request, "projects/budget.html", context, status=status)


def _amount(request: PageRequest) -> Decimal:
    try:
        return Decimal(request.POST.get("amount", "").strip()[:LONGEST_TYPED].replace(",", "."))
    except InvalidOperation:
        return Decimal(0)  # the service refuses 0 with a message on the format of amounts


def _thresholds(request: PageRequest) -> list[int]:
    words = request.POST.get("thresholds", "")[:LONGEST_TYPED].replace(",", " ").replace("%", " ").split()
    return [int(word) if word.isascii() and word.isdigit() else 0 for word in words]


def _revision(request: PageRequest) -> int:
    sent = request.POST.get("revision", "")[:9]
    return int(sent) if sent.isascii() and sent.isdigit() else budgets.NONE_YET
