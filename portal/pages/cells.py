"""The cells and how they are, for operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NovellaError
from conductor.services import cell_deeds, cell_health
from conductor.services.cell_health import CellHealth
from conductor.services.host_deeds import Offer
from portal.pages.access import PageRequest, operators_only
from portal.pages.amounts import decimal
from portal.pages.faces import Face
from portal.pages.live_marks import live_marks

CLOSED = Face("waiting", "closed", "to new servers")


@dataclass(frozen=True)
class CellCard:
    """A cell with its face, and what can be done to it."""

    cell: CellHealth
    face: Face
    offers: list[Offer]


@require_safe
@operators_only
def cell_list(request: PageRequest) -> HttpResponse:
    """Every cell with what is wrong with it, and the work at the API level."""
    context = {**live_marks("cells", "list"), **list_context(request.asker)}
    return render(request, "cells/_list.html" if request.htmx else "cells/list.html", context)


def list_context(asker: RequestContext) -> dict[str, Any]:
    """Context of the live part."""
    health = cell_health.survey(asker)
    cards = [_card(one) for one in health.cells]
    down = sum(not one.is_up for one in health.cells)
    troubled = sum(bool(one.troubles) for one in health.cells)
    count = ngettext("%(count)s cell", "%(count)s cells", len(cards)) % {"count": len(cards)}
    none = gettext("none")
    said = {"cells": count, "down": down or none, "troubled": troubled or none}
    words = gettext("%(cells)s; %(down)s down; %(troubled)s to look at.") % said
    return {"asker": asker, "cards": cards, "api": health.api_backlog, "sentence": words}


def _card(cell: CellHealth) -> CellCard:
    offers = cell_deeds.offers(cell)
    return CellCard(cell, face_of(cell), [one for one in offers if one.enabled])


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def cell_deed(request: PageRequest, name: str, deed: str) -> HttpResponse:
    """Asks for the reason, then does it."""
    if request.method != "POST":
        return _form(request, name, cell_deeds.offer(request.asker, name, deed), None)
    try:
        said = cell_deeds.do(request.asker, name, deed, reason=request.POST.get("reason", ""))
    except (Invalid, Conflict) as error:
        return _form(request, name, cell_deeds.offer(request.asker, name, deed), error)
    messages.add_message(request, messages.INFO, said, extra_tags="good")
    return redirect("cells")


def _form(request: PageRequest, name: str, offer: Offer, error: NovellaError | None) -> HttpResponse:
    context = {
        "asker": request.asker,
        "name": name,
        "back": reverse("cells"),
        "offer": offer,
        "form": {"reason": request.POST.get("reason", "")},
        "problem": error.message if error else "",
        "wrong": error.details.get("field", "") if error else "",
    }
    status = 200 if error is None else 400 if isinstance(error, Invalid) else 409
    return render(request, "components/deed.html", context, status=status)


@require_POST
@operators_only
def try_call(request: PageRequest, name: str) -> HttpResponse:
    """Asks the cell now, and says what it answered."""
    cell = cell_health.get(request.asker, name)
    tags = "good" if cell.is_up and not cell.troubles else "waiting" if cell.is_up else "bad"
    messages.add_message(request, messages.INFO, _answer(cell), extra_tags=tags)
    return redirect("cells")


def _answer(cell: CellHealth) -> str:
    """What a test call found, in a sentence."""
    if not cell.is_up:
        said = {"cell": cell.name, "failure": cell.failure}
        return gettext("The database of %(cell)s does not answer: %(failure)s") % said
    sentence = gettext(
        "The database of %(cell)s answered within %(ms)s ms. Heard are %(conductors_up)s of %(conductors)s conductors "
        "and %(computes_up)s of %(computes)s compute hosts."
    )
    heard = {name: getattr(cell, name) for name in ("conductors_up", "conductors", "computes_up", "computes")}
    return sentence % {"cell": cell.name, "ms": decimal(cell.answered_ms), **heard}


def face_of(cell: CellHealth) -> Face:
    """Down, cut off, closed, up with something wrong, or up."""
    if not cell.is_up:
        return Face("bad", "down")
    if cell.is_quarantined:
        return Face("bad", "in quarantine", cell.quarantine_reason)
    if cell.is_disabled:
        return Face("waiting", "closed", cell.disabled_reason) if cell.disabled_reason else CLOSED
    return Face("waiting", "up", "look at it") if cell.troubles else Face("good", "up")
