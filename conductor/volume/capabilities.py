"""What the storage of this cloud can, in the words that types of volumes ask in."""

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
# Words of types that say how, not where: they ask nothing of the storage.
NOT_ASKED = frozenset({"provisioning:min_vol_size", "provisioning:max_vol_size", "RESKEY:availability_zones"})


def unmet(extra_specs: Mapping[str, str]) -> str:
    """The first thing that a type asks for and the storage has not, as `key=value`; "" where all is there."""
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
