"""Actions on several hosts that were selected on the map or in the list: one form, with a result for each host."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.phrases import phrase
from conductor.services.fleet import host_actions
from portal.pages.page_lengths import LONG_PAGE
from portal.pages.permissions import PageRequest, operators_only

TOGETHER = ("close", "open")  # actions that need the host's name as confirmation are for one host only
MOST_AT_ONCE = LONG_PAGE
MOST_PICKED = {"closed": MOST_AT_ONCE, "drained": host_actions.MOST_HOSTS}  # as the bar below a list states


@dataclass(frozen=True)
class HostResult:
    """The result for one host."""

    name: str
    is_good: bool
    message: str


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def hosts_action(request: PageRequest, action_id: str) -> HttpResponse:
    """Ask for one reason, naming the hosts that would refuse; then carry out the action on the others."""
    if action_id not in TOGETHER:
        raise Http404
    sent = request.POST if request.method == "POST" else request.GET
    names = list(dict.fromkeys(sent.getlist("host")))
    if not 1 <= len(names) <= MOST_AT_ONCE:
        raise Invalid(phrase("Select 1 to %(most)s hosts.", most=MOST_AT_ONCE), field="host")
    reason, problem = sent.get("reason", ""), ""
    if request.method == "POST":
        try:
            host_actions.require_reason(reason)
        except Invalid as error:
            problem = error.message
        else:
            return _do(request, action_id, names, reason)
    actions = [(name, host_actions.get_action(request.caller, name, action_id)) for name in names]
    context = {
        "caller": request.caller,
        "actions": actions,
        "action": actions[0][1],
        "is_open": any(action.enabled for _, action in actions),
        "reason": reason,
        "problem": problem,
    }
    return render(request, "hosts/action.html", context, status=400 if problem else 200)


def _do(request: PageRequest, action_id: str, names: list[str], reason: str) -> HttpResponse:
    found = []
    for name in names:
        try:
            found.append(HostResult(name, True, host_actions.execute(request.caller, name, action_id, reason=reason)))
        except (Conflict, Invalid, NotFound) as error:
            found.append(HostResult(name, False, error.message))
    good = sum(outcome.is_good for outcome in found)
    title = next(one.title for one in host_actions.ACTIONS if one.id == action_id)
    context = {
        "caller": request.caller,
        "title": gettext(title),
        "outcomes": found,
        "good": good,
        "bad": len(found) - good,
    }
    return render(request, "hosts/outcomes.html", context)
