"""Pre-filters: bounds of the query to placement, from the request alone."""

from __future__ import annotations

from typing import ClassVar

from conductor.core.extensions.base import Extension
from conductor.core.placement.query import Bounds
from conductor.core.request_spec import RequestSpec


class Prefilter(Extension):
    """Turns a request into demands on the hosts: traits that they have or lack, aggregates that they are in or not.

    Demands add up: no pre-filter can remove the demand of another one. It reads the request alone.
    """

    kind: ClassVar[str] = "prefilter"
    method: ClassVar[str] = "bounds"

    def bounds(self, spec: RequestSpec) -> Bounds:
        """Return the demands; `UNBOUND` for none. Raise `Invalid`, worded for tenants, for what cannot be met."""
        raise NotImplementedError
