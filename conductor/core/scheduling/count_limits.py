"""Base classes of filters that limit how many instances or builds a host has."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from conductor.core.filter import Filter
from conductor.core.host_state import Column, HostState, HostTable, Mask
from conductor.core.messages import Message, message
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.aggregate_metadata import least
from conductor.core.verdict import PASS, Verdict, reject


class CountLimit(Filter):
    """Keeps hosts whose count is below `option`.

    With `asks_aggregates` the least value that the host's aggregates have under the option's name replaces the option.
    """

    option: ClassVar[str]
    reason: ClassVar[Message]
    asks_aggregates: ClassVar[bool] = False
    is_on_by_default = False

    def count(self, host: HostState) -> int:
        """Return the host's count."""
        raise NotImplementedError

    def counts(self, hosts: HostTable) -> Column:
        """Return the counts of all hosts."""
        raise NotImplementedError

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        if not self.asks_aggregates:
            return self.counts(hosts) < float(self.options[self.option])
        option = self.option
        factor = hosts.factor(f"least:{option}", lambda host: least(host.aggregate_metadata, option, int))
        general = self.options[option]
        by_value = np.array([general if value is None else value for value in factor.values], np.float64)
        mask: Mask = self.counts(hosts) < by_value[factor.codes]
        return mask

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        most = self._most(host)
        count = self.count(host)
        return PASS if count < most else reject(self.reason, need=message("need.fewer_than", count=most), have=count)

    def _most(self, host: HostState) -> int:
        own = least(host.aggregate_metadata, self.option, int) if self.asks_aggregates else None
        return int(self.options[self.option]) if own is None else own


class BuildsLimit(CountLimit):
    """Fewer instances being built, moved or copied on the host than an option allows."""

    option = "max_io_ops_per_host"
    reason = message("reject.io_ops")
    options_schema = {
        option: {
            "type": "integer",
            "minimum": 0,
            "default": 8,
            "description": "Maximum number of instances being built or moved on a host.",
        }
    }

    def count(self, host: HostState) -> int:
        return host.num_io_ops

    def counts(self, hosts: HostTable) -> Column:
        return hosts.num_io_ops


class InstancesLimit(CountLimit):
    """Fewer instances on the host than an option allows."""

    option = "max_instances_per_host"
    reason = message("reject.num_instances")
    options_schema = {
        option: {
            "type": "integer",
            "minimum": 1,
            "default": 50,
            "description": "Maximum number of instances on a host.",
        }
    }

    def count(self, host: HostState) -> int:
        return host.num_instances

    def counts(self, hosts: HostTable) -> Column:
        return hosts.num_instances
