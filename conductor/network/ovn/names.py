"""DNS records of OVN, which answers queries of guests for names on their own network and forwards all other queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from conductor.network.ovn.topology import CloudTopology, NetworkSpec, PortSpec


def records_by_network(topology: CloudTopology) -> Mapping[str, Mapping[str, str]]:
    """Return the names and addresses of each network with named ports, by the network's id, as OVN's records."""
    named: defaultdict[str, defaultdict[str, list[PortSpec]]] = defaultdict(lambda: defaultdict(list))
    for port in topology.ports:
        if port.dns_name and port.addresses:
            named[port.network][port.dns_name].append(port)
    found = {}
    for network in topology.networks:
        records: dict[str, str] = {}
        for name, ports in named[network.uuid].items() if network.uuid in named else ():
            records |= _records(network, name, _owners(network, ports))
        if records:
            found[network.uuid] = records
    return found


def _owners(network: NetworkSpec, ports: Sequence[PortSpec]) -> Sequence[PortSpec]:
    """Return the ports to which a name resolves: if several projects use it, those of the network's owner.

    Otherwise a project could take over the name of another project on a shared network.
    """
    is_disputed = len({port.project for port in ports}) > 1
    return [port for port in ports if port.project == network.project] if is_disputed else ports


def _records(network: NetworkSpec, name: str, ports: Sequence[PortSpec]) -> Mapping[str, str]:
    """Return a name's records, alone and in the network's domain, and those of its addresses for reverse lookups."""
    full_name = f"{name}.{network.dns_domain}".rstrip(".")
    addresses = sorted({held.ip_address for port in ports for held in port.addresses})
    if not addresses:
        return {}
    reverse = {ip_address(address).reverse_pointer: full_name for address in addresses}
    return {name: " ".join(addresses), full_name: " ".join(addresses), **reverse}
