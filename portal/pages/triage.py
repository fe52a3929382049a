"""What needs an operator now: ranked by harm, each with its first cause, whom it hurts, and what to do first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound, NovellaError
from conductor.services import triage
from conductor.services.triage import LEVELS, TriageItem
from conductor.services.triage.quota_questions import KIND as QUOTA_REQUEST
from conductor.services.triage.values import LIKELY, PERHAPS, SURE
from portal.pages import faces
from portal.pages.access import PageRequest, operators_only
from portal.pages.faces import Face
from portal.pages.live_marks import live_marks

PER_PAGE = 30
SNOOZES: Mapping[str, str] = {"1": "1 hour", "4": "4 hours", "24": "a day", "72": "3 days", "168": "a week"}
STATUS: tuple[tuple[type[NovellaError], int], ...] = ((Invalid, 400), (NotFound, 404), (Conflict, 409))
CONFIDENCE_WORDS = {SURE: "Surely.", LIKELY: "Likely.", PERHAPS: "Perhaps."}
TONES = {"host_silent": "bad", "host_off": "bad", "host_unanswered": "waiting"}


@dataclass(frozen=True)
class Line:
    """One thing as the page shows it: `url` leads to it, `form_url` to the advice's own form."""

    item: TriageItem
    face: Face
    url: str
    form_url: str = ""

    @property
    def confidence(self) -> str:
        return CONFIDENCE_WORDS[self.item.advice.confidence] if self.item.advice else ""

    @property
    def ident(self) -> str:
        """An id that may stand in a page."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.item.key)


@require_safe
@operators_only
def triage_list(request: PageRequest) -> HttpResponse:
    """The list; with `snoozed` what is put off."""
    return _page(request)


@require_safe
@operators_only
def count(request: PageRequest) -> HttpResponse:
    """How many lines there are, for the navigation, and where the log stood."""
    marks = live_marks("triage", "count")
    answer = JsonResponse({"count": triage.count(request.asker), "cursor": marks["live_cursor"]})
    patch_cache_control(answer, no_store=True)
    return answer


@require_POST
@operators_only
def act(request: PageRequest, deed: str) -> HttpResponse:
    """Do what a line advises, put it off, or have it back."""
    if deed not in DEEDS:
        raise Http404
    try:
        said = DEEDS[deed](request.asker, request.POST)
    except (Invalid, Conflict, NotFound) as error:
        return _page(request, error)
    messages.add_message(request, messages.INFO, said, extra_tags="waiting" if deed == "apply" else "good")
    back = reverse("triage")
    return redirect(f"{back}?snoozed=1" if deed == "wake" else back)


def _apply(asker: RequestContext, form: Mapping[str, str]) -> str:
    return triage.apply(
        asker,
        form.get("key", ""),
        form.get("action", ""),
        reason=form.get("reason", ""),
        revision=form.get("revision", ""),
    )


def _snooze(asker: RequestContext, form: Mapping[str, str]) -> str:
    hours = form.get("hours", "")
    if hours not in SNOOZES:
        raise Invalid(f"Put it off for one of {', '.join(SNOOZES.values())}.", field="hours")
    until = datetime.now(UTC) + timedelta(hours=int(hours))
    item = triage.snooze(asker, form.get("key", ""), reason=form.get("reason", ""), until=until)
    return f"{item.name} is put off for {SNOOZES[hours]}. It comes back before that if it gets worse."


def _wake(asker: RequestContext, form: Mapping[str, str]) -> str:
    triage.wake(asker, form.get("key", ""))
    return "It is back in the list."


DEEDS = {"apply": _apply, "snooze": _snooze, "wake": _wake}


def _page(request: PageRequest, error: NovellaError | None = None) -> HttpResponse:
    marks = live_marks("triage", "list")
    context = {**marks, **list_context(request.asker, request.GET), "problem": error.message if error else ""}
    if error is not None:
        context["sent"] = {name: str(request.POST.get(name, "")) for name in ("key", "reason", "hours")}
    status = next((code for kind, code in STATUS if isinstance(error, kind)), 200)
    return render(request, "triage/_list.html" if request.htmx else "triage/list.html", context, status=status)


def list_context(asker: RequestContext, given: Mapping[str, str]) -> dict[str, Any]:
    """Context of the list. Raises Invalid for a marker that is no line's."""
    is_snoozed = bool(given.get("snoozed"))
    marker = given.get("marker", "")
    found = triage.survey(asker, is_snoozed=is_snoozed, limit=PER_PAGE, marker=marker)
    lines = [_line(one) for one in found.items]
    base = {"snoozed": "1"} if is_snoozed else {}
    return {
        "asker": asker,
        "found": found,
        "is_snoozed": is_snoozed,
        "groups": [
            {"level": level, "heading": title, "count": found.counts[level], "lines": mine}
            for level, title in LEVELS.items()
            if (mine := [line for line in lines if line.item.level == level])
        ],
        "first_url": _url(base) if marker else "",
        "next_url": _url({**base, "marker": found.items[-1].key}) if found.has_more else "",
        "snoozes": SNOOZES,
        "sent": {},
        "missing_cells": found.missing_cells,
    }


def _line(item: TriageItem) -> Line:
    if item.run_uuid:
        tone = faces.RUN_TONES.get(item.state, "bad")
        face = Face(tone, _word(item), is_loud=item.state in faces.LOUD)
        form = reverse("intervene", args=[item.run_uuid, item.advice.action]) if item.advice else ""
        return Line(item, face, reverse("workflow", args=[item.run_uuid]), form)
    if item.host:
        form = reverse("host-deed", args=[item.host, item.advice.action]) if item.advice else ""
        return Line(item, Face(TONES[item.kind], _word(item)), reverse("host", args=[item.host]), form)
    if item.kind == QUOTA_REQUEST:
        return Line(
            item, Face("waiting", _word(item)), f"{reverse('quota-requests')}#request-{item.key.partition(':')[2]}"
        )
    is_critical = item.state == "critical"
    url = reverse("server", args=[item.instance_uuid]) if item.project_id else ""
    return Line(item, Face("bad" if is_critical else "waiting", _word(item), is_loud=is_critical), url)


def _word(item: TriageItem) -> str:
    """What is wrong, as the word of a state: translated here, where it is still the title."""
    title = gettext(item.title)
    return title.lower() if title == item.title else title  # German writes nouns large everywhere


def _url(asked: Mapping[str, str]) -> str:
    base = reverse("triage")
    return f"{base}?{urlencode(asked)}" if asked else base
