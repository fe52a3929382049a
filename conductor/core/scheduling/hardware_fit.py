"""Hardware requirements of a request: checked on all hosts at once, and taken from the picked host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from conductor.core.filter import Filter
from conductor.core.hardware import devices, usage, wire
from conductor.core.hardware.fit import FitRequest, Limits, fit
from conductor.core.hardware.grants import HardwareRequest
from conductor.core.hardware.topology import HostTopology
from conductor.core.hardware.verdicts import Pools, explain_devices, explain_fit, has_devices, has_fit
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.hardware_columns import fitting, is_plain, roomy
from conductor.core.verdict import PASS, Verdict

NO_HARDWARE: Mapping[str, Any] = {}
Hardware = tuple[HostTopology | None, Pools, float, float]


class HardwareFit(Filter):
    """Check NUMA cells, pinned CPUs, pages and devices of the request, whichever filters are enabled."""

    name = "hardware"

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return self.mask_among(hosts, spec, hosts.everyone)

    def mask_among(self, hosts: HostTable, spec: RequestSpec, passing: Mask) -> Mask:
        mask = hosts.everyone
        if spec.pci_requests:
            mask = offers(hosts, spec)
        if spec.numa is not None:
            mask = mask & fits(hosts, spec, among=mask & passing)
        return mask

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        verdict = why_not_offers(host, spec) if spec.pci_requests else PASS
        return why_not_fits(host, spec) if verdict and spec.numa is not None else verdict


def wanted_of(spec: RequestSpec) -> Mapping[str, Any]:
    """Return the hardware that a claim takes of a host, as JSON. Empty if it takes none."""
    return wire.wanted_to_json(HardwareRequest(spec.numa, spec.pci_requests))


def hardware_of(state: HostState) -> Hardware:
    return (state.topology or None, state.pci_pools, state.cpu_ratio, state.ram_ratio)


def fits(hosts: HostTable, spec: RequestSpec, *, packs: bool = False, among: Mask | None = None) -> Mask:
    """Return where the guest's cells fit, checking only the hosts in `among`. `spec.numa` is not None."""
    if spec.numa is None:
        raise ValueError("nothing is asked of NUMA cells")
    among = hosts.everyone if among is None else among
    again = [row for row in hosts.claimed_rows if among[row]]
    if is_plain(spec.numa):
        mask, is_odd = fitting(hosts, spec.numa, spec.pci_requests, among)
        again += np.flatnonzero(is_odd & among).tolist()
    else:
        mask = _fits_one_by_one(hosts, spec, packs, roomy(hosts, spec.numa, among))
    for row in again:
        mask[row] = _fits(hardware_of(hosts.states[row]), spec, packs)
    return mask


def _fits_one_by_one(hosts: HostTable, spec: RequestSpec, packs: bool, among: Mask) -> Mask:
    """Return where the guest's cells fit. Equal hosts are judged once, and only hosts that have the devices."""
    factor = hosts.factor("hardware", hardware_of)
    if spec.pci_requests:
        among = among & offers(hosts, spec)
    known = np.zeros(len(factor.values), np.bool_)
    for code in np.unique(factor.codes[among]).tolist():
        known[code] = _fits(factor.values[code], spec, packs)
    mask: Mask = among & known[factor.codes]
    return mask


def offers(hosts: HostTable, spec: RequestSpec) -> Mask:
    """Return where the devices are, in any NUMA cell."""
    mask = hosts.factor("pci_pools").mask(lambda pools: has_devices(pools, spec.pci_requests))
    for row in hosts.claimed_rows:
        mask[row] = has_devices(hosts.states[row].pci_pools, spec.pci_requests)
    return mask


def why_not_fits(state: HostState, spec: RequestSpec, *, packs: bool = False) -> Verdict:
    topology, pools, cpu_ratio, ram_ratio = hardware_of(state)
    return explain_fit(topology, pools, fit_request_of(spec, cpu_ratio, ram_ratio, packs))


def why_not_offers(state: HostState, spec: RequestSpec) -> Verdict:
    return explain_devices(state.pci_pools, spec.pci_requests)


def fit_request_of(spec: RequestSpec, cpu_ratio: float, ram_ratio: float, packs: bool = False) -> FitRequest:
    if spec.numa is None:
        raise ValueError("nothing is asked of NUMA cells")
    return FitRequest(spec.numa, spec.pci_requests, Limits(cpu_ratio, ram_ratio), packs)


def with_hardware_taken(state: HostState, spec: RequestSpec, *, packs: bool = False) -> tuple[HostState, RequestSpec]:
    """Return the host after it took the guest, and the request for the next instance, with the choices that were made
    here.

    A host that was chosen without checking cells and devices may have too few. Missing ones are not taken.
    """
    if spec.numa is not None and state.topology:
        found = fit(state.topology, state.pci_pools, fit_request_of(spec, state.cpu_ratio, state.ram_ratio, packs))
        spec = replace(spec, numa=found.topology)
        if found.topology is not None:
            state = replace(state, topology=usage.with_guest(state.topology, found.topology))
    if not spec.pci_requests:
        return state, spec
    return _with_devices_taken(state, spec), spec


def _with_devices_taken(state: HostState, spec: RequestSpec) -> HostState:
    """Return the host with fewer devices.

    Where a request finds too few devices, the requests before it keep theirs, and the accounting ends there.
    """
    cells = tuple(cell.id for cell in spec.numa.cells) if spec.numa else ()
    pools = state.pci_pools
    for request in spec.pci_requests:
        taken = devices.take_all(pools, (request,), cells, state.topology)
        if taken is None:
            return replace(state, pci_pools=pools, num_io_ops=state.num_io_ops - 1)
        pools = taken[0]
    return replace(state, pci_pools=pools)


def _fits(hardware: Hardware, spec: RequestSpec, packs: bool) -> bool:
    topology, pools, cpu_ratio, ram_ratio = hardware
    return topology is not None and has_fit(topology, pools, fit_request_of(spec, cpu_ratio, ram_ratio, packs))
