"""Capabilities of this cloud's storage, in the terms of volume types' extra specs."""

from __future__ import annotations

from collections.abc import Mapping

HOST = "novella@files"
POOL = "files"
BACKEND = f"{HOST}#{POOL}"
CAPABILITIES: Mapping[str, str] = {
    "volume_backend_name": POOL,
    "vendor_name": "Novella",
    "driver_version": "1.0",
    "storage_protocol": "file",
    "multiattach": "True",
    "thin_provisioning_support": "True",
    "thick_provisioning_support": "False",
    "QoS_support": "False",
    "replication_enabled": "False",
}
# Extra specs that say how, not where: they require nothing of the storage.
NOT_ASKED = frozenset({"provisioning:min_vol_size", "provisioning:max_vol_size", "RESKEY:availability_zones"})


def unmet(extra_specs: Mapping[str, str]) -> str:
    """Return the first requirement of a type that the storage lacks, as `key=value`; "" where it lacks none."""
    for key, wanted in extra_specs.items():
        scope, _, name = key.rpartition(":")
        if key in NOT_ASKED or scope not in ("", "capabilities"):
            continue
        if not _fits(wanted, CAPABILITIES.get(name, "")):
            return f"{key}={wanted}"
    return ""


def _fits(wanted: str, found: str) -> bool:
    operator, _, rest = wanted.strip().partition(" ")
    if operator == "<is>":
        return rest.strip().lower() in ("true", "1", "yes") if found == "True" else rest.strip().lower() == "false"
    if operator == "<in>":
        return rest.strip() in found
    if operator == "<or>":
        return found in (word.strip() for word in rest.split("<or>"))
    return wanted == found
