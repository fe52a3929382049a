"""Cells and their health, for operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NovellaError
from conductor.services.cells import actions as cell_actions
from conductor.services.cells import health as cell_health
from conductor.services.cells.health import CellHealth
from conductor.services.fleet.host_actions import AvailableAction
from portal.pages.amounts import decimal
from portal.pages.live_marks import live_marks
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, operators_only
from portal.pages.status_badges import StatusBadge

CLOSED = StatusBadge("waiting", "closed", "to new servers")


@dataclass(frozen=True)
class CellCard:
    """A cell with its badge, and the actions on it."""

    cell: CellHealth
    badge: StatusBadge
    actions: list[AvailableAction]


@require_safe
@operators_only
def cell_list(request: PageRequest) -> HttpResponse:
    """Show every cell with its problems, and the work at the API level."""
    context = {**live_marks("cells", "list"), **list_context(request.caller)}
    return render(request, "hosts/_cells.html" if request.htmx else "hosts/cells.html", context)


def list_context(caller: RequestContext) -> dict[str, Any]:
    """Context of the live part."""
    health = cell_health.survey(caller)
    cards = [_card(one) for one in health.cells]
    down = sum(not one.is_up for one in health.cells)
    troubled = sum(bool(one.troubles) for one in health.cells)
    count = ngettext("%(count)s cell", "%(count)s cells", len(cards)) % {"count": len(cards)}
    none = gettext("none")
    values = {"cells": count, "down": down or none, "troubled": troubled or none}
    words = gettext("%(cells)s; %(down)s down; %(troubled)s need attention.") % values
    return {"caller": caller, "cards": cards, "api": health.api_backlog, "sentence": words}


def _card(cell: CellHealth) -> CellCard:
    actions = cell_actions.list_actions(cell)
    return CellCard(cell, badge_of(cell), [one for one in actions if one.enabled])


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def cell_action(request: PageRequest, name: str, action_id: str) -> HttpResponse:
    """Ask for the reason, then carry out the action."""
    if request.method != "POST":
        return _form(request, name, cell_actions.get_action(request.caller, name, action_id), None)
    try:
        values = cell_actions.execute(request.caller, name, action_id, reason=request.POST.get("reason", ""))
    except (Invalid, Conflict) as error:
        return _form(request, name, cell_actions.get_action(request.caller, name, action_id), error)
    leave_note(request, values, "good")
    return redirect("cells")


def _form(request: PageRequest, name: str, action: AvailableAction, error: NovellaError | None) -> HttpResponse:
    context = {
        "caller": request.caller,
        "name": name,
        "back": reverse("cells"),
        "action": action,
        "form": {"reason": request.POST.get("reason", "")},
        "problem": error.message if error else "",
        "wrong": error.details.get("field", "") if error else "",
    }
    status = 200 if error is None else 400 if isinstance(error, Invalid) else 409
    return render(request, "hosts/confirm.html", context, status=status)


@require_POST
@operators_only
def try_call(request: PageRequest, name: str) -> HttpResponse:
    """Check the cell now, and show the result."""
    cell = cell_health.get(request.caller, name)
    tags = "good" if cell.is_up and not cell.troubles else "waiting" if cell.is_up else "bad"
    leave_note(request, _answer(cell), tags)
    return redirect("cells")


def _answer(cell: CellHealth) -> str:
    """Return the result of a check, in a sentence."""
    if not cell.is_up:
        values = {"cell": cell.name, "failure": cell.failure}
        return gettext("The database of %(cell)s doesn't respond: %(failure)s") % values
    sentence = gettext(
        "The database of %(cell)s responded within %(ms)s ms. Up: %(conductors_up)s of %(conductors)s "
        "conductors, %(computes_up)s of %(computes)s compute hosts."
    )
    heard = {name: getattr(cell, name) for name in ("conductors_up", "conductors", "computes_up", "computes")}
    return sentence % {"cell": cell.name, "ms": decimal(cell.answered_ms), **heard}


def badge_of(cell: CellHealth) -> StatusBadge:
    """Return the badge: down, quarantined, closed, up with problems, or up."""
    if not cell.is_up:
        return StatusBadge("bad", "down")
    if cell.is_quarantined:
        return StatusBadge("bad", "in quarantine", cell.quarantine_reason)
    if cell.is_disabled:
        return StatusBadge("waiting", "closed", cell.disabled_reason) if cell.disabled_reason else CLOSED
    return StatusBadge("waiting", "up", "needs attention") if cell.troubles else StatusBadge("good", "up")
