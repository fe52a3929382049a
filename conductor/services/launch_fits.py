"""Which flavors would find a host at this moment, for a launch form: its request, asked with each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.core.host_state import HostTable
from conductor.core.request_spec import FlavorSpec, RequestSpec
from conductor.core.scheduling.decision import explain
from conductor.core.scheduling.select import decide
from conductor.core.scheduling.what_if import SEED
from conductor.scheduler import hardware_wishes, hypotheses
from conductor.services import instance_wishes
from conductor.services.values import BuildWish

MOST_ASKED = 30  # a form answers while somebody types; flavors beyond are judged when they are chosen


@dataclass(frozen=True)
class SizeFit:
    """How many hosts could take one server of a flavor now, by zone; or in one sentence why none can."""

    zones: Mapping[str, int] = field(default_factory=dict)
    why_not: str = ""


def of_flavors(context: RequestContext, wish: BuildWish, flavors: Sequence[FlavorSpec]) -> dict[str, SizeFit]:
    """What each flavor would find, by its id, with everything else as wished; nothing is claimed.

    Empty where something else than the flavor is wrong with the wish: the launch says so at its field. Empty too where
    no host has reported yet: that speaks against none of them.
    """
    asked = flavors[:MOST_ASKED]
    base = _base(context, wish, asked)
    if base is None:
        return {}
    table, spec = hypotheses.fleet().table, hypotheses.completed(base)
    if not len(table):
        return {}
    return {flavor.flavor_id: _fit(table, spec, flavor) for flavor in asked}


def _base(context: RequestContext, wish: BuildWish, flavors: Sequence[FlavorSpec]) -> RequestSpec | None:
    """The wish as a request, with whichever flavor it goes: the largest are the least often too small."""
    one = replace(wish, min_count=1, max_count=1)
    for flavor in reversed(flavors):
        try:
            return instance_wishes.check(context, replace(one, flavor_ref=flavor.flavor_id)).spec
        except Invalid as error:
            if error.details.get("field") not in (None, "", "flavorRef"):
                return None
    return None


def _fit(table: HostTable, spec: RequestSpec, flavor: FlavorSpec) -> SizeFit:
    try:
        instance_wishes.refuse_too_small(spec.image, flavor)
        hardware_wishes.refuse(flavor, spec.image.properties)
        derived = hypotheses.derived(replace(spec, flavor=flavor))
        outcome = decide(table, derived, ["asked"], pipeline=hypotheses.pipeline(), seed=SEED)
    except Invalid as error:
        return SizeFit(why_not=error.message)
    if not outcome.is_successful:
        return SizeFit(why_not=explain(outcome).advice[0])
    zones = Counter(str(zone) for zone in table.zones[outcome.shown.filtering.passing])
    return SizeFit(dict(sorted(zones.items())))
