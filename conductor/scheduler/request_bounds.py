"""What the operator's pre-filters add to a request before placement is asked."""

from __future__ import annotations

from dataclasses import replace

from django.conf import settings

from conductor.api_db.models import Aggregate
from conductor.core.placement.query import UNBOUND, Bounds
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.prefilters import AggregateFacts, NoAggregateForProject, bounds_of
from conductor.scheduler import plugin_prefilters

NOWHERE = Bounds(member_of=(frozenset(),))  # no host is in one of no aggregates


def bounded(spec: RequestSpec) -> RequestSpec:
    """The request with its bounds. Raises Invalid for an image without what a pre-filter goes by."""
    spec = _bounded(spec)
    demanded = plugin_prefilters.bounds_of(spec)
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
    except NoAggregateForProject:  # the decision then says of every host that it is not open to the project
        return replace(spec, bounds=NOWHERE)
