"""Gateways: the hosts that connect routers with external networks, by what hosts report to OVN."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.network.ovn.topology import GatewayHost


def gateway_hosts_of(chassis: Mapping[str, Mapping[str, str]]) -> tuple[GatewayHost, ...]:
    """Return the hosts that may be gateways, in order: those with `enable-chassis-as-gw`, or, without any, all.

    Args:
        chassis: The configuration of hosts by name, as they report it in the southbound database.
    """
    marked = {
        name
        for name, values in chassis.items()
        if "enable-chassis-as-gw" in values.get("ovn-cms-options", "").split(",")
    }
    return tuple(
        GatewayHost(name, tuple(sorted(_physical_networks(chassis[name].get("ovn-bridge-mappings", "")))))
        for name in sorted(marked or chassis)
    )


def _physical_networks(mappings: str) -> list[str]:
    """Return the names in `physnet1:br-ex,physnet2:br-other`."""
    return [name for mapping in mappings.split(",") if (name := mapping.partition(":")[0].strip())]
