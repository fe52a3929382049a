"""Pre-filters of the operator and of plugins: the bounds of a request before placement is queried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.conf import settings

from conductor.api_db.models import Aggregate
from conductor.core.extensions import Prefilter
from conductor.core.frozen import sealed
from conductor.core.placement.query import UNBOUND, Bounds
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.prefilters import AggregateFacts, NoAggregateForProject, bounds_of
from conductor.scheduler.active_plugins import in_use

NOWHERE = Bounds(member_of=(frozenset(),))  # the host must be in one of an empty set of aggregates


def bounded(spec: RequestSpec) -> RequestSpec:
    """Return the request with its bounds. Raises Invalid for an image that lacks a property that a pre-filter needs."""
    spec = _bounded(spec)
    demanded = plugin_bounds_of(spec)
    return spec if demanded == UNBOUND else replace(spec, bounds=spec.bounds | demanded)


def _bounded(spec: RequestSpec) -> RequestSpec:
    if not settings.NOVELLA_PREFILTERS:
        return spec if spec.bounds == UNBOUND else replace(spec, bounds=UNBOUND)
    aggregates = [
        AggregateFacts(str(uuid), {str(key): str(value) for key, value in metadata.items()})
        for uuid, metadata in Aggregate.objects.order_by("pk").values_list("uuid", "metadata")
    ]
    try:
        return replace(spec, bounds=bounds_of(spec, aggregates, dict.fromkeys(settings.NOVELLA_PREFILTERS, True)))
    except NoAggregateForProject:  # the decision then rejects every host as not open to the project
        return replace(spec, bounds=NOWHERE)


def plugin_bounds_of(spec: RequestSpec) -> Bounds:
    """Return the bounds of all plugins. Raises Invalid as a pre-filter does.

    Raises Unavailable, naming the plugin, where one fails: an unknown bound never counts as no bound.
    """
    bounds = UNBOUND
    for one in in_use(Prefilter.kind):
        bounds = bounds | one.insist("pre-filter", sealed(spec), check=_wrong)
    return bounds


def _wrong(answer: Any) -> str:
    if not isinstance(answer, Bounds):
        return f"returned {type(answer).__name__} instead of Bounds"
    parts = (answer.root_required, answer.root_forbidden, answer.forbidden_aggregates, *answer.member_of)
    if not all(isinstance(part, frozenset) and all(isinstance(name, str) for name in part) for part in parts):
        return "returned Bounds with something else than sets of texts"
    return ""
