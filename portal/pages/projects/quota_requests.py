"""Requests for more quota: the form, a project's requests, and the operators' list with answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, NovellaError
from conductor.services.quotas import requests
from conductor.services.quotas.requests import APPROVED, OPEN, REFUSED, WITHDRAWN, QuotaRequestView
from portal.pages.amounts import number_fault
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, members_only, operators_only, signed_in
from portal.pages.projects.quota_groups import WORDS, groups
from portal.pages.quota_bars import QuotaBar
from portal.pages.status_badges import StatusBadge

BADGES: Mapping[str, StatusBadge] = {
    OPEN: StatusBadge("waiting", "pending"),
    APPROVED: StatusBadge("good", "approved"),
    REFUSED: StatusBadge("bad", "refused"),
    WITHDRAWN: StatusBadge("none", "withdrawn"),
}
STATUS: tuple[tuple[type[NovellaError], int], ...] = (
    (Conflict, 409),
    (Forbidden, 403),
    (NotFound, 404),
    (Invalid, 400),
)
SHOWN = 10  # on the project's quota page
PER_PAGE = 50
LONGEST_NUMBER = 12


@dataclass(frozen=True)
class QuotaChange:
    """A limit of a request, for display."""

    name: str
    had: str
    wanted: str


@dataclass(frozen=True)
class QuotaRequestRow:
    """A request, for display."""

    request: QuotaRequestView
    badge: StatusBadge
    changes: list[QuotaChange]
    is_own: bool


@dataclass(frozen=True)
class LimitRow:
    """A limit in the form: the current value, and the typed one."""

    bar: QuotaBar
    typed: str
    problem: str


@require_http_methods(["GET", "HEAD", "POST"])
@members_only
def ask(request: PageRequest) -> HttpResponse:
    """Request higher limits with a reason; typed values stay after an error."""
    if request.method != "POST":
        return _form(request, None)
    try:
        requests.ask(request.caller, _wanted(request.POST), request.POST.get("reason", ""))
    except (Invalid, Conflict, Forbidden) as error:
        return _form(request, error)
    _say(request, gettext("Request sent. The decision appears on this page."))
    return redirect("quotas")


@require_POST
@signed_in
def withdraw(request: PageRequest, request_uuid: str) -> HttpResponse:
    """Withdraw a request of one's own."""
    try:
        requests.withdraw(request.caller, request_uuid)
    except (Conflict, Forbidden) as error:
        leave_note(request, error.message, "bad")
        return redirect("quotas")
    _say(request, gettext("Request withdrawn."))
    return redirect("quotas")


@require_safe
@operators_only
def request_list(request: PageRequest) -> HttpResponse:
    """List the requests of all projects; pending ones, unless `state` says otherwise."""
    return _list(request)


@require_POST
@operators_only
def decide(request: PageRequest, request_uuid: str, action_id: str) -> HttpResponse:
    """Approve the request, or refuse it with a reason."""
    actions = {"approve": requests.approve, "refuse": requests.refuse}
    if action_id not in actions:
        raise Http404
    try:
        done = actions[action_id](request.caller, request_uuid, request.POST.get("answer", ""))
    except (Invalid, Conflict) as error:
        return _list(request, error, request_uuid)
    values = {
        "approve": gettext("Request approved. %(project)s has the new limits."),
        "refuse": gettext("Request declined. %(project)s was notified."),
    }
    _say(request, values[action_id] % {"project": done.project_name})
    return redirect("quota-requests")


def of_project(request: PageRequest) -> list[QuotaRequestRow]:
    """Return the newest requests of the current project."""
    return [_line(request, one) for one in requests.list_of(request.caller, limit=SHOWN).items]


def _say(request: PageRequest, text: str) -> None:
    leave_note(request, text, "good")


def _form(request: PageRequest, error: NovellaError | None) -> HttpResponse:
    field = str(error.details.get("field", "")) if error else ""
    shown = [
        {
            "title": title,
            "rows": [
                LimitRow(
                    bar,
                    request.POST.get(bar.resource, "")[:LONGEST_NUMBER],
                    error.message if error and field == f"wanted.{bar.resource}" else "",
                )
                for bar in bars
                if bar.resource in requests.RESOURCES
            ],
        }
        for title, bars in groups(request)
    ]
    context = {
        "groups": shown,
        "reason": request.POST.get("reason", "")[:1000],
        "problem": error.message if error else "",
        "wrong": field.removeprefix("wanted."),
    }
    return render(request, "projects/request_quotas.html", context, status=_status(error))


def _wanted(sent: Mapping[str, str]) -> dict[str, int]:
    """Return the typed values by resource. Raises Invalid naming the first that is not a number."""
    found = {}
    for name in requests.RESOURCES:
        text = sent.get(name, "").strip()
        if not text:
            continue
        if fault := number_fault(text, least=0):
            raise Invalid(fault, field=f"wanted.{name}")
        found[name] = int(text)
    return found


def _list(request: PageRequest, error: NovellaError | None = None, about: str = "") -> HttpResponse:
    requested = request.GET.get("state", OPEN)
    state = requested if requested in (*requests.STATES, "all") else OPEN
    marker = request.GET.get("marker", "")
    page = requests.list_of(
        request.caller, state="" if state == "all" else state, of_all=True, limit=PER_PAGE, marker=marker
    )
    kept = {"state": state}
    following = {**kept, "marker": page.items[-1].uuid} if page.has_more else {}
    context = {
        "lines": [_line(request, one) for one in page.items],
        "state": state,
        "states": [*((name, badge.word) for name, badge in BADGES.items()), ("all", gettext("all"))],
        "problem": error.message if error else "",
        "about": about,
        "answer": request.POST.get("answer", "")[:1000],
        "first_url": f"{reverse('quota-requests')}?{urlencode(kept)}" if marker else "",
        "next_url": f"{reverse('quota-requests')}?{urlencode(following)}" if following else "",
    }
    return render(request, "projects/quota_requests.html", context, status=_status(error))


def _line(request: PageRequest, view: QuotaRequestView) -> QuotaRequestRow:
    changes = [
        QuotaChange(WORDS[name], _amount(name, view.had.get(name, 0)), _amount(name, limit))
        for name, limit in view.wanted.items()
    ]
    return QuotaRequestRow(view, BADGES[view.state], changes, view.user_id == request.caller.user_id)


def _amount(resource: str, limit: int) -> str:
    return QuotaBar(WORDS[resource], resource, 0, limit).limit_text


def _status(error: NovellaError | None) -> int:
    return next((code for kind, code in STATUS if isinstance(error, kind)), 200)
