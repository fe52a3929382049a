"""Roles, and the roles that they imply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError
from django.db.models import ProtectedError

from conductor.core.errors import Conflict, Forbidden, NotFound
from conductor.db.transactions import write_tx
from conductor.identity import domains, rights
from conductor.identity.domains import merged_value
from conductor.identity.listing import IdentityListQuery, narrowed, paged
from conductor.identity.models import ImpliedRole, Role, RoleAssignment
from conductor.identity.options import refuse_immutable

# A role implies all that follow it: a holder of `manager` has `member` and `reader` too.
ROLE_HIERARCHY = ("admin", "manager", "member", "reader")
BUILT_IN = (*ROLE_HIERARCHY, "service")
CHANGEABLE = frozenset({"name", "description", "options", "extra"})
COLUMNS = {"name": "name", "id": "id", "domain_id": "domain_id"}


def implied_names(names: Iterable[str]) -> frozenset[str]:
    """Return the role names with all role names that they imply in the hierarchy."""
    held = set(names)
    for position, name in enumerate(ROLE_HIERARCHY):
        if name in held:
            held.update(ROLE_HIERARCHY[position:])
            break
    return frozenset(held)


@dataclass(frozen=True)
class RoleCatalog:
    """All roles, and the roles that each implies."""

    by_id: Mapping[str, Role]
    implies: Mapping[str, frozenset[str]]

    def closure(self, role_ids: Iterable[str]) -> set[str]:
        """Return the role ids with all role ids that they imply."""
        reached: set[str] = set()
        waiting = [role_id for role_id in role_ids if role_id in self.by_id]
        while waiting:
            role_id = waiting.pop()
            if role_id not in reached:
                reached.add(role_id)
                waiting.extend(self.implies.get(role_id, ()))
        return reached

    def in_token(self, role_ids: Iterable[str]) -> list[Role]:
        """Return the granted roles, ordered by name, with implied roles and without roles of a domain."""
        found = (self.by_id[role_id] for role_id in self.closure(role_ids))
        return sorted((role for role in found if role.domain_id is None), key=lambda role: (role.name, role.id))


_book: tuple[int, RoleCatalog] | None = None


def book(needed: Iterable[str] = ()) -> RoleCatalog:
    """Return the current roles, cached until rights change. They are read again if an id in `needed` is unknown."""
    global _book
    number, held = rights.version(), _book
    if held is None or held[0] != number or not all(role_id in held[1].by_id for role_id in needed):
        held = _book = (number, _read_book())
    return held[1]


def _read_book() -> RoleCatalog:
    by_id = {role.id: role for role in Role.objects.all()}
    implies: dict[str, set[str]] = {}
    for prior_id, implied_id in ImpliedRole.objects.values_list("prior_id", "implied_id"):
        implies.setdefault(prior_id, set()).add(implied_id)
    steps = {role.name: role.id for role in by_id.values() if role.domain_id is None and role.name in ROLE_HIERARCHY}
    for upper, lower in _hierarchy_pairs():
        if upper in steps and lower in steps:
            implies.setdefault(steps[upper], set()).add(steps[lower])
    return RoleCatalog(by_id, {prior: frozenset(implied) for prior, implied in implies.items()})


def _hierarchy_pairs() -> set[tuple[str, str]]:
    """Return each role of the hierarchy with each role below it, so that a missing role does not split it."""
    return {(upper, lower) for at, upper in enumerate(ROLE_HIERARCHY) for lower in ROLE_HIERARCHY[at + 1 :]}


def get(role_id: str) -> Role:
    """Return a role. Raises NotFound."""
    role = Role.objects.filter(id=role_id).first()
    if role is None:
        raise NotFound(f"Could not find role: {role_id}.")
    return role


def find(question: IdentityListQuery) -> tuple[list[Role], bool]:
    """Return a page of roles by name, and whether there are more: roles of the filter's domain, else global roles."""
    rows = narrowed(Role.objects.all(), question, COLUMNS)
    if "domain_id" not in question.filters:
        rows = rows.filter(domain=None)
    return paged(rows, question, "name")


def create(name: str, *, domain_id: str | None = None, **fields: Any) -> Role:
    """Create a role. Raises Conflict when the name is taken, NotFound for the domain."""
    assert fields.keys() <= CHANGEABLE, fields.keys()
    domain = domains.get(domain_id) if domain_id is not None else None
    try:
        with write_tx():
            return Role.objects.create(name=name, domain=domain, **fields)
    except IntegrityError:
        raise _taken(name) from None


def is_built_in(role: Role) -> bool:
    """Whether policy rules name this role."""
    return role.domain_id is None and role.name in BUILT_IN


def change(role_id: str, changes: Mapping[str, Any]) -> Role:
    """Update the fields in `changes`. Raises Forbidden for the name of a role that policy rules name."""
    assert changes.keys() <= CHANGEABLE, changes.keys()
    try:
        with write_tx():
            role = get(role_id)
            refuse_immutable(role, "role", changes)
            if is_built_in(role) and changes.get("name", role.name) != role.name:
                raise Forbidden(f"The role {role.name} is part of every rule and keeps its name.")
            for field, value in changes.items():
                setattr(role, field, merged_value(role, field, value))
            role.save(update_fields=sorted(changes))
            rights.changed()
            return role
    except IntegrityError:
        raise _taken(str(changes.get("name"))) from None


def delete(role_id: str) -> None:
    """Delete the role with all its assignments. Raises NotFound, and Forbidden for a role that policy rules name."""
    role = get(role_id)
    if is_built_in(role):
        raise Forbidden(f"The role {role.name} is part of every rule and cannot be deleted.")
    refuse_immutable(role, "role")
    try:
        with write_tx():
            RoleAssignment.objects.filter(role=role).delete()
            role.delete()
            rights.changed()
    except ProtectedError:
        raise Conflict(f"The role {role.name} was granted just now; try again.") from None


def _taken(name: str) -> Conflict:
    return Conflict(f"Conflict occurred attempting to store role - Duplicate entry found with name {name}.")
