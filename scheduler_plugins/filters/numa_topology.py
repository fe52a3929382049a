"""Filter by the guest's NUMA topology."""

from __future__ import annotations

from typing import ClassVar

from conductor.core.filter import Filter
from conductor.core.hardware.request import DEDICATED, REQUIRE
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.messages import message
from conductor.core.plugin_options import OptionsSchema
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.hardware_fit import fits, why_not_fits
from conductor.core.verdict import PASS, Verdict, reject

PACKS = "packing_host_numa_cells_allocation_strategy"


class NUMATopologyFilter(Filter):
    """Keep hosts that fit the requested NUMA cells, pinned CPUs, memory pages and nearby PCI devices."""

    name = "NUMATopologyFilter"
    is_on_by_default = False
    options_schema: ClassVar[OptionsSchema] = {
        PACKS: {
            "type": "boolean",
            "default": False,
            "description": "Fill one NUMA cell of a host before the next instead of using the emptiest.",
        }
    }

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return self.mask_among(hosts, spec, hosts.everyone)

    def mask_among(self, hosts: HostTable, spec: RequestSpec, passing: Mask) -> Mask:
        needs_threads = _needs_threads(spec)
        if spec.numa is None and not needs_threads:
            return hosts.everyone
        if spec.numa is None:
            mask = hosts.factor("topology").mask(lambda topology: not topology or topology.has_threads)
        else:
            mask = fits(hosts, spec, packs=self.options[PACKS], among=passing)
            if needs_threads:
                mask &= hosts.factor("topology").mask(lambda topology: not topology or topology.has_threads)
        return mask

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if _needs_threads(spec) and host.topology and not host.topology.has_threads:
            return reject(message("reject.no_threads"), need="hw:cpu_thread_policy=require")
        if spec.numa is None:
            return PASS
        return why_not_fits(host, spec, packs=self.options[PACKS])


def _needs_threads(spec: RequestSpec) -> bool:
    """Whether the policies of flavor and image, read separately, require hardware threads."""
    extra_specs, properties = spec.flavor.extra_specs, spec.image.properties
    policies = (extra_specs.get("hw:cpu_policy"), properties.get("hw_cpu_policy"))
    threads = (extra_specs.get("hw:cpu_thread_policy"), properties.get("hw_cpu_thread_policy"))
    return DEDICATED in policies and REQUIRE in threads
