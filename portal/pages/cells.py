"""The cells and how they are, for operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.services import cell_health
from conductor.services.cell_health import CellHealth
from portal.pages.access import PageRequest, operators_only
from portal.pages.faces import Face
from portal.pages.live_marks import live_marks


@dataclass(frozen=True)
class CellCard:
    """A cell with its face."""

    cell: CellHealth
    face: Face


@require_safe
@operators_only
def cell_list(request: PageRequest) -> HttpResponse:
    """Every cell with what is wrong with it, and the work at the API level."""
    context = {**live_marks("cells", "list"), **list_context(request.asker)}
    return render(request, "cells/_list.html" if request.htmx else "cells/list.html", context)


def list_context(asker: RequestContext) -> dict[str, Any]:
    """Context of the live part."""
    health = cell_health.survey(asker)
    cards = [CellCard(one, face_of(one)) for one in health.cells]
    down = sum(not one.is_up for one in health.cells)
    troubled = sum(bool(one.troubles) for one in health.cells)
    count = ngettext("%(count)s cell", "%(count)s cells", len(cards)) % {"count": len(cards)}
    none = gettext("none")
    said = {"cells": count, "down": down or none, "troubled": troubled or none}
    words = gettext("%(cells)s; %(down)s down; %(troubled)s to look at.") % said
    return {"asker": asker, "cards": cards, "api": health.api_backlog, "sentence": words}


def face_of(cell: CellHealth) -> Face:
    """Down, up with something wrong, or up."""
    if not cell.is_up:
        return Face("bad", "down")
    if cell.is_disabled:
        return Face("waiting", "closed", "to new servers")
    return Face("waiting", "up", "look at it") if cell.troubles else Face("good", "up")
