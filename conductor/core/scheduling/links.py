"""The first links of the pipeline, which are no plugins: room, requested hosts, requested zone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.needs import Needs, needs_of
from conductor.core.verdict import PASS, Verdict, reject

# Resource class → column of free amounts, word, unit.
CLASSES: Mapping[str, tuple[str, str, str]] = {
    "VCPU": ("free_vcpus", "vCPUs", "vCPU"),
    "MEMORY_MB": ("free_memory_mb", "memory", "MB"),
    "DISK_GB": ("free_disk_gb", "disk", "GB"),
}

Units = tuple[tuple[str, int, int, int], ...]


class Placement(Filter):
    """Room for the resources, and the traits asked for. `needs` spares working them out of the request each time."""

    name = "placement"

    def __init__(self, needs: Needs | None = None) -> None:
        self.needs = needs

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        needs = self.needs or needs_of(spec)
        mask = np.ones(len(hosts), np.bool_)
        for resource_class, amount in needs.resources.items():
            if resource_class in CLASSES:
                mask &= getattr(hosts, CLASSES[resource_class][0]) >= amount
            else:
                mask[:] = False
        mask &= hosts.factor("units").mask(lambda units: not _wrong_units(units, needs))
        if needs.required_traits or needs.forbidden_traits:
            mask &= hosts.factor("traits").mask(lambda traits: _has_traits(traits, needs))
        return mask

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        needs = self.needs or needs_of(spec)
        short = [item for item in needs.resources.items() if free_of(host, item[0]) < item[1]]
        if short:
            words = " and ".join(CLASSES[name][1] if name in CLASSES else name for name, _ in short)
            return reject(
                f"not enough {words}",
                need=", ".join(_amount(name, amount) for name, amount in short),
                have=", ".join(_amount(name, max(free_of(host, name), 0)) + " free" for name, _ in short),
            )
        wrong = _wrong_units(host.units, needs)
        if wrong:
            name, least, most, step = wrong
            return reject(
                f"cannot give that amount of {CLASSES[name][1]} at once",
                need=_amount(name, needs.resources[name]),
                have=f"{least} to {most} in steps of {step}",
            )
        if not _has_traits(host.traits, needs):
            return _traits_verdict(host, needs)
        return PASS


class RequestedHosts(Filter):
    """The hosts that the request names, without those that it must not use."""

    name = "requested_hosts"
    runs_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        named = _named_hosts(spec)
        mask = hosts.mask_of(named) if named else hosts.everyone
        return mask & ~hosts.mask_of(spec.ignore_hosts) if spec.ignore_hosts else mask

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        named = _named_hosts(spec)
        if named and host.host not in named:
            return reject("another host was asked for", need=", ".join(named), have=host.host)
        if host.host in spec.ignore_hosts:
            return reject("this host must not be used", have=host.host)
        return PASS


class MoveRange(Filter):
    """Where a guest that exists already can go: its cell, its kind of hypervisor, a driver that takes it over."""

    name = "move_range"
    runs_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        move = spec.move
        if move is None:
            return hosts.everyone
        mask = hosts.factor("cell").mask(lambda cell: cell == move.cell)
        if move.hypervisor_type:
            mask &= hosts.factor("hypervisor_type").mask(lambda kind: kind == move.hypervisor_type)
        if move.capability:
            mask &= hosts.factor("actions", actions_of).mask(lambda actions: move.capability in actions)
        return mask

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        move = spec.move
        if move is None:
            return PASS
        if host.cell != move.cell:
            return reject("a server stays in its cell", need=move.cell, have=host.cell)
        if move.hypervisor_type not in ("", host.hypervisor_type):
            return reject("another kind of hypervisor", need=move.hypervisor_type, have=host.hypervisor_type)
        if move.capability and move.capability not in actions_of(host):
            return reject("the host's driver cannot take it over", need=move.capability, have="not there")
        return PASS


class RequestedZone(Filter):
    """The zone asked for. Stands in where the operator's list has no filter of this name."""

    name = "AvailabilityZoneFilter"
    runs_once_per_request = True

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        if not spec.availability_zone:
            return hosts.everyone
        return hosts.factor("availability_zone").mask(lambda zone: zone == spec.availability_zone)

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if spec.availability_zone in ("", host.availability_zone):
            return PASS
        return reject("another zone was asked for", need=spec.availability_zone, have=host.availability_zone)


def actions_of(host: HostState) -> frozenset[str]:
    """What the host's driver said that it can do (names of core.compute_driver.CAPABILITIES)."""
    return frozenset(host.capabilities.get("actions", ()))


def free_of(host: HostState, resource_class: str) -> float:
    """What placement still gives out there; nothing of a class that the host does not have."""
    column = CLASSES.get(resource_class)
    return getattr(host, column[0]) if column else 0.0


def shortfall_of(host: HostState, spec: RequestSpec) -> float:
    """The largest part of any need that the host lacks, between 0 and above: 0.5 is half of it."""
    needs = needs_of(spec).resources
    return max((1 - free_of(host, name) / amount for name, amount in needs.items()), default=0.0)


def _named_hosts(spec: RequestSpec) -> tuple[str, ...]:
    return spec.force_hosts or ((spec.requested_host,) if spec.requested_host else ())


def _wrong_units(units: Units, needs: Needs) -> tuple[str, int, int, int] | None:
    for name, least, most, step in units:
        amount = needs.resources.get(name)
        if amount and (not least <= amount <= most or amount % step):
            return name, least, most, step
    return None


def _has_traits(traits: frozenset[str], needs: Needs) -> bool:
    return needs.required_traits <= traits and not needs.forbidden_traits & traits


def _traits_verdict(host: HostState, needs: Needs) -> Verdict:
    missing = sorted(needs.required_traits - host.traits)
    if missing:
        return reject("the host lacks a trait", need=", ".join(missing), have="not there")
    unwanted = sorted(needs.forbidden_traits & host.traits)
    return reject("the host has a trait that is not wanted", need="without " + ", ".join(unwanted), have="there")


def _amount(resource_class: str, amount: float) -> str:
    unit = CLASSES[resource_class][2] if resource_class in CLASSES else resource_class
    return f"{amount:.10g} {unit}"
