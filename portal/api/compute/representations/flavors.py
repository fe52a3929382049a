"""JSON of flavors, and bodies parsed into flavors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.request_spec import FlavorSpec
from conductor.services.servers.flavors import NewFlavor
from conductor.services.servers.types import FlavorView
from portal.api.base import ApiRequest
from portal.api.compute.representations import parts
from portal.api.validation import as_boolean


def summary(flavor: FlavorView, request: ApiRequest) -> dict[str, Any]:
    """Return a flavor in a list without details."""
    spec = flavor.spec
    shown = {"id": spec.flavor_id, "name": spec.name, "links": parts.links(request, "flavors", spec.flavor_id)}
    return shown | {"description": flavor.description} if request.microversion.covers("2.55") else shown


def show(flavor: FlavorView, request: ApiRequest) -> dict[str, Any]:
    """Return a flavor with all of its details."""
    spec = flavor.spec
    shown = summary(flavor, request) | {
        "ram": spec.memory_mb,
        "disk": spec.root_gb,
        "swap": spec.swap_mb if spec.swap_mb or request.microversion.covers("2.75") else "",
        "OS-FLV-EXT-DATA:ephemeral": spec.ephemeral_gb,
        "vcpus": spec.vcpus,
        "os-flavor-access:is_public": flavor.is_public,
    }
    if not request.microversion.covers("2.102"):
        shown |= {"OS-FLV-DISABLED:disabled": flavor.is_disabled, "rxtx_factor": flavor.rxtx_factor}
    return shown | {"extra_specs": dict(spec.extra_specs)} if request.microversion.covers("2.61") else shown


def new_flavor(wanted: Mapping[str, Any]) -> NewFlavor:
    """Return the NewFlavor that a valid body requests."""
    flavor_id = wanted.get("id")
    return NewFlavor(
        spec=FlavorSpec(
            flavor_id="" if flavor_id is None else str(flavor_id),
            name=wanted["name"],
            vcpus=parts.number(wanted["vcpus"], "flavor.vcpus"),
            memory_mb=parts.number(wanted["ram"], "flavor.ram"),
            root_gb=parts.number(wanted["disk"], "flavor.disk"),
            ephemeral_gb=parts.number(wanted.get("OS-FLV-EXT-DATA:ephemeral", 0), "flavor.OS-FLV-EXT-DATA:ephemeral"),
            swap_mb=parts.number(wanted.get("swap", 0), "flavor.swap"),
        ),
        is_public=as_boolean(wanted.get("os-flavor-access:is_public", True), "flavor.os-flavor-access:is_public"),
        rxtx_factor=float(wanted.get("rxtx_factor", 1.0)),
        description=wanted.get("description"),
    )


def texts(specs: Mapping[str, Any]) -> dict[str, str]:
    """Return extra specs with all values as strings."""
    return {key: str(value) for key, value in specs.items()}
