"""People whom an OpenID provider proves: their account here, and the roles that follow what it says of them."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from conductor.core.errors import Conflict, Forbidden
from conductor.identity import domains, rights, users
from conductor.identity.models import Project, ProvidedRole, ProviderAccount, Role, RoleAssignment, User
from conductor.transactions import database_now, one_at_a_time, write_tx

LONGEST = 255

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Person:
    """Somebody as the provider tells of them; `issuer` and `subject` are who they are, the rest may change."""

    issuer: str
    subject: str
    name: str
    email: str = ""


@dataclass(frozen=True)
class Given:
    """A role in a project, by their names; both of the domain `default` or of all."""

    project: str
    role: str


@dataclass(frozen=True)
class Entry:
    """Who has come in, and what was different this time."""

    user: User
    is_new: bool
    given: list[str]
    taken: list[str]


def enter(person: Person, wanted: Collection[Given]) -> Entry:
    """The user of a person, who is made at the first time, with exactly these roles from the provider.

    Nobody becomes an account by having its name. Raises Conflict where the name is somebody else's, and Forbidden
    for whoever is disabled here; then nothing has changed.
    """
    with write_tx():
        one_at_a_time("default", f"provider account:{person.issuer}:{person.subject}")
        account = _account(person)
        user = account.user if account is not None else _new_user(person)
        if not (user.is_active and user.domain.is_enabled):
            raise Forbidden("This account is disabled.")
        if account is None:
            now = database_now()
            account = ProviderAccount.objects.create(
                issuer=person.issuer, subject=person.subject, user=user, created_at=now, signed_in_at=now
            )
            is_new = True
        else:
            ProviderAccount.objects.filter(pk=account.pk).update(signed_in_at=database_now())
            is_new = False
        given, taken = _settle(account, wanted)
        if given or taken:
            rights.changed()
    return Entry(user, is_new, given, taken)


def _account(person: Person) -> ProviderAccount | None:
    found = ProviderAccount.objects.select_related("user__domain")
    return found.filter(issuer=person.issuer, subject=person.subject).first()


def _new_user(person: Person) -> User:
    if User.objects.filter(domain_id=domains.DEFAULT_ID, username=person.name).exists():
        raise Conflict(f"The name {person.name} belongs to another account here.")
    return users.create(person.name, None, email=person.email)


def _settle(account: ProviderAccount, wanted: Collection[Given]) -> tuple[list[str], list[str]]:
    """Give what is missing and take what the provider gave before and does not say now; what people gave stays."""
    there = {
        (row.assignment.project_id, row.assignment.role_id): row.assignment
        for row in ProvidedRole.objects.filter(account=account).select_related(
            "assignment__project", "assignment__role"
        )
    }
    meant = _known(wanted)
    gone = [row for key, row in there.items() if key not in meant]
    RoleAssignment.objects.filter(pk__in=[row.pk for row in gone]).delete()
    given = []
    for (project_id, role_id), text in meant.items():
        if (project_id, role_id) in there:
            continue
        assignment, is_new = RoleAssignment.objects.get_or_create(
            user=account.user, project_id=project_id, role_id=role_id, is_inherited=False
        )
        if is_new:
            ProvidedRole.objects.create(account=account, assignment=assignment)
            given.append(text)
    return given, [f"{row.project.name}:{row.role.name}" for row in gone if row.project is not None]


def _known(wanted: Collection[Given]) -> dict[tuple[str, str], str]:
    """The ids of what there is; what names no project or role of this cloud is told to its operator."""
    projects = {
        row.name: row.id
        for row in Project.objects.filter(domain_id=domains.DEFAULT_ID, name__in={one.project for one in wanted})
    }
    roles = {row.name: row.id for row in Role.objects.filter(domain=None, name__in={one.role for one in wanted})}
    found = {}
    for one in wanted:
        if one.project in projects and one.role in roles:
            found[projects[one.project], roles[one.role]] = f"{one.project}:{one.role}"
        else:
            log.warning("NOVELLA_OIDC_ROLES: there is no project %s or no role %s", one.project, one.role)
    return found
