"""Users of an OpenID provider: their account here, and the roles that follow the provider's claims."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from conductor.core import names
from conductor.core.errors import Conflict, Forbidden
from conductor.db.transactions import database_now, one_at_a_time, write_tx
from conductor.identity import domains, lost_roles, rights, users
from conductor.identity.models import Project, ProvidedRole, ProviderAccount, Role, RoleAssignment, User

LONGEST = 255

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProviderClaims:
    """A user's claims from the provider; `issuer` and `subject` identify the user, the rest may change."""

    issuer: str
    subject: str
    name: str
    email: str = ""


@dataclass(frozen=True)
class ProjectRole:
    """A role in a project, by their names; both of the domain `default`, or of all domains."""

    project: str
    role: str


@dataclass(frozen=True)
class ProviderSignIn:
    """Result of a sign-in: the user, and the changes that it made."""

    user: User
    is_new: bool
    given: list[str]
    taken: list[str]


def enter(person: ProviderClaims, wanted: Collection[ProjectRole]) -> ProviderSignIn:
    """Sign in a provider's user, creating the account at the first time, with exactly the provider's roles.

    An existing account is never adopted by its name. Raises Conflict where another user has the name, and Forbidden
    for a user who is disabled here; then nothing has changed.
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
    return ProviderSignIn(user, is_new, given, taken)


def _account(person: ProviderClaims) -> ProviderAccount | None:
    found = ProviderAccount.objects.select_related("user__domain")
    return found.filter(issuer=person.issuer, subject=person.subject).first()


def _new_user(person: ProviderClaims) -> User:
    name = names.plain(person.name)  # the provider may allow more characters
    try:
        return users.create(name, None, email=person.email)
    except Conflict:
        raise Conflict(f"The name {name} belongs to another account here.") from None


def _settle(account: ProviderAccount, wanted: Collection[ProjectRole]) -> tuple[list[str], list[str]]:
    """Add missing roles and remove the provider's former ones; other assignments stay."""
    there = {
        (row.assignment.project_id, row.assignment.role_id): row.assignment
        for row in ProvidedRole.objects.filter(account=account).select_related(
            "assignment__project", "assignment__role"
        )
    }
    meant = _known(wanted)
    gone = [row for key, row in there.items() if key not in meant]
    RoleAssignment.objects.filter(pk__in=[row.pk for row in gone]).delete()
    if gone:
        lost_roles.end_credentials([account.user_id])
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


def _known(wanted: Collection[ProjectRole]) -> dict[tuple[str, str], str]:
    """Return the ids of known names; the log reports names that match no project or role of this cloud."""
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
