"""Pre-filters: what a request demands of placement before any host is looked at."""

from __future__ import annotations

from typing import ClassVar

from conductor.core.extensions.base import Extension
from conductor.core.placement.query import Bounds
from conductor.core.request_spec import RequestSpec


class Prefilter(Extension):
    """Turns a request into demands on the hosts: traits that they have or lack, aggregates that they are in or not.

    Demands only ever add up: no pre-filter can take back what another one asks for. It reads the request alone.
    """

    kind: ClassVar[str] = "prefilter"
    method: ClassVar[str] = "bounds"

    def bounds(self, spec: RequestSpec) -> Bounds:
        """The demands; `UNBOUND` for none. Raise `Invalid`, in words that tenants read, for what cannot be met."""
        raise NotImplementedError
