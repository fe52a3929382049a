"""The network of the real host of the embedded default: OVN of this machine, or QEMU's user network for each guest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from django.conf import settings
from django.core.management.base import CommandError
from django.utils.module_loading import import_string

from conductor.actors.periodic import Ticker
from conductor.compute.hosts import HostConfig
from conductor.core.errors import DriverError, Unavailable
from conductor.management.default_fleet import DefaultFleet
from conductor.network import seed as network_seed

LOCAL_OVN = "compute_drivers.ovn_net.local_ovn.LocalOvn"
VARIABLE = "NOVELLA_LOCAL_NETWORK"
OVN, USER = "ovn", "user"
# What the external network is connected with, if no administrator has named it.
PHYSICAL_NETWORK = "machine"
REPAIR_SECONDS = 5.0


@dataclass(frozen=True)
class LocalNetwork:
    """The hosts with their networks, and a sentence about the real one's; "" without a real host."""

    hosts: tuple[HostConfig, ...]
    remark: str


@contextmanager
def started(fleet: DefaultFleet, data_dir: Path) -> Iterator[LocalNetwork]:
    """Start OVN for the real host, until the block ends, where it is configured and possible.

    The databases are seeded. Raises CommandError where OVN is required and cannot be started.
    """
    with ExitStack() as stack:
        yield _start(fleet, data_dir, stack) if fleet.real_host else LocalNetwork(fleet.hosts, "")


def _start(fleet: DefaultFleet, data_dir: Path, stack: ExitStack) -> LocalNetwork:
    try:
        hosts, gateway = _start_ovn(fleet, data_dir, stack)
    except (Unavailable, DriverError) as error:
        if settings.NOVELLA_LOCAL_NETWORK == OVN:
            raise CommandError(f"{VARIABLE}: OVN cannot be started: {error.message}.") from None
        remark = f"Network of host {fleet.real_host}: QEMU's user network, not OVN: {error.message}."
        return LocalNetwork(fleet.hosts, remark)
    return LocalNetwork(hosts, f"Network of host {fleet.real_host}: OVN; floating IPs answer here, at {gateway}.")


def _start_ovn(fleet: DefaultFleet, data_dir: Path, stack: ExitStack) -> tuple[tuple[HostConfig, ...], str]:
    """Start OVN, map the external network to this machine, and return the hosts, and the gateway's address.

    Raises Unavailable, DriverError: their messages are clauses.
    """
    if settings.NOVELLA_LOCAL_NETWORK == USER:
        raise Unavailable(f"{VARIABLE} is {USER}")
    if settings.NOVELLA_OVN_NORTHBOUND:
        raise Unavailable("NOVELLA_OVN_NORTHBOUND names an OVN of its own")
    outside = network_seed.outside()
    if outside is None:
        raise Unavailable("there is no default external network with an IPv4 gateway")
    physical_network = outside.physical_network or PHYSICAL_NETWORK
    ovn = import_string(LOCAL_OVN)(data_dir.resolve() / "ovn", fleet.real_host, physical_network, outside.gateway)
    stack.callback(ovn.stop, ovn.start())
    repair = Ticker("local-ovn", REPAIR_SECONDS, ovn.repair)
    repair.start()
    stack.callback(repair.stop)
    network_seed.map_outside(outside, physical_network)
    # From here on this is a cloud with OVN, as if an operator had configured it.
    settings.NOVELLA_OVN_NORTHBOUND, settings.NOVELLA_OVN_SOUTHBOUND = ovn.northbound, ovn.southbound
    hosts = (
        replace(host, options={**host.options, **ovn.host_options}) if host.host == fleet.real_host else host
        for host in fleet.hosts
    )
    return tuple(hosts), outside.gateway
