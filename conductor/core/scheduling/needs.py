"""What a request needs from placement: amounts by resource class, traits that must be there, traits that must not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from conductor.core.errors import Invalid
from conductor.core.request_spec import RequestSpec

GROUPED = re.compile(r"(resources|trait)[^:]+:|group_policy$")


@dataclass(frozen=True, slots=True)
class Needs:
    """One instance's needs. Classes with nothing asked are left out."""

    resources: Mapping[str, int]
    required_traits: frozenset[str] = frozenset()
    forbidden_traits: frozenset[str] = frozenset()


def needs_of(spec: RequestSpec) -> Needs:
    """The flavor's size, changed by its `resources:CLASS` and `trait:NAME` extra specs and the image's traits.

    Raises Invalid for an extra spec that cannot be read: to pass over it would place the instance wrongly.
    """
    resources = spec.flavor.resources()
    traits: dict[str, set[str]] = {"required": set(), "forbidden": set()}
    for key, value in spec.flavor.extra_specs.items():
        if GROUPED.match(key):
            raise Invalid(f"Extra spec {key}: numbered request groups are not offered.")
        kind, _, name = key.partition(":")
        if kind == "resources":
            resources[name] = _amount(key, value)
        elif kind == "trait":
            _trait_set(traits, key, value).add(name)
    for key, value in spec.image.properties.items():
        kind, _, name = key.partition(":")
        if kind == "trait" and name:
            _trait_set(traits, key, value).add(name)
    return Needs(
        {name: amount for name, amount in resources.items() if amount},
        frozenset(traits["required"]),
        frozenset(traits["forbidden"]),
    )


def _amount(key: str, value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", value):
        raise Invalid(f'Extra spec {key}: "{value}" is not an amount.')
    return int(value)


def _trait_set(traits: Mapping[str, set[str]], key: str, value: str) -> set[str]:
    if value not in traits:
        raise Invalid(f'{key}: "{value}" is neither "required" nor "forbidden".')
    return traits[value]
