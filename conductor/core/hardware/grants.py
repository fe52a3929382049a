"""Assigns exact cells, CPUs, pages and devices of a host to a guest, given what other guests hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from conductor.core.hardware import devices, usage
from conductor.core.hardware.fit import Fit, FitRequest, Limits, fit
from conductor.core.hardware.request import InstanceTopology, PciRequest
from conductor.core.hardware.topology import HostTopology, PciDevice, pools_of


@dataclass(frozen=True, slots=True)
class HardwareRequest:
    """The hardware that a guest requests; false where it requests none."""

    numa: InstanceTopology | None = None
    pci_requests: tuple[PciRequest, ...] = ()

    def __bool__(self) -> bool:
        return self.numa is not None or bool(self.pci_requests)


@dataclass(frozen=True, slots=True)
class Device:
    """A device that a guest has, and the alias of the request that it serves."""

    address: str
    alias: str = ""


@dataclass(frozen=True, slots=True)
class HardwareGrant:
    """The hardware that a guest has: its cells on the host's cells, and its devices."""

    numa: InstanceTopology | None = None
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True, slots=True)
class Host:
    """A host's hardware as reported."""

    topology: HostTopology | None = None
    devices: tuple[PciDevice, ...] = ()

    def without(self, grants: Iterable[HardwareGrant]) -> Host:
        """Return what is left without these grants. A granted device also takes its parts, and a granted part its whole
        device.
        """
        grants = tuple(grants)
        if not grants:
            return self
        taken = {device.address for grant in grants for device in grant.devices}
        parents = {device.parent for device in self.devices if device.address in taken and device.parent}
        guests = [grant.numa for grant in grants if grant.numa is not None]
        return Host(
            usage.with_guests(self.topology, guests) if self.topology else None,
            tuple(
                device
                for device in self.devices
                if device.address not in taken | parents and device.parent not in taken
            ),
        )


def grant(host: Host, wanted: HardwareRequest, limits: Limits) -> HardwareGrant | None:
    """Return the guest's share of the host as it is now; None where there is too little."""
    pools = devices.in_order(pools_of(host.devices))
    numa = None
    if wanted.numa is not None:
        request = FitRequest(wanted.numa, wanted.pci_requests, limits)
        numa = _sound(host.topology, pools, request).topology if host.topology else None
        if numa is None:
            return None
    cells = tuple(cell.id for cell in numa.cells) if numa else ()
    taken = devices.take_all(pools, wanted.pci_requests, cells, host.topology)
    if taken is None:
        return None
    chosen = _addresses(host.devices, wanted.pci_requests, taken[1])
    return None if chosen is None else HardwareGrant(numa, chosen)


def _sound(host: HostTopology, pools: devices.Pools, request: FitRequest) -> Fit:
    """Return a fit that uses no CPU twice: the first one found, or else one that is found by matching cells."""
    found = fit(host, pools, request)
    if found.topology is None or not usage.clashes(host, found.topology):
        return found
    return fit(host, pools, replace(request, is_matched=True))


def _addresses(
    free: Sequence[PciDevice], requests: Sequence[PciRequest], taken: Sequence[Sequence[devices.Take]]
) -> tuple[Device, ...] | None:
    """Return a device for each one that a pool gave. None where a device and its own part would both be assigned."""
    left = list(free)
    chosen: list[Device] = []
    for request, takes in zip(requests, taken, strict=True):
        for pool, count in takes:
            for _ in range(count):
                device = next((one for one in left if pools_of([one])[0] == replace(pool, count=1)), None)
                if device is None:
                    return None
                chosen.append(Device(device.address, request.alias))
                left = [one for one in left if not _are_one(one, device)]
    return tuple(chosen)


def _are_one(one: PciDevice, other: PciDevice) -> bool:
    """Whether these are the same device, or one is a part of the other."""
    return one.address in (other.address, other.parent) or one.parent == other.address
