"""PCI aliases: names that operators give to kinds of devices, and the devices that a flavor requests by them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conductor.core.errors import Invalid
from conductor.core.hardware.constraints import HardwareRequirements, is_true
from conductor.core.hardware.request import LEGACY, PCI_POLICIES, PciRequest

OPTION = "pci.alias"
KEY = "pci_passthrough:alias"
ID = {"type": "string", "pattern": "^[0-9a-fA-F]{4}$"}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "vendor_id", "product_id"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 256},
        "capability_type": {"enum": ["pci"]},
        "vendor_id": ID,
        "product_id": ID,
        "device_type": {"enum": ["type-PCI", "type-PF", "type-VF"]},
        "numa_policy": {"enum": list(PCI_POLICIES)},
        "resource_class": {"type": "string"},
        "traits": {"type": "string"},
        "live_migratable": {"type": "string"},
    },
}


@dataclass(frozen=True, slots=True)
class Alias:
    """Devices that meet any of `specs`."""

    policy: str
    specs: tuple[Mapping[str, str], ...]


def requests_of(requirements: HardwareRequirements, policy: str | None, aliases: object) -> tuple[PciRequest, ...]:
    """Return the devices that the flavor requests; a given `policy` overrides the alias's. Raises Invalid."""
    requested = requirements.extra_specs.get(KEY)
    if requested is None:
        return ()
    known = read_aliases(aliases)
    return tuple(_request(part, known, policy) for part in requested.split(","))


def read_aliases(option: object) -> dict[str, Alias]:
    """Return the aliases by name; each is an object or a JSON text of one. Raises Invalid naming the option."""
    found: dict[str, Alias] = {}
    for text in _as_list(option):
        spec = _checked(text)
        name = spec.pop("name").strip()
        alias = Alias(spec.pop("numa_policy", LEGACY), (_renamed(spec),))
        known = found.get(name)
        if known is None:
            found[name] = alias
            continue
        if known.policy != alias.policy or known.specs[0].get("dev_type") != alias.specs[0].get("dev_type"):
            raise Invalid(f'{OPTION}: the aliases "{name}" differ in numa_policy or device_type.')
        found[name] = Alias(known.policy, known.specs + alias.specs)
    return found


def _request(part: str, known: Mapping[str, Alias], policy: str | None) -> PciRequest:
    name, _, count = part.partition(":")
    name = name.strip()
    if part.count(":") == 1 and name not in known:
        raise Invalid(f'{KEY}: there is no alias "{name}".')
    if not count.strip().isdecimal():
        raise Invalid(f'{KEY}: "{part.strip()}" is not an alias with a number, such as gpu:1.')
    alias = known[name]
    return PciRequest(int(count), alias.specs, name, policy or alias.policy)


def _as_list(option: object) -> Sequence[object]:
    if option is None:
        return ()
    return (option,) if isinstance(option, str | Mapping) or not isinstance(option, Sequence) else option


def _checked(text: object) -> dict[str, str]:
    import jsonschema  # most clouds have no aliases

    try:
        spec: Any = json.loads(text) if isinstance(text, str) else text
        jsonschema.validate(spec, SCHEMA)
    except (ValueError, jsonschema.ValidationError) as error:
        why = error.message if isinstance(error, jsonschema.ValidationError) else "it is no JSON"
        raise Invalid(f"{OPTION}: an alias cannot be read: {why}") from None
    return dict(spec)


def _renamed(spec: dict[str, str]) -> dict[str, str]:
    """Return a spec with the names that device reports use: `dev_type`, and `true` and `false` for yes and no."""
    if "device_type" in spec:
        spec["dev_type"] = spec.pop("device_type")
    if "live_migratable" in spec:
        spec["live_migratable"] = "true" if is_true(spec["live_migratable"]) else "false"
    return spec
