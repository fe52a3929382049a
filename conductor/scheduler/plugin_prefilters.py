"""What the pre-filters of plugins demand of placement for a request."""

from __future__ import annotations

import functools
from typing import Any

from conductor.core.extensions import Prefilter
from conductor.core.frozen import sealed
from conductor.core.placement.query import UNBOUND, Bounds
from conductor.core.request_spec import RequestSpec
from conductor.scheduler.extensions import in_use


def bounds_of(spec: RequestSpec) -> Bounds:
    """All demands together. Raises Invalid as a pre-filter says.

    Raises Unavailable, naming it, where one fails: a demand that is not known is never taken for none.
    """
    bounds = UNBOUND
    for one in in_use(Prefilter.kind):
        asked = functools.partial(getattr(one.extension, Prefilter.method), sealed(spec))
        bounds = bounds | one.insist("pre-filter", asked, _wrong)
    return bounds


def _wrong(answer: Any) -> str:
    if not isinstance(answer, Bounds):
        return f"said {type(answer).__name__} where Bounds belong"
    parts = (answer.root_required, answer.root_forbidden, answer.forbidden_aggregates, *answer.member_of)
    if not all(isinstance(part, frozenset) and all(isinstance(name, str) for name in part) for part in parts):
        return "said Bounds with something else than sets of texts"
    return ""
