"""Users with roles on domains, and tokens of every scope, for attacks on scopes."""

from __future__ import annotations

from typing import Any

from conductor.identity import rights, tokens
from conductor.identity.models import Domain, Group, GroupMembership, Project, Role, RoleAssignment, User
from conductor.identity.tokens import Origin, Scope
from tests.api_client import ApiClient
from tests.people import People

IDENTITY = "/identity/v3"


def user(name: str, domain: Domain) -> User:
    """Return a user without any role; nothing signs in as them."""
    return User.objects.create(domain=domain, username=name, password="!")


def give(actor: User | Group, role: str, place: Project | Domain | None, *, is_inherited: bool = False) -> None:
    """Assign a role by name on a project, a domain, or (None) the system."""
    found, _ = Role.objects.get_or_create(name=role, domain=None)
    RoleAssignment.objects.create(
        role=found,
        user=actor if isinstance(actor, User) else None,
        group=actor if isinstance(actor, Group) else None,
        project=place if isinstance(place, Project) else None,
        domain=place if isinstance(place, Domain) else None,
        is_on_system=place is None,
        is_inherited=is_inherited,
    )
    rights.changed()


def client_for(actor: User, place: Project | Domain | None) -> ApiClient:
    """Return a client with the user's token for a project, a domain, or (None) the system."""
    scope = Scope(
        project=place if isinstance(place, Project) else None,
        domain=place if isinstance(place, Domain) else None,
        is_on_system=place is None,
    )
    return ApiClient(tokens.issue_for(actor, scope, Origin(["password"]))[0])


def with_role(name: str, role: str, place: Project | Domain | None, home: Domain) -> tuple[User, ApiClient]:
    """Return a new user with one role, and a client with their token for that place."""
    made = user(name, home)
    give(made, role, place)
    return made, client_for(made, place)


def group_of(name: str, domain: Domain, *members: User) -> Group:
    """Return a group with these members."""
    made = Group.objects.create(domain=domain, name=name)
    for member in members:
        GroupMembership.objects.create(group=made, user=member)
    return made


def role_id(name: str) -> str:
    """Return the id of a role of the cloud."""
    return str(Role.objects.get(name=name, domain=None).pk)


def home_of(people: People) -> Domain:
    """Return the domain of all test users."""
    found: Domain = people.ana.user.domain
    return found


def statuses(client: ApiClient, *requests: tuple[Any, ...]) -> set[int]:
    """Return the statuses of requests, each a method, a path and perhaps a body."""
    return {client.call(*request).status_code for request in requests}
