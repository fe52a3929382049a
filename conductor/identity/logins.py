"""Logging in: by password or by token, for a project or for none. Every refusal is the same NotAuthenticated."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from conductor.core.errors import NotAuthenticated
from conductor.identity import passwords, tokens
from conductor.identity.models import Project, User
from conductor.identity.tokens import Granted


@dataclass(frozen=True)
class Reference:
    """A user or project: by id, or by name within a domain that is itself given by id or name."""

    id: str = ""
    name: str = ""
    domain_id: str = ""
    domain_name: str = ""

    def narrow(self, rows: QuerySet[User] | QuerySet[Project], name_field: str) -> QuerySet[User] | QuerySet[Project]:
        """The rows that are meant; none for a name without a domain."""
        if self.id:
            return rows.filter(id=self.id)
        if self.domain_id:
            return rows.filter(**{name_field: self.name, "domain_id": self.domain_id})
        return rows.filter(**{name_field: self.name, "domain__name": self.domain_name})


@dataclass(frozen=True)
class Login:
    """What a caller shows (`user` and `password`, or `token`, or both) and the project that it wants."""

    user: Reference | None = None
    password: str = ""
    token: str | None = None
    project: Reference | None = None
    has_unknown_scope: bool = False  # the system or a domain: nobody has roles there


def log_in(login: Login) -> tuple[str, Granted]:
    """The new token's text and what it grants. Raises NotAuthenticated."""
    if login.token is None and login.user is None:
        raise NotAuthenticated()
    from_token = tokens.validate(login.token) if login.token is not None else None
    user = _proved_user(login) if login.user is not None else None
    if from_token is not None and user is not None and from_token.user.id != user.id:
        raise NotAuthenticated()
    if login.has_unknown_scope:
        raise NotAuthenticated()
    project = _project(login.project) if login.project is not None else None
    if from_token is None:
        assert user is not None  # one of the two was shown
        return tokens.issue(user, project, ["password"])
    methods = [*(["password"] if user else []), *from_token.methods]
    if "token" not in methods:
        methods.append("token")
    return tokens.issue(from_token.user, project, list(dict.fromkeys(methods)), expires_at=from_token.expires_at)


def _proved_user(login: Login) -> User:
    assert login.user is not None
    found = login.user.narrow(User.objects.select_related("domain"), "username").first()
    user = found if isinstance(found, User) else None
    if not passwords.is_right(user, login.password) or user is None:
        raise NotAuthenticated()
    return user


def _project(reference: Reference) -> Project:
    found = reference.narrow(Project.objects.select_related("domain"), "name").first()
    if not isinstance(found, Project):
        raise NotAuthenticated()
    return found
