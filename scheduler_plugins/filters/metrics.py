"""Filter by the metrics that the metrics weigher needs."""

from __future__ import annotations

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.messages import message, word
from conductor.core.metrics import RATIOS_SCHEMA, WEIGHT_SETTING, ratios
from conductor.core.request_spec import RequestSpec
from conductor.core.verdict import PASS, Verdict, reject


class MetricsFilter(Filter):
    """Keep hosts that report all metrics named in weight_setting."""

    name = "MetricsFilter"
    is_on_by_default = False
    options_schema = {WEIGHT_SETTING: RATIOS_SCHEMA}

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        wanted = self._wanted()
        if not wanted:
            return hosts.everyone
        return hosts.factor("metric names", lambda host: frozenset(host.metrics)).mask(lambda names: wanted <= names)

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        missing = sorted(self._wanted() - host.metrics.keys())
        if not missing:
            return PASS
        return reject(message("reject.metrics_missing"), need=", ".join(missing), have=word("not reported"))

    def _wanted(self) -> frozenset[str]:
        return frozenset(name for name, _ in ratios(self.options[WEIGHT_SETTING]))
