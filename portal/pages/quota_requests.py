"""Asking for more than the quota: the form, what a project has asked for, and the operators' list with answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, NovellaError
from conductor.services import quota_requests
from conductor.services.quota_requests import APPROVED, OPEN, REFUSED, WITHDRAWN, QuotaRequestView
from portal.pages.access import PageRequest, members_only, operators_only, signed_in
from portal.pages.amounts import number_fault
from portal.pages.faces import Face
from portal.pages.quota_bars import QuotaBar
from portal.pages.quota_groups import WORDS, groups

FACES: Mapping[str, Face] = {
    OPEN: Face("waiting", "waits for an answer"),
    APPROVED: Face("good", "approved"),
    REFUSED: Face("bad", "refused"),
    WITHDRAWN: Face("none", "taken back"),
}
STATUS: tuple[tuple[type[NovellaError], int], ...] = (
    (Conflict, 409),
    (Forbidden, 403),
    (NotFound, 404),
    (Invalid, 400),
)
SHOWN = 10  # beside the project's quota
PER_PAGE = 50
LONGEST_NUMBER = 12


@dataclass(frozen=True)
class Change:
    """One limit of a request, in the words of people."""

    name: str
    had: str
    wanted: str


@dataclass(frozen=True)
class Line:
    """A request as pages show it."""

    request: QuotaRequestView
    face: Face
    changes: list[Change]
    is_own: bool


@dataclass(frozen=True)
class Row:
    """A limit in the form: what there is, and what was typed."""

    bar: QuotaBar
    typed: str
    problem: str


@require_http_methods(["GET", "HEAD", "POST"])
@members_only
def ask(request: PageRequest) -> HttpResponse:
    """Which limits should be higher, and why; what was typed stays when it is refused."""
    if request.method != "POST":
        return _form(request, None)
    try:
        quota_requests.ask(request.asker, _wanted(request.POST), request.POST.get("reason", ""))
    except (Invalid, Conflict, Forbidden) as error:
        return _form(request, error)
    _say(request, gettext("Asked. The answer will stand on this page."))
    return redirect("quotas")


@require_POST
@signed_in
def withdraw(request: PageRequest, request_uuid: str) -> HttpResponse:
    """Take back what oneself has asked for."""
    try:
        quota_requests.withdraw(request.asker, request_uuid)
    except (Conflict, Forbidden) as error:
        messages.add_message(request, messages.INFO, error.message, extra_tags="bad")
        return redirect("quotas")
    _say(request, gettext("It is taken back."))
    return redirect("quotas")


@require_safe
@operators_only
def request_list(request: PageRequest) -> HttpResponse:
    """What projects ask for; those that wait, unless `state` says otherwise."""
    return _list(request)


@require_POST
@operators_only
def decide(request: PageRequest, request_uuid: str, deed: str) -> HttpResponse:
    """Set the limits, or say why not."""
    deeds = {"approve": quota_requests.approve, "refuse": quota_requests.refuse}
    if deed not in deeds:
        raise Http404
    try:
        done = deeds[deed](request.asker, request_uuid, request.POST.get("answer", ""))
    except (Invalid, Conflict) as error:
        return _list(request, error, request_uuid)
    said = {
        "approve": gettext("%(project)s has the limits now that it asked for."),
        "refuse": gettext("%(project)s is told why not."),
    }
    _say(request, said[deed] % {"project": done.project_name})
    return redirect("quota-requests")


def of_project(request: PageRequest) -> list[Line]:
    """The newest ones of the project in use."""
    return [_line(request, one) for one in quota_requests.list_of(request.asker, limit=SHOWN).items]


def _say(request: PageRequest, text: str) -> None:
    messages.add_message(request, messages.INFO, text, extra_tags="good")


def _form(request: PageRequest, error: NovellaError | None) -> HttpResponse:
    field = str(error.details.get("field", "")) if error else ""
    shown = [
        {
            "title": title,
            "rows": [
                Row(
                    bar,
                    request.POST.get(bar.resource, "")[:LONGEST_NUMBER],
                    error.message if error and field == f"wanted.{bar.resource}" else "",
                )
                for bar in bars
                if bar.resource in quota_requests.RESOURCES
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
    return render(request, "quotas/ask.html", context, status=_status(error))


def _wanted(sent: Mapping[str, str]) -> dict[str, int]:
    """What was typed, by resource. Raises Invalid naming the first that is no number."""
    found = {}
    for name in quota_requests.RESOURCES:
        text = sent.get(name, "").strip()
        if not text:
            continue
        if fault := number_fault(text, least=0):
            raise Invalid(fault, field=f"wanted.{name}")
        found[name] = int(text)
    return found


def _list(request: PageRequest, error: NovellaError | None = None, about: str = "") -> HttpResponse:
    asked = request.GET.get("state", OPEN)
    state = asked if asked in (*quota_requests.STATES, "all") else OPEN
    marker = request.GET.get("marker", "")
    page = quota_requests.list_of(
        request.asker, state="" if state == "all" else state, of_everybody=True, limit=PER_PAGE, marker=marker
    )
    kept = {"state": state}
    following = {**kept, "marker": page.items[-1].uuid} if page.has_more else {}
    context = {
        "lines": [_line(request, one) for one in page.items],
        "state": state,
        "states": [*((name, face.word) for name, face in FACES.items()), ("all", gettext("all"))],
        "problem": error.message if error else "",
        "about": about,
        "answer": request.POST.get("answer", "")[:1000],
        "first_url": f"{reverse('quota-requests')}?{urlencode(kept)}" if marker else "",
        "next_url": f"{reverse('quota-requests')}?{urlencode(following)}" if following else "",
    }
    return render(request, "quotas/requests.html", context, status=_status(error))


def _line(request: PageRequest, view: QuotaRequestView) -> Line:
    changes = [
        Change(WORDS[name], _amount(name, view.had.get(name, 0)), _amount(name, limit))
        for name, limit in view.wanted.items()
    ]
    return Line(view, FACES[view.state], changes, view.user_id == request.asker.user_id)


def _amount(resource: str, limit: int) -> str:
    return QuotaBar(WORDS[resource], resource, 0, limit).limit_text


def _status(error: NovellaError | None) -> int:
    return next((code for kind, code in STATUS if isinstance(error, kind)), 200)
