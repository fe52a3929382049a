"""Port security: security groups, allowed address pairs, and the switch that turns both off."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from conductor.network.errors import (
    AddressPairAndPortSecurityRequired,
    AddressPairsExhausted,
    DuplicateAddressPairInRequest,
    PortSecurityAndIPRequiredForSecurityGroups,
    PortSecurityPortHasSecurityGroup,
)
from conductor.network.models import Port
from conductor.network.ranges import normalized
from conductor.network.security_groups import DEFAULT_NAME

MAX_PAIRS = 10
Pair = Mapping[str, str]


def group_refs(values: Mapping[str, Any], wanted: Sequence[str] | None) -> Sequence[str]:
    """Return the groups of a new port: the requested ones, else the default one; none where security is off.

    Raises what check_changes raises.
    """
    is_secure = values["is_port_security_enabled"]
    if not is_secure and wanted:
        raise PortSecurityAndIPRequiredForSecurityGroups(
            "Port security must be enabled and port must have an IP address in order to use security groups."
        )
    _check_pairs(values.get("address_pairs"), is_secure=is_secure)
    if wanted is None:
        return [DEFAULT_NAME] if is_secure and not values.get("device_owner", "").startswith("network:") else []
    return wanted


def check_changes(port: Port, values: MutableMapping[str, Any], refs: Sequence[str] | None) -> None:
    """Complete the values to write. Raises errors naming the values that contradict port security."""
    is_secure = values.get("is_port_security_enabled", port.is_port_security_enabled)
    has_groups = port.security_groups.exists() if refs is None else bool(refs)
    if not is_secure and has_groups:
        raise PortSecurityPortHasSecurityGroup(
            "Port has security group associated. Cannot disable port security or ip address until security group is "
            "removed"
        )
    pairs = values.get("address_pairs", port.address_pairs)
    _check_pairs(pairs, is_secure=is_secure)
    if values.get("address_pairs"):
        values["address_pairs"] = complete(values["address_pairs"], values.get("mac_address", port.mac_address))
    if "dhcp_options" in values:
        values["dhcp_options"] = merged(port.dhcp_options or [], values["dhcp_options"])


def complete(pairs: Sequence[Pair], mac_address: str) -> list[dict[str, str]]:
    """Give pairs without a MAC address the port's. Raises DuplicateAddressPairInRequest."""
    whole = [
        {"ip_address": pair["ip_address"], "mac_address": pair.get("mac_address") or mac_address} for pair in pairs
    ]
    keys = [(normalized(pair["ip_address"]), pair["mac_address"]) for pair in whole]
    for index, pair in enumerate(whole):
        if keys[index] in keys[:index]:
            raise DuplicateAddressPairInRequest(
                f"Request contains duplicate address pair: mac_address {pair['mac_address']} ip_address "
                f"{pair['ip_address']}."
            )
    return whole


def merged(held: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Merge DHCP options by name and IP version: a new value replaces the old one, None removes it."""
    by_key = {(option["opt_name"], option["ip_version"]): dict(option) for option in held}
    for option in wanted:
        key = (option["opt_name"], option["ip_version"])
        if option["opt_value"] is None:
            by_key.pop(key, None)
        else:
            by_key[key] = dict(option)
    return list(by_key.values())


def _check_pairs(pairs: Sequence[Pair] | None, *, is_secure: bool) -> None:
    if pairs and not is_secure:
        raise AddressPairAndPortSecurityRequired(
            "Port Security must be enabled in order to have allowed address pairs on a port."
        )
    if len(pairs or ()) > MAX_PAIRS:
        raise AddressPairsExhausted(f"The number of allowed address pairs exceeds the maximum {MAX_PAIRS}.")
