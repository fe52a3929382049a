"""Base class of scheduler filters, which decide whether a host may take a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.plugin_choice import FILTER
from conductor.core.plugin_log import PluginLog
from conductor.core.plugin_options import OptionsSchema, with_defaults
from conductor.core.request_spec import RequestSpec
from conductor.core.verdict import Verdict


class Filter:
    """A condition on hosts. Pure: no I/O, no clock, no state.

    A subclass must define `name` and `host_passes`. It may define `mask`, which evaluates all hosts at once and must
    agree with `host_passes` on every row, and `mask_among`.

    Attributes:
        runs_once_per_request: The filter sees only the first instance of a batch, as its verdict cannot change within
            it.
        runs_on_rebuild: The filter runs again when a server that stays on its host gets another image.
        is_on_by_default: False for a filter that runs only where the operator names it.
        options_schema: A JSON schema with a default, for each option by name.
        options: Values of the options.
        trouble: Why the filter will always fail, where that is known in advance. Operators see it at start-up.
        log: A logger of the filter's own. Operators find its last lines in the catalogue.
    """

    name: ClassVar[str] = ""
    runs_once_per_request: ClassVar[bool] = False
    runs_on_rebuild: ClassVar[bool] = False
    is_on_by_default: ClassVar[bool] = True
    trouble: ClassVar[str] = ""
    options_schema: ClassVar[OptionsSchema] = {}
    log = PluginLog(FILTER)

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = with_defaults(self.options_schema, options or {})

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        """Return PASS, or `reject(reason, need=…, have=…)`."""
        raise NotImplementedError

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        """Return one bool per row of `hosts`: true where the host passes."""
        return np.fromiter((bool(self.host_passes(state, spec)) for state in hosts.states), np.bool_, len(hosts))

    def mask_among(self, hosts: HostTable, spec: RequestSpec, passing: Mask) -> Mask:
        """Return a mask of which only the rows in `passing` count. All other rows may hold any value."""
        return self.mask(hosts, spec)
