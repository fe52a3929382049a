"""Base class of scheduler weighers, which say how much a host is preferred."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from conductor.core.host_state import Column, HostTable, Mask
from conductor.core.plugin_choice import WEIGHER
from conductor.core.plugin_log import PluginLog
from conductor.core.plugin_options import OptionsSchema, with_defaults
from conductor.core.request_spec import RequestSpec


class Weigher:
    """Gives one raw number per host. The engine normalises the numbers to 0…1 and multiplies them.

    Attributes:
        multiplier: The default factor. The operator's option, or an aggregate's metadata key `multiplier_option`,
            overrides it.
        minval, maxval: Fixed ends of the normalisation. The operator's range (`NOVELLA_WEIGHT_RANGES`) overrides them.
        options_schema, options: As those of filters.
        counts_against: The factor is negated, so that operators write how bad something is.
        asked_at_zero: False for a weigher that is too expensive to run where the operator's multiplier is 0.
        must_know: A number that is not finite means that a required value is missing, and ends the request.
        compares_hosts: The numbers depend on which other hosts are candidates.
        trouble, log: As those of filters.
    """

    name: ClassVar[str] = ""
    multiplier: ClassVar[float] = 1.0
    multiplier_option: ClassVar[str] = ""
    minval: float | None = None
    maxval: float | None = None
    counts_against: ClassVar[bool] = False
    asked_at_zero: ClassVar[bool] = True
    must_know: bool = False
    compares_hosts: ClassVar[bool] = False
    trouble: ClassVar[str] = ""
    is_on_by_default: ClassVar[bool] = True
    options_schema: ClassVar[OptionsSchema] = {}
    log = PluginLog(WEIGHER)

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = with_defaults(self.options_schema, options or {})

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        """Return the raw weights: one float per row of `hosts`."""
        raise NotImplementedError

    def weigh_among(self, hosts: HostTable, spec: RequestSpec, passing: Mask) -> Column:
        """Return the raw weights, of which only those of the candidates in `passing` count. Other rows may hold any
        number.
        """
        return self.weigh(hosts, spec)
