"""The system as operators see it: how each part is, and every setting with where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.services import system_health
from conductor.services.system_health import DOWN, LOOK, OFF, UP, Component
from portal import setting_facts
from portal.pages.access import PageRequest, operators_only
from portal.pages.faces import Face
from portal.pages.live_marks import live_marks

FACES = {
    UP: Face("good", "up"),
    LOOK: Face("waiting", "look at it"),
    DOWN: Face("bad", "down"),
    OFF: Face("none", "not used"),
}


@dataclass(frozen=True)
class PartCard:
    """A part with its face."""

    part: Component
    face: Face


@require_safe
@operators_only
def health(request: PageRequest) -> HttpResponse:
    """Every part of the cloud, the worst first."""
    context = {**live_marks("services", "list"), **health_context(request.asker)}
    return render(request, "system/_health.html" if request.htmx else "system/health.html", context)


def health_context(asker: RequestContext) -> dict[str, Any]:
    """Context of the live part."""
    found = system_health.survey(asker)
    cards = [PartCard(part, FACES[part.state]) for part in found.parts]
    return {"asker": asker, "cards": cards, "bad": found.bad, "count": len(cards)}


@require_safe
@operators_only
def setting_list(request: PageRequest) -> HttpResponse:
    """What this process was told and what it goes by; `q` narrows by name and meaning, `set` to what was set."""
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
    return render(request, "system/_settings.html" if request.htmx else "system/settings.html", context)
