"""A scheduling decision evaluated again: what would make it fit, nearest hosts, filters' verdicts, the result now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import NotFound
from conductor.services.scheduling import decisions, replays
from conductor.services.scheduling.replays import NOW, THEN
from conductor.services.scheduling.types import DecisionView, Evaluation, Matrix
from portal.pages.permissions import PageRequest, signed_in
from portal.pages.plugin_names import words
from portal.pages.scheduling.placement import explain
from portal.pages.status_badges import StatusBadge

HOSTS_PER_PAGE = 50
BADGES: Mapping[str, StatusBadge] = {
    "pass": StatusBadge("good", "pass"),
    "reject": StatusBadge("none", "rejected"),
    "error": StatusBadge("bad", "failed"),
}


@require_safe
@signed_in
def decision(request: PageRequest, decision_uuid: str) -> HttpResponse:
    """Show the page; a part that cannot be evaluated any more has the reason."""
    caller = request.caller
    view = decisions.get(caller, decision_uuid)
    fleet = request.GET.get("fleet", "")
    context = {
        "decision": explain(view),
        "view": view,
        "asked_for": _asked_for(view),
        "again": _again(caller, decision_uuid, fleet) if fleet else None,
        **_near(caller, view),
        **(_matrix(caller, view, request.GET.get("marker", "")) if caller.is_admin else {}),
    }
    return render(request, "scheduling/decision.html", context)


@require_safe
@signed_in
def fits_if(request: PageRequest, decision_uuid: str) -> HttpResponse:
    """Show only what would make it fit: the placement tab fetches this, because it takes a moment."""
    view = decisions.get(request.caller, decision_uuid)
    return render(request, "scheduling/_fits_if.html", {"view": view, **_near(request.caller, view)})


def _near(caller: RequestContext, view: DecisionView) -> dict[str, Any]:
    try:
        found = replays.remedies(caller, view.uuid)
    except NotFound as error:
        return {"why_not_again": error.message}
    return {
        "fits_if": found.fits_if,
        "is_partial": found.is_partial,
        "is_same_plugins": found.is_same_plugins,
        "near": [_row(host, requested=None) for host in found.nearest],
    }


def _matrix(caller: RequestContext, view: DecisionView, marker: str) -> dict[str, Any]:
    try:
        found = replays.matrix(caller, view.uuid, limit=HOSTS_PER_PAGE, marker=marker)
    except NotFound as error:
        if marker:
            raise
        return {"why_not_again": error.message}
    deciding = _deciding_filters(found)
    return {
        "matrix": found,
        "columns": [{"name": words(name), **_counts(found, name)} for name in deciding],
        "agreed": [words(one["filter"]) for one in found.filters if one["filter"] not in deciding],
        "rows": [_row(host, requested=deciding) for host in found.hosts],
        "marker": marker,
        "next_marker": f"{found.hosts[-1]['host']}/{found.hosts[-1]['node']}" if found.has_more else "",
    }


def _deciding_filters(found: Matrix) -> list[str]:
    """Return the filters that rejected a host or failed; the other columns would be all the same."""
    failed = {cell["filter"] for host in found.hosts for cell in host["cells"] if cell["outcome"] == "error"}
    return [one["filter"] for one in found.filters if one["rejected"] or one["filter"] in failed]


def _counts(found: Matrix, name: str) -> Mapping[str, Any]:
    return next(one for one in found.filters if one["filter"] == name)


def _row(host: Mapping[str, Any], *, requested: Sequence[str] | None) -> dict[str, Any]:
    cells = [
        {**cell, "name": words(cell["filter"]), "badge": BADGES[cell["outcome"]]}
        for cell in host["cells"]
        if (cell["outcome"] != "pass" if requested is None else cell["filter"] in requested)
    ]
    return {**host, "cells": cells, "in_cell": host["cell"]}


def _again(caller: RequestContext, decision_uuid: str, fleet: str) -> dict[str, Any]:
    try:
        return _evaluation(replays.evaluate(caller, decision_uuid, fleet))
    except NotFound as error:
        return {"why_not": error.message}


def _evaluation(found: Evaluation) -> dict[str, Any]:
    if found.is_successful:
        headline = gettext("A host would be available")
        if found.chosen:
            hosts = ", ".join(dict.fromkeys(found.chosen))
            headline = gettext("Selected hosts: %(hosts)s") % {"hosts": hosts}
    else:
        headline = gettext("No host would be available")
        if found.placed:
            values = {"some": found.placed, "all": found.num_instances}
            headline = gettext("%(some)s of %(all)s would find a host") % values
    fleets = {THEN: gettext("On the hosts as recorded"), NOW: gettext("On the current hosts")}
    return {"found": found, "headline": headline, "fleet": fleets[found.fleet]}


def _asked_for(view: DecisionView) -> list[tuple[str, str]]:
    """Return the stored request in rows of words."""
    request = view.request or {}
    flavor, image = request.get("flavor") or {}, request.get("image") or {}
    rows = [
        (gettext("Servers"), str(view.num_instances)),
        (gettext("Flavor"), _flavor_words(flavor)),
        (gettext("Image"), str(image.get("name") or image.get("image_id") or "")),
        (gettext("Zone"), str(request.get("availability_zone") or "any")),
        (
            gettext("Extra specs"),
            ", ".join(f"{key}={value}" for key, value in (flavor.get("extra_specs") or {}).items()),
        ),
        (
            gettext("Scheduler hints"),
            ", ".join(f"{key}={value}" for key, value in (request.get("scheduler_hints") or {}).items()),
        ),
    ]
    return [(name, text) for name, text in rows if text] if request else []


def _flavor_words(flavor: Mapping[str, Any]) -> str:
    if not flavor:
        return ""
    return gettext("%(name)s: %(vcpus)s vCPU, %(memory)s MB memory, %(disk)s GB disk") % {
        "name": flavor["name"],
        "vcpus": flavor["vcpus"],
        "memory": flavor["memory_mb"],
        "disk": flavor.get("root_gb", 0),
    }
