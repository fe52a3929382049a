"""Filter by the requested PCI devices."""

from __future__ import annotations

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.hardware_fit import offers, why_not_offers
from conductor.core.verdict import PASS, Verdict


class PciPassthroughFilter(Filter):
    """Keep hosts with enough free PCI devices of each alias that the flavor requests."""

    name = "PciPassthroughFilter"
    is_on_by_default = False

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return offers(hosts, spec) if spec.pci_requests else hosts.everyone

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        return why_not_offers(host, spec) if spec.pci_requests else PASS
