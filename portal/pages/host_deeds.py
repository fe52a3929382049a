"""What is done to several hosts at once, picked on the map or in the list: asked once, with an answer for each."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.services import host_deeds
from portal.pages.access import PageRequest, operators_only
from portal.pages.page_lengths import LONG_PAGE

TOGETHER = ("close", "open")  # what needs to be confirmed by a host's name is done one by one
MOST_AT_ONCE = LONG_PAGE
MOST_PICKED = {"closed": MOST_AT_ONCE, "drained": host_deeds.MOST_HOSTS}  # as the bar below a list says it


@dataclass(frozen=True)
class Outcome:
    """What became of one of them."""

    name: str
    is_good: bool
    message: str


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def hosts_deed(request: PageRequest, deed: str) -> HttpResponse:
    """Asks for one reason, naming the hosts that would refuse; then does it to each of the others."""
    if deed not in TOGETHER:
        raise Http404
    sent = request.POST if request.method == "POST" else request.GET
    names = list(dict.fromkeys(sent.getlist("host")))
    if not 1 <= len(names) <= MOST_AT_ONCE:
        raise Invalid(f"Pick 1 to {MOST_AT_ONCE} hosts.", field="host")
    reason, problem = sent.get("reason", ""), ""
    if request.method == "POST":
        try:
            host_deeds.require_reason(reason)
        except Invalid as error:
            problem = error.message
        else:
            return _do(request, deed, names, reason)
    offers = [(name, host_deeds.offer(request.asker, name, deed)) for name in names]
    context = {
        "asker": request.asker,
        "offers": offers,
        "offer": offers[0][1],
        "is_open": any(offer.enabled for _, offer in offers),
        "reason": reason,
        "problem": problem,
    }
    return render(request, "hosts/deed.html", context, status=400 if problem else 200)


def _do(request: PageRequest, deed: str, names: list[str], reason: str) -> HttpResponse:
    found = []
    for name in names:
        try:
            found.append(Outcome(name, True, host_deeds.do(request.asker, name, deed, reason=reason)))
        except (Conflict, Invalid, NotFound) as error:
            found.append(Outcome(name, False, error.message))
    good = sum(outcome.is_good for outcome in found)
    title = next(one.title for one in host_deeds.DEEDS if one.id == deed)
    context = {
        "asker": request.asker,
        "title": gettext(title),
        "outcomes": found,
        "good": good,
        "bad": len(found) - good,
    }
    return render(request, "hosts/outcomes.html", context)
