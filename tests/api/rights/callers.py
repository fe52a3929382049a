"""The callers in the tables of rights: a user for each role and scope, with tokens of the same time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from conductor.core.context import RequestContext
from conductor.identity import tokens
from conductor.identity.models import Domain, Role, RoleAssignment, User
from conductor.identity.tokens import Origin, Scope
from tests.people import People

ROLES = ("reader", "member", "manager", "admin", "service")


@dataclass(frozen=True)
class Caller:
    """A token and its scope; `project_id` is empty for other scopes."""

    name: str
    token: str | None
    context: RequestContext | None = None

    @property
    def has_project(self) -> bool:
        return self.context is not None and bool(self.context.project_id)


def make_callers(people: People) -> Mapping[str, Caller]:
    """Create each role in the project shop; `owner`, who is ana; `stranger`, the manager of lab; and the other scopes.

    The role `admin` in shop does not make a cloud administrator: shop is not the admin project.
    """
    shop, lab = people.ana.project, people.chi.project
    elsewhere = Domain.objects.create(name="elsewhere")
    wanted: list[tuple[str, str | None, Scope]] = [(role, role, Scope(shop)) for role in ROLES]
    wanted += [("stranger", "manager", Scope(lab)), ("unscoped", None, Scope())]
    wanted += [(f"system_{role}", role, Scope(is_on_system=True)) for role in ("reader", "admin")]
    wanted += [(f"domain_{role}", role, Scope(domain=shop.domain)) for role in ("reader", "manager", "admin")]
    wanted += [("domain_stranger", "manager", Scope(domain=elsewhere))]
    found = {name: _caller(name, role, scope, shop.domain) for name, role, scope in wanted}
    text, granted = tokens.issue(people.ana.user, shop, ["password"])
    return {"none": Caller("none", None), "owner": Caller("owner", text, granted.context("req-1")), **found}


def _caller(name: str, role: str | None, scope: Scope, domain: Domain) -> Caller:
    user = User.objects.create(domain=domain, username=f"only-{name}", password="!")
    if role:
        RoleAssignment.objects.create(
            user=user,
            role=Role.objects.get(name=role),
            project=scope.project,
            domain=scope.domain,
            is_on_system=scope.is_on_system,
        )
    text, granted = tokens.issue_for(user, scope, Origin(["password"]))
    return Caller(name, text, granted.context("req-1"))
