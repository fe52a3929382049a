"""Implied roles: the fixed role hierarchy, and the rules that operators add."""

from __future__ import annotations

from conductor.core.errors import Forbidden, Invalid, NotFound
from conductor.db.transactions import write_tx
from conductor.identity import lost_roles, rights, roles
from conductor.identity.models import ImpliedRole, Role


def of(prior: Role) -> list[Role]:
    """Return the roles that a role implies directly, by name."""
    book = roles.book([prior.id])
    return sorted((book.by_id[role_id] for role_id in book.implies.get(prior.id, ())), key=lambda role: role.name)


def all_rules() -> list[tuple[Role, list[Role]]]:
    """Return each role that implies others, with them."""
    book = roles.book()
    priors = sorted((book.by_id[role_id] for role_id in book.implies), key=lambda role: (role.name, role.id))
    return [(prior, of(prior)) for prior in priors]


def require(prior_id: str, implied_id: str) -> tuple[Role, Role]:
    """Return both roles of a rule. Raises NotFound for a role or a rule that does not exist."""
    prior, implied = roles.get(prior_id), roles.get(implied_id)
    if implied_id not in roles.book([prior_id, implied_id]).implies.get(prior_id, ()):
        raise NotFound(f"{prior_id} does not imply {implied_id}.")
    return prior, implied


def add(prior_id: str, implied_id: str) -> tuple[Role, Role]:
    """Add a rule; idempotent. Raises Invalid for a cycle, Forbidden across domains, NotFound."""
    prior, implied = roles.get(prior_id), roles.get(implied_id)
    if prior.domain_id is None and implied.domain_id is not None:
        raise Forbidden(f"The role {prior_id} of all domains cannot imply {implied_id}, which belongs to one.")
    if implied.name == "admin" and implied.domain_id is None:
        raise Forbidden("No role can imply admin.")
    with write_tx():
        book = roles.book([prior_id, implied_id])
        if prior_id in book.closure([implied_id]):
            raise Invalid(f"Role {implied_id} implies {prior_id} already: a rule back would make a circle.")
        if implied_id not in book.implies.get(prior_id, ()):
            ImpliedRole.objects.get_or_create(prior=prior, implied=implied)
            rights.changed()
    return prior, implied


def remove(prior_id: str, implied_id: str) -> None:
    """Remove a rule. Raises NotFound, and Forbidden for a step of the hierarchy."""
    require(prior_id, implied_id)
    with write_tx():
        removed, _ = ImpliedRole.objects.filter(prior_id=prior_id, implied_id=implied_id).delete()
        if not removed:
            raise Forbidden("This rule is part of the cloud's own roles and cannot be removed.")
        lost_roles.end_credentials()
        rights.changed()
