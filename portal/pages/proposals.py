"""Proposals of another choice of filters and weighers: made out of a what-if question, reviewed by another operator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from conductor.core.errors import Conflict, Invalid, NovellaError
from conductor.services import plugin_proposals, plugins
from conductor.services.plugin_proposals import ProposalView
from conductor.services.plugins import Difference
from portal.pages import what_if
from portal.pages.access import PageRequest, operators_only
from portal.pages.faces import Face
from portal.pages.plugin_words import words

FACES: Mapping[str, Face] = {
    plugin_proposals.OPEN: Face("waiting", "waits for review"),
    plugin_proposals.APPLIED: Face("good", "applied"),
    plugin_proposals.DECLINED: Face("none", "declined"),
}
VERSION = "version."


@dataclass(frozen=True)
class Row:
    """One setting of one plugin, before and after; empty where the default holds."""

    plugin: str
    setting: str
    before: str
    after: str


@require_safe
@operators_only
def proposal_list(request: PageRequest) -> HttpResponse:
    """The open ones first."""
    found = plugin_proposals.newest(request.asker)
    return render(request, "what_if/proposals.html", {"asker": request.asker, "rows": [_faced(one) for one in found]})


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def propose(request: PageRequest) -> HttpResponse:
    """What the question that is in the address would change for good, and the form that proposes it."""
    reason = request.POST.get("reason", "")
    question = what_if.share_url(request.GET)
    error: NovellaError | None = None
    rows: list[Row] = []
    try:
        changes = what_if.supposition_of(request.GET).plugins
        rows = rows_of(plugins.differences(request.asker, changes))
        if request.method == "POST":
            made = plugin_proposals.propose(request.asker, changes, question=question, reason=reason)
            messages.add_message(request, messages.INFO, gettext("It is proposed."), extra_tags="good")
            return redirect("proposal", made)
    except Invalid as refused:
        error = refused
    context = {"asker": request.asker, "rows": rows, "question": question, "reason": reason, **_problem(error)}
    context["has_subset"] = bool(request.GET.get("subset"))
    return render(request, "what_if/propose.html", context, status=400 if error else 200)


@require_safe
@operators_only
def proposal(request: PageRequest, proposal_uuid: str) -> HttpResponse:
    """One, with the difference from what is chosen now."""
    return _page(request, proposal_uuid)


@require_POST
@operators_only
def decide(request: PageRequest, proposal_uuid: str, deed: str) -> HttpResponse:
    """Apply or decline."""
    reason = request.POST.get("reason", "")
    try:
        if deed == "apply":
            plugin_proposals.apply(request.asker, proposal_uuid, reason=reason, versions=_versions(request.POST))
        elif deed == "decline":
            plugin_proposals.decline(request.asker, proposal_uuid, reason=reason)
        else:
            raise Http404
    except (Invalid, Conflict) as error:
        return _page(request, proposal_uuid, error)
    said = gettext("It is applied.") if deed == "apply" else gettext("It is declined.")
    messages.add_message(request, messages.INFO, said, extra_tags="good")
    return redirect("proposal", proposal_uuid)


def _page(request: PageRequest, proposal_uuid: str, error: NovellaError | None = None) -> HttpResponse:
    found = plugin_proposals.get(request.asker, proposal_uuid)
    context = {
        "asker": request.asker,
        **_faced(found),
        "rows": rows_of(found.differences),
        "is_open": found.state == plugin_proposals.OPEN,
        "versions": [(f"{VERSION}{kind}", version) for kind, version in found.versions.items()],
        "reason": request.POST.get("reason", ""),
        **_problem(error),
    }
    status = 200 if error is None else 400 if isinstance(error, Invalid) else 409
    return render(request, "what_if/proposal.html", context, status=status)


def rows_of(differences: list[Difference]) -> list[Row]:
    """A row for each setting that differs."""
    rows = []
    for one in differences:
        before, after = _flat(one.before), _flat(one.after)
        rows += [
            Row(words(one.name), name, before.get(name, ""), after.get(name, ""))
            for name in sorted({**before, **after})
            if before.get(name) != after.get(name)
        ]
    return rows


def _flat(wish: Mapping[str, Any]) -> dict[str, str]:
    said = {name: value for name, value in wish.items() if name != "options"} | dict(wish.get("options", {}))
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in said.items()}


def _faced(found: ProposalView) -> dict[str, Any]:
    return {"proposal": found, "face": FACES[found.state]}


def _versions(sent: Mapping[str, str]) -> dict[str, int]:
    """Those that the reviewer looked at. Raises Invalid."""
    given = {name.removeprefix(VERSION): text for name, text in sent.items() if name.startswith(VERSION)}
    if not all(text.isascii() and text.isdecimal() and len(text) <= 9 for text in given.values()):
        raise Invalid(gettext("Look at the difference again."), field="version")
    return {kind: int(text) for kind, text in given.items()}


def _problem(error: NovellaError | None) -> dict[str, str]:
    return {"problem": error.message if error else "", "wrong": error.details.get("field", "") if error else ""}
