"""Policies of the APIs: decide what pages offer, and what they carry out."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.core.context import RequestContext
from portal.api import authorization
from portal.api.compute import policies as compute
from portal.api.identity import policies as identity
from portal.api.image import policies as image
from portal.api.network import policies as network
from portal.api.network.load_balancing import policies as load_balancing
from portal.api.novella import policies as novella
from portal.api.volume import policies as volume

RULES: Mapping[str, authorization.RuleTable] = {
    "compute": compute.RULES,
    "identity": identity.RULES,
    "image": image.RULES,
    "network": network.RULES,
    "load-balancer": load_balancing.RULES,
    "novella": novella.RULES,
    "volume": volume.RULES,
}


def may(caller: RequestContext, service: str, rule: str) -> bool:
    """Whether a policy allows the caller an operation on the own project's resources."""
    return authorization.is_allowed(RULES[service][rule], caller)


def require(caller: RequestContext, service: str, rule: str, **targets: str | None) -> None:
    """Raises Forbidden, as the API's view does, unless a policy allows the caller an operation.

    `targets` are those of `authorization.is_allowed`; without any, the operation is on the caller's own resources.
    """
    authorization.require(RULES[service], rule, caller, **targets)
