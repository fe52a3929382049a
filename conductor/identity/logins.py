"""Logins by password, token or application credential, with or without a scope. Every refusal looks the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from django.db.models import QuerySet

from conductor.core.errors import NotAuthenticated
from conductor.db.transactions import database_time
from conductor.identity import (
    application_credentials,
    delegation,
    effective,
    passwords,
    second_factors,
    sign_in_limits,
    tokens,
    trusts,
)
from conductor.identity.delegation import Power
from conductor.identity.models import Domain, Project, User
from conductor.identity.tokens import UNSCOPED, Granted, Origin, Scope


@dataclass(frozen=True)
class Reference:
    """A user, project, domain or credential: by id, or by name within a domain that is given by id or name."""

    id: str = ""
    name: str = ""
    domain_id: str = ""
    domain_name: str = ""

    def narrow(self, rows: QuerySet[User] | QuerySet[Project], name_field: str) -> QuerySet[User] | QuerySet[Project]:
        """Return the rows that the reference names; none for a name without a domain."""
        if self.id:
            return rows.filter(id=self.id)
        if self.domain_id:
            return rows.filter(**{name_field: self.name, "domain_id": self.domain_id})
        return rows.filter(**{name_field: self.name, "domain__name": self.domain_name})


@dataclass(frozen=True)
class Login:
    """Credentials of a login, and the requested scope: at most one of project, domain, system and trust.

    The credentials are `user` and `password`, with the `passcode` of an authenticator where the user has one, a
    `token`,
    both of these, or an application `credential` with its `secret` (named by id, or by name together with its `user`).
    `address` is where the request came from.
    """

    user: Reference | None = None
    password: str | None = None
    passcode: str | None = None
    passcode_user: Reference | None = None
    token: str | None = None
    credential: Reference | None = None
    secret: str = ""
    project: Reference | None = None
    domain: Reference | None = None
    wants_system: bool = False
    trust_id: str = ""
    wants_nothing: bool = False  # unscoped even where the user has a default project
    address: str = ""

    @property
    def names_a_scope(self) -> bool:
        return bool(self.project or self.domain or self.wants_system or self.trust_id)

    @property
    def method(self) -> str:
        """Authentication method; "" where the login only narrows or renews a token."""
        if self.credential is not None:
            return "application_credential"
        if self.password is None:
            return ""
        return "password" if self.passcode is None else "password and totp"

    @property
    def who(self) -> str:
        """The claimed user, as a name or an id; no secret."""
        named = self.credential or self.user or self.passcode_user
        return (named.id or named.name) if named is not None else ""

    @cached_property
    def named_user(self) -> User | None:
        """The user that the login names, looked up once; None for an unknown one, or where it names none."""
        return _user(self.user) if self.user is not None else None

    @cached_property
    def account(self) -> str | None:
        """Account for the limits of failed logins; None for a login without a secret."""
        if self.credential is not None:
            return self._credential_account(self.credential)
        if self.password is None and self.passcode is None:
            return None
        return _account_of(self.user or self.passcode_user or Reference())

    def _credential_account(self, credential: Reference) -> str:
        """Return the account of a credential that is named by id, or by its own name and its user."""
        if credential.id:
            return sign_in_limits.of_credential(credential.id)
        user = self.named_user
        found = application_credentials.id_of(user.id, credential.name) if user is not None else None
        if found is not None:
            return sign_in_limits.of_credential(found)
        return sign_in_limits.of_unknown(_account_of(self.user or Reference()), credential.name)


def _account_of(user: Reference) -> str:
    if user.id:
        return sign_in_limits.of_user(user.id)
    return sign_in_limits.of_name(user.name, domain_id=user.domain_id, domain_name=user.domain_name)


def log_in(login: Login, *, on_issue: Callable[[Granted], None] = lambda _: None) -> tuple[str, Granted]:
    """Issue a token. Return its text and what it grants; `on_issue` runs in the transaction that stores the token.

    Raises NotAuthenticated, TooManyRequests where too many sign-ins failed lately or are in progress.
    """
    account = login.account
    with sign_in_limits.attempt(login.address, account) if account is not None else nullcontext():
        user, scope, origin = _proved(login)
        return tokens.issue_for(user, scope, origin, on_issue=on_issue)


def _proved(login: Login) -> tuple[User, Scope, Origin]:
    """Return the user, scope and origin of the token, once the credentials are verified."""
    if login.credential is not None:
        return _with_credential(login, login.credential)
    from_token = tokens.validate(login.token) if login.token is not None else None
    by_password = _proved_user(login) if login.account is not None else None
    user = by_password or (from_token.user if from_token is not None else None)
    if user is None or (from_token is not None and from_token.user.id != user.id):
        raise NotAuthenticated()
    shown = [] if by_password is None else ["password", *(["totp"] if login.passcode is not None else [])]
    origin = Origin(shown) if from_token is None else _rescoped(from_token, shown)
    if login.trust_id:
        return _with_trust(user, login.trust_id, origin)
    return user, _scope(login, user), origin


def _proved_user(login: Login) -> User:
    """Verify the password, and the code where one is given or required; both must be right."""
    if login.user is None or login.password is None:
        raise NotAuthenticated()
    user = passwords.prove(login.named_user, login.password)
    if login.passcode is None:
        if second_factors.is_on(user.id):
            raise NotAuthenticated()
        return user
    of_code = _user(login.passcode_user) if login.passcode_user is not None else None
    if of_code is None or of_code.id != user.id:
        raise NotAuthenticated()
    second_factors.prove(user.id, login.passcode)
    return user


def _user(reference: Reference) -> User | None:
    found = reference.narrow(User.objects.select_related("domain"), "username").first()
    return found if isinstance(found, User) else None


def _rescoped(granted: Granted, shown: Iterable[str]) -> Origin:
    """Return the origin of a rescoped token. Raises Forbidden for a delegated token, which keeps its scope."""
    delegation.require(granted, Power.TOKENS)
    methods = list(dict.fromkeys([*shown, *granted.methods, "token"]))
    return Origin(methods, granted.expires_at, granted.audit_ids[-1])


def _scope(login: Login, user: User) -> Scope:
    if login.wants_system:
        return Scope(is_on_system=True)
    if login.domain is not None:
        return Scope(domain=_domain(login.domain))
    if login.project is not None:
        return Scope(_project(login.project))
    return UNSCOPED if login.wants_nothing else _default_scope(user)


def _default_scope(user: User) -> Scope:
    """Return the user's default project, where the user has access to it; else no scope."""
    if user.default_project_id is None:
        return UNSCOPED
    project = Project.objects.select_related("domain").filter(id=user.default_project_id).first()
    is_open = project is not None and project.is_enabled and project.domain.is_enabled
    return Scope(project) if is_open and effective.role_ids_on(user.id, project=project) else UNSCOPED


