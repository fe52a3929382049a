"""Users in tests: ana and bo share the project shop, chi has lab, rea reads in shop, admin administers the cloud."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.hashers import make_password
from django.contrib.sessions.backends.db import SessionStore
from django.db import transaction

from conductor.core.context import RequestContext
from conductor.core.identifiers import new_request_id
from conductor.identity import catalog, effective, roles, tokens
from conductor.identity.models import Domain, Project, Role, RoleAssignment, User
from conductor.identity.seed import ROLES
from portal import sessions
from portal.session_callers import PROJECT_KEY
from tests import replayed_rows

PASSWORD = "seven-ducks-swim"
_WHO = (("admin", "admin", "admin"), ("ana", "shop", "member"), ("bo", "shop", "member"))
_WHO += (("rea", "shop", "reader"), ("chi", "lab", "member"))


@cache
def _password_hash() -> str:
    return make_password(PASSWORD)  # once for all users: hashing is slow on purpose


@dataclass(frozen=True)
class Person:
    """A user with a role on one project. The password of each is PASSWORD."""

    name: str
    user: User
    project: Project
    role: Role

    def token(self) -> str:
        """Return a new token for the person's project."""
        return tokens.issue(self.user, self.project, ["password"])[0]

    def session(self) -> str:
        """Return the key of a new session in the person's project, as one has it after signing in to the portal."""
        self.user.refresh_from_db()  # a session of now, also after a change that has ended others
        session = SessionStore()
        session[SESSION_KEY] = self.user.pk
        session[BACKEND_SESSION_KEY] = "conductor.identity.sign_ins.Backend"
        session[HASH_SESSION_KEY] = self.user.get_session_auth_hash()
        session[PROJECT_KEY] = self.project.id
        sessions.renew(session)
        session.save()
        return str(session.session_key)

    def context(self) -> RequestContext:
        """Return the person as services see them, with a new request id."""
        return RequestContext(
            user_id=self.user.id,
            project_id=self.project.id,
            request_id=new_request_id(),
            roles=roles.implied_names([self.role.name]),
            user_name=self.user.username,
            project_name=self.project.name,
            is_on_admin_project=effective.is_admin_project(self.project),
        )


class People(Mapping[str, Person]):
    """Users by name, also as attributes: `people.ana`, `people["ana"]`."""

    def __init__(self, persons: Mapping[str, Person]) -> None:
        self._persons = persons

    def __getattr__(self, name: str) -> Person:
        try:
            return self._persons[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, name: str) -> Person:
        return self._persons[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._persons)

    def __len__(self) -> int:
        return len(self._persons)


def create_people() -> People:
    """Insert the domain, the roles, the projects and the people."""
    replayed_rows.insert("people", _create_rows)
    projects, roles_by_name = _by_name(Project), _by_name(Role)
    users = {user.username: user for user in User.objects.all()}
    return People({name: Person(name, users[name], projects[on], roles_by_name[role]) for name, on, role in _WHO})


def _by_name(kind: Any) -> dict[str, Any]:
    return {row.name: row for row in kind.objects.all()}


@transaction.atomic
def _create_rows() -> None:
    domain = Domain.objects.create(id="default", name="Default")
    catalog.ensure_first_region()
    role_rows = {name: Role.objects.create(name=name) for name in ROLES}
    projects = {name: Project.objects.create(domain=domain, name=name) for name in ("admin", "shop", "lab")}
    for name, project, role in _WHO:
        user = User.objects.create(domain=domain, username=name, password=_password_hash())
        RoleAssignment.objects.create(user=user, project=projects[project], role=role_rows[role])
