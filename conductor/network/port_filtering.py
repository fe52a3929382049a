"""Port filters of a host, in the form that the host applies."""

from __future__ import annotations

from conductor.core.port_filters import AddressPair, FilterRule, PortFilter
from conductor.network.models import Port, SecurityGroupRule
from conductor.network.ranges import normalized, normalized_range


def filters_of(host: str) -> dict[str, PortFilter]:
    """Return the filters by port, of all ports plugged there, with a constant number of queries."""
    ports = Port.objects.filter(binding_host=host).prefetch_related("security_groups__rules__remote_group", "addresses")
    return {str(port.uuid): _filter_of(port) for port in ports}


def _filter_of(port: Port) -> PortFilter:
    """Return a filter in an order that does not depend on creation times, so that equal filters are equal.

    A port's own addresses are among its pairs, so that one that is added while its guest runs counts at once.
    """
    groups = sorted(port.security_groups.all(), key=lambda group: str(group.uuid))
    rules = {rule_of(rule) for group in groups for rule in group.rules.all()}
    pairs = {
        AddressPair(normalized(pair["ip_address"]), pair.get("mac_address", "")) for pair in port.address_pairs or ()
    }
    pairs |= {AddressPair(row.ip_address) for row in port.addresses.all()}
    return PortFilter(
        is_on=port.is_port_security_enabled,
        groups=tuple(str(group.uuid) for group in groups),
        rules=tuple(sorted(rules, key=repr)),
        pairs=tuple(sorted(pairs, key=repr)),
    )


def rule_of(rule: SecurityGroupRule) -> FilterRule:
    """Return the rule of a security group as plain values."""
    return FilterRule(
        direction=rule.direction,
        ethertype=rule.ethertype,
        protocol=rule.protocol or "",
        low=rule.port_range_min,
        high=rule.port_range_max,
        remote_prefix=normalized_range(rule.remote_ip_prefix) if rule.remote_ip_prefix else "",
        remote_group=str(rule.remote_group.uuid) if rule.remote_group else "",
    )
