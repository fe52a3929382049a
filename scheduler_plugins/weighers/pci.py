"""Weigher that prefers hosts with few free PCI devices."""

from __future__ import annotations

from conductor.core.host_state import Column, HostState, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.weigher import Weigher

ENOUGH = 100  # hosts with this many devices count the same: there is no shortage


class PCIWeigher(Weigher):
    """Packs instances with PCI devices on few hosts and keeps other instances away from them."""

    name = "PCIWeigher"
    multiplier = 1.0
    multiplier_option = "pci_weight_multiplier"

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Column:
        column = hosts.factor("pci_wanted", _wanted).numbers
        if hosts.claimed_rows and (spec.numa is not None or spec.pci_requests):  # others take no devices
            column = column.copy()
            for row in hosts.claimed_rows:
                column[row] = _wanted(hosts.states[row])
        return column


def _wanted(state: HostState) -> float:
    free = sum(pool.count for pool in state.pci_pools)
    return float(ENOUGH - min(free, ENOUGH - 1))
