"""Proposals: changes of filters and weighers that start as a what-if question and need another operator's review."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from conductor.core.errors import Conflict, Invalid, NovellaError
from conductor.services.plugins import plugins, proposals
from conductor.services.plugins.plugins import Difference
from conductor.services.plugins.proposals import ProposalView
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, operators_only
from portal.pages.plugin_names import words
from portal.pages.scheduling import what_if
from portal.pages.status_badges import StatusBadge

BADGES: Mapping[str, StatusBadge] = {
    proposals.OPEN: StatusBadge("waiting", "waiting for review"),
    proposals.APPLIED: StatusBadge("good", "applied"),
    proposals.DECLINED: StatusBadge("none", "declined"),
}
VERSION = "version."


@dataclass(frozen=True)
class SettingChange:
    """A setting of a plugin, before and after; empty for the default."""

    plugin: str
    setting: str
    before: str
    after: str


@require_safe
@operators_only
def proposal_list(request: PageRequest) -> HttpResponse:
    """List the proposals, open ones first."""
    found = proposals.newest(request.caller)
    return render(
        request, "scheduling/proposals.html", {"caller": request.caller, "rows": [_faced(one) for one in found]}
    )


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def propose(request: PageRequest) -> HttpResponse:
    """Show the permanent change for the what-if question in the address, and the form that proposes it."""
    reason = request.POST.get("reason", "")
    question = what_if.share_url(request.GET)
    error: NovellaError | None = None
    rows: list[SettingChange] = []
    try:
        changes = what_if.changes_of(request.GET).plugins
        rows = rows_of(plugins.differences(request.caller, changes))
        if request.method == "POST":
            made = proposals.propose(request.caller, changes, question=question, reason=reason)
            leave_note(request, gettext("Configuration proposed."), "good")
            return redirect("proposal", made)
    except Invalid as refused:
        error = refused
    context = {"caller": request.caller, "rows": rows, "question": question, "reason": reason, **_problem(error)}
    context["has_subset"] = bool(request.GET.get("subset"))
    return render(request, "scheduling/propose.html", context, status=400 if error else 200)


@require_safe
@operators_only
def proposal(request: PageRequest, proposal_uuid: str) -> HttpResponse:
    """Show a proposal with its differences from the current settings."""
    return _page(request, proposal_uuid)


@require_POST
@operators_only
def decide(request: PageRequest, proposal_uuid: str, action_id: str) -> HttpResponse:
    """Apply or decline."""
    reason = request.POST.get("reason", "")
    try:
        if action_id == "apply":
            proposals.apply(request.caller, proposal_uuid, reason=reason, versions=_versions(request.POST))
        elif action_id == "decline":
            proposals.decline(request.caller, proposal_uuid, reason=reason)
        else:
            raise Http404
    except (Invalid, Conflict) as error:
        return _page(request, proposal_uuid, error)
    sentence = gettext("The proposal was applied.") if action_id == "apply" else gettext("The proposal was declined.")
    leave_note(request, sentence, "good")
    return redirect("proposal", proposal_uuid)


def _page(request: PageRequest, proposal_uuid: str, error: NovellaError | None = None) -> HttpResponse:
    found = proposals.get(request.caller, proposal_uuid)
    context = {
        "caller": request.caller,
        **_faced(found),
        "rows": rows_of(found.differences),
        "is_open": found.state == proposals.OPEN,
        "versions": [(f"{VERSION}{kind}", version) for kind, version in found.versions.items()],
        "reason": request.POST.get("reason", ""),
        **_problem(error),
    }
    status = 200 if error is None else 400 if isinstance(error, Invalid) else 409
    return render(request, "scheduling/proposal.html", context, status=status)


def rows_of(differences: list[Difference]) -> list[SettingChange]:
    """Return a row for each setting that differs."""
    rows = []
    for one in differences:
        before, after = _flat(one.before), _flat(one.after)
        rows += [
            SettingChange(words(one.name), name, before.get(name, ""), after.get(name, ""))
            for name in sorted({**before, **after})
            if before.get(name) != after.get(name)
        ]
    return rows


def _flat(requested: Mapping[str, Any]) -> dict[str, str]:
    sentence = {name: value for name, value in requested.items() if name != "options"} | dict(
        requested.get("options", {})
    )
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in sentence.items()}


def _faced(found: ProposalView) -> dict[str, Any]:
    return {"proposal": found, "badge": BADGES[found.state]}


def _versions(sent: Mapping[str, str]) -> dict[str, int]:
    """Return the versions that the reviewer saw. Raises Invalid."""
    given = {name.removeprefix(VERSION): text for name, text in sent.items() if name.startswith(VERSION)}
    if not all(text.isascii() and text.isdecimal() and len(text) <= 9 for text in given.values()):
        raise Invalid(gettext("Check the difference again."), field="version")
    return {kind: int(text) for kind, text in given.items()}


def _problem(error: NovellaError | None) -> dict[str, str]:
    return {"problem": error.message if error else "", "wrong": error.details.get("field", "") if error else ""}
