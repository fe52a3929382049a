"""System pages for operators: health of each part, and every setting with its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.services.operations import system_health
from conductor.services.operations.system_health import DOWN, LOOK, OFF, UP, Component
from portal import setting_facts
from portal.pages.live_marks import live_marks
from portal.pages.permissions import PageRequest, operators_only
from portal.pages.status_badges import StatusBadge

BADGES = {
    UP: StatusBadge("good", "up"),
    LOOK: StatusBadge("waiting", "needs attention"),
    DOWN: StatusBadge("bad", "down"),
    OFF: StatusBadge("none", "not used"),
}


@dataclass(frozen=True)
class PartCard:
    """A part of the system with its badge."""

    part: Component
    badge: StatusBadge


@require_safe
@operators_only
def health(request: PageRequest) -> HttpResponse:
    """Show the health of every part of the cloud, the worst first."""
    context = {**live_marks("services", "list"), **health_context(request.caller)}
    return render(request, "operations/_health.html" if request.htmx else "operations/health.html", context)


def health_context(caller: RequestContext) -> dict[str, Any]:
    """Context of the live part."""
    found = system_health.survey(caller)
    cards = [PartCard(part, BADGES[part.state]) for part in found.parts]
    return {"caller": caller, "cards": cards, "bad": found.bad, "count": len(cards)}


@require_safe
@operators_only
def setting_list(request: PageRequest) -> HttpResponse:
    """Show the settings of this process; `q` filters by name and meaning, `set` to those that were set."""
    text = request.GET.get("q", "").strip()[:255]
    only_set = request.GET.get("set", "") == "1"
    sections = []
    for section in setting_facts.sections():
        rows = [
            one
            for one in section.settings
            if text.lower() in f"{one.name} {one.meaning}".lower()
            and (not only_set or one.source == setting_facts.FROM_SHELL)
        ]
        if rows:
            sections.append(setting_facts.Section(section.title, section.place, rows))
    context = {"sections": sections, "given": {"q": text, "set": only_set}, "is_narrowed": bool(text or only_set)}
    return render(request, "operations/_settings.html" if request.htmx else "operations/settings.html", context)
