"""Filters and weighers written only for Nova, by a third party."""

from __future__ import annotations

from typing import Any

import nova.conf
from nova.scheduler import filters, utils, weights
from oslo_config import cfg
from oslo_log import log as logging

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF
CONF.register_opts([cfg.IntOpt("most_guests", default=1)], group="racks")


class RackFilter(filters.BaseHostFilter):
    """Hosts of the rack that the hint names, by the metadata of their aggregates."""

    run_filter_once_per_request = True

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        wanted = spec_obj.get_scheduler_hint("rack")
        racks = {one.metadata["rack"] for one in host_state.aggregates if "rack" in one.metadata}
        if wanted and wanted not in racks:
            LOG.debug("%(host)s is in %(racks)s", {"host": host_state.host, "racks": sorted(racks)})
            return False
        host_state.limits["rack"] = wanted  # as filters of Nova do
        return True


class OccupancyFilter(filters.BaseHostFilter):
    """Hosts with few guests, by an option of its own."""

    RUN_ON_REBUILD = True

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        return "rack" not in host_state.limits and host_state.num_instances < CONF.racks.most_guests


class FailingFilter(filters.BaseHostFilter):
    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        raise RuntimeError("the password is hunter2")


class FewestWeigher(weights.BaseHostWeigher):
    """Weighs against the fullest candidate."""

    def weight_multiplier(self, host_state: Any) -> float:
        return -1 * utils.get_weight_multiplier(host_state, "fewest_weight_multiplier", 2.5)

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        return float(host_state.num_instances)

    def weigh_objects(self, weighed_obj_list: Any, weight_properties: Any) -> list[float]:
        most = max(one.obj.num_instances for one in weighed_obj_list)
        return [one.obj.num_instances / most for one in weighed_obj_list]


class NotOne:
    """No filter at all."""
