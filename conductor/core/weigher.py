"""Base class of weighers: how much do we want this host?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from conductor.core.host_state import Column, HostTable, Mask
from conductor.core.plugin_choice import WEIGHER
from conductor.core.plugin_log import PluginLog
from conductor.core.plugin_options import OptionsSchema, with_defaults
from conductor.core.request_spec import RequestSpec


class Weigher:
    """Gives one raw number per host; the engine normalises to 0…1 and multiplies.

    `multiplier` is the default factor, which the operator's option or an aggregate's metadata key
    `multiplier_option` may override. `minval` and `maxval` fix the ends of the normalisation; the operator's range
    (`NOVELLA_WEIGHT_RANGES`) overrides them. `options_schema` and `options` are as those of filters.

    `counts_against`: the factor is negated, so that operators write how bad something is. One that is not
    `asked_at_zero` is too expensive to run where the operator's multiplier is 0. `must_know`: a number that is not
    finite means that a required value is missing, and ends the request. The numbers of one that `compares_hosts`
    depend on which other hosts are candidates. `trouble` and `log` are as those of filters.
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
        """Raw weights, one float per row of `hosts`."""
        raise NotImplementedError

    def weigh_among(self, hosts: HostTable, spec: RequestSpec, passing: Mask) -> Column:
        """Like `weigh`, where only the candidates in `passing` count: all other rows may hold any number."""
        return self.weigh(hosts, spec)
