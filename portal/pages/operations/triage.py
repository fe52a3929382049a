"""Triage: problems that need an operator now, ranked by harm, each with its first cause, affected users and advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound, NovellaError
from conductor.services.operations import triage
from conductor.services.operations.triage import LEVELS, TriageItem
from conductor.services.operations.triage.quota_questions import KIND as QUOTA_REQUEST
from conductor.services.operations.triage.values import LIKELY, PERHAPS, SURE
from portal.pages import status_badges
from portal.pages.live_marks import live_marks
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, operators_only
from portal.pages.status_badges import StatusBadge

PER_PAGE = 30
SNOOZES: Mapping[str, str] = {"1": "1 hour", "4": "4 hours", "24": "a day", "72": "3 days", "168": "a week"}
STATUS: tuple[tuple[type[NovellaError], int], ...] = ((Invalid, 400), (NotFound, 404), (Conflict, 409))
CONFIDENCE_WORDS = {SURE: "Will help.", LIKELY: "Likely to help.", PERHAPS: "May help."}
TONES = {"host_unresponsive": "bad", "host_off": "bad", "host_unanswered": "waiting"}


@dataclass(frozen=True)
class TriageRow:
    """A problem in the list: `url` links to it, `form_url` to the form of its advice."""

    item: TriageItem
    badge: StatusBadge
    url: str
    form_url: str = ""

    @property
    def confidence(self) -> str:
        return CONFIDENCE_WORDS[self.item.advice.confidence] if self.item.advice else ""

    @property
    def ident(self) -> str:
        """Return an id for HTML."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.item.key)


@require_safe
@operators_only
def triage_list(request: PageRequest) -> HttpResponse:
    """Show the list; with `snoozed` the snoozed items."""
    return _page(request)


@require_safe
@operators_only
def count(request: PageRequest) -> HttpResponse:
    """Return the number of items for the navigation, and the position of the log."""
    marks = live_marks("triage", "count")
    answer = JsonResponse({"count": triage.count(request.caller), "cursor": marks["live_cursor"]})
    patch_cache_control(answer, no_store=True)
    return answer


@require_POST
@operators_only
def act(request: PageRequest, action_id: str) -> HttpResponse:
    """Apply an item's advice, snooze it, or bring it back."""
    if action_id not in ACTIONS:
        raise Http404
    try:
        reported = ACTIONS[action_id](request.caller, request.POST)
    except (Invalid, Conflict, NotFound) as error:
        return _page(request, error)
    leave_note(request, reported, "waiting" if action_id == "apply" else "good")
    back = reverse("triage")
    return redirect(f"{back}?snoozed=1" if action_id == "wake" else back)


def _apply(caller: RequestContext, form: Mapping[str, str]) -> str:
    return triage.apply(
        caller,
        form.get("key", ""),
        form.get("action", ""),
        reason=form.get("reason", ""),
        revision=form.get("revision", ""),
    )


def _snooze(caller: RequestContext, form: Mapping[str, str]) -> str:
    hours = form.get("hours", "")
    if hours not in SNOOZES:
        choices = ", ".join(gettext(words) for words in SNOOZES.values())
        raise Invalid(gettext("Select a snooze time: %(choices)s.") % {"choices": choices}, field="hours")
    until = datetime.now(UTC) + timedelta(hours=int(hours))
    item = triage.snooze(caller, form.get("key", ""), reason=form.get("reason", ""), until=until)
    return gettext("%(name)s snoozed for %(time)s. It returns earlier if it gets worse.") % {
        "name": item.name,
        "time": gettext(SNOOZES[hours]),
    }


def _wake(caller: RequestContext, form: Mapping[str, str]) -> str:
    triage.wake(caller, form.get("key", ""))
    return gettext("Item restored to the list.")


ACTIONS = {"apply": _apply, "snooze": _snooze, "wake": _wake}


def _page(request: PageRequest, error: NovellaError | None = None) -> HttpResponse:
    marks = live_marks("triage", "list")
    context = {**marks, **list_context(request.caller, request.GET), "problem": error.message if error else ""}
    if error is not None:
        context["sent"] = {name: str(request.POST.get(name, "")) for name in ("key", "reason", "hours")}
    status = next((code for kind, code in STATUS if isinstance(error, kind)), 200)
    return render(
        request, "operations/_triage.html" if request.htmx else "operations/triage.html", context, status=status
    )


def list_context(caller: RequestContext, given: Mapping[str, str]) -> dict[str, Any]:
    """Context of the list. Raises Invalid for an unknown marker."""
    is_snoozed = bool(given.get("snoozed"))
    marker = given.get("marker", "")
    found = triage.survey(caller, is_snoozed=is_snoozed, limit=PER_PAGE, marker=marker)
    lines = [_line(one) for one in found.items]
    base = {"snoozed": "1"} if is_snoozed else {}
    return {
        "caller": caller,
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


def _line(item: TriageItem) -> TriageRow:
    if item.run_uuid:
        tone = status_badges.RUN_TONES.get(item.state, "bad")
        badge = StatusBadge(tone, _word(item), is_loud=item.state in status_badges.LOUD)
        form = reverse("intervene", args=[item.run_uuid, item.advice.action]) if item.advice else ""
        return TriageRow(item, badge, reverse("workflow", args=[item.run_uuid]), form)
    if item.host:
        form = reverse("host-action", args=[item.host, item.advice.action]) if item.advice else ""
        return TriageRow(item, StatusBadge(TONES[item.kind], _word(item)), reverse("host", args=[item.host]), form)
    if item.kind == QUOTA_REQUEST:
        return TriageRow(
            item,
            StatusBadge("waiting", _word(item)),
            f"{reverse('quota-requests')}#request-{item.key.partition(':')[2]}",
        )
    is_critical = item.state == "critical"
    url = reverse("server", args=[item.instance_uuid]) if item.project_id else ""
    return TriageRow(item, StatusBadge("bad" if is_critical else "waiting", _word(item), is_loud=is_critical), url)


def _word(item: TriageItem) -> str:
    """Return the problem as the word of a badge, translated if it is a title."""
    title = gettext(item.title)
    return title.lower() if title == item.title else title  # German capitalizes nouns everywhere


def _url(requested: Mapping[str, str]) -> str:
    base = reverse("triage")
    return f"{base}?{urlencode(requested)}" if requested else base