def _project(reference: Reference) -> Project:
    found = reference.narrow(Project.objects.select_related("domain"), "name").first()
    if not isinstance(found, Project):
        raise NotAuthenticated()
    return found


def _domain(reference: Reference) -> Domain:
    wanted = {"id": reference.id} if reference.id else {"name": reference.name}
    found = Domain.objects.filter(**wanted).first()
    if found is None:
        raise NotAuthenticated()
    return found


def _with_credential(login: Login, reference: Reference) -> tuple[User, Scope, Origin]:
    """Log in by an application credential. It fixes the scope, so the request cannot name another one."""
    user = login.named_user
    if login.names_a_scope or (login.user is not None and user is None):
        raise NotAuthenticated()
    credential = application_credentials.prove(reference.id, reference.name, user, login.secret)
    origin = Origin(["application_credential"], _sooner(credential.expires_at), application_credential=credential)
    return credential.user, Scope(credential.project), origin


def _with_trust(user: User, trust_id: str, origin: Origin) -> tuple[User, Scope, Origin]:
    trust = trusts.use(trust_id, user.id)
    ends = _sooner(trust.expires_at)
    if origin.expires_at is not None:
        ends = min(ends or origin.expires_at, origin.expires_at)
    return trust.actor, Scope(trust.project), Origin(origin.methods, ends, origin.parent_audit_id, trust=trust)


def _sooner(ends: datetime | None) -> datetime | None:
    """Return the end of a delegation if it is before the end of an ordinary token."""
    if ends is None or ends > database_time() + timedelta(seconds=tokens.LIFETIME_SECONDS):
        return None
    return ends
