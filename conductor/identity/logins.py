"""Logging in: by password, token or application credential, for a scope or for none. Every refusal is the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet

from conductor.core.errors import NotAuthenticated
from conductor.identity import (
    application_credentials,
    delegation,
    effective,
    oauth1,
    passwords,
    second_factors,
    sign_in_limits,
    tokens,
    trusts,
)
from conductor.identity.delegation import Power
from conductor.identity.models import Domain, Project, User
from conductor.identity.signatures import Signed
from conductor.identity.tokens import UNSCOPED, Granted, Origin, Scope
from conductor.transactions import database_time


@dataclass(frozen=True)
class Reference:
    """A user, project, domain or credential: by id, or by name within a domain that is given by id or name."""

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
    """What a caller shows, and the scope that it wants: at most one of project, domain, system and trust.

    Shown are `user` and `password`, with the `passcode` of an authenticator where the user has one, a `token`, both of
    these, an application `credential` with its `secret` (named by id, or by name together with its `user`), or a
    request that is `signed` with an access token. `address` is where the request came from.
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
    signed: Signed | None = None
    wants_nothing: bool = False  # unscoped even where the user has a default project
    address: str = ""

    @property
    def names_a_scope(self) -> bool:
        return bool(self.project or self.domain or self.wants_system or self.trust_id)

    @property
    def method(self) -> str:
        """How the caller signs in; "" where it only narrows or renews a token."""
        if self.signed is not None:
            return "oauth1"
        if self.credential is not None:
            return "application_credential"
        if self.password is None:
            return ""
        return "password" if self.passcode is None else "password and totp"

    @property
    def who(self) -> str:
        """Whom the caller claims to be, as a name or an id; no secret."""
        named = self.credential or self.user or self.passcode_user
        return (named.id or named.name) if named is not None else ""

    @property
    def account(self) -> str | None:
        """What a secret is shown for, as the limits of failures name it; None where no secret is shown."""
        if self.credential is not None:
            named = self.credential.id or f"{self.credential.name}\0{self.user}"
            return sign_in_limits.of_id(named)
        if self.password is None and self.passcode is None:
            return None
        user = self.user or self.passcode_user or Reference()
        return sign_in_limits.of_id(user.id) if user.id else sign_in_limits.of_name(user.name)


def log_in(login: Login) -> tuple[str, Granted]:
    """The new token's text and what it grants.

    Raises NotAuthenticated, TooOften where too many sign-ins failed lately or are under way.
    """
    account = login.account
    if account is None:
        return _log_in(login)
    with sign_in_limits.attempt(login.address, account):
        return _log_in(login)


def _log_in(login: Login) -> tuple[str, Granted]:
    if login.signed is not None:
        return _with_access(login, login.signed)
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
    return tokens.issue_for(user, _scope(login, user), origin)


def _proved_user(login: Login) -> User:
    """The user of the password, and of the code where one is shown or needed: neither is enough without the other."""
    if login.user is None or login.password is None:
        raise NotAuthenticated()
    user = passwords.prove(_user(login.user), login.password)
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
    """Raises Forbidden for a token that was handed on: it opens what it was made for and nothing else."""
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
    """The user's default project, where it is open to them; else nothing."""
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


def _with_credential(login: Login, reference: Reference) -> tuple[str, Granted]:
    """An application credential has its scope already: another one cannot be asked for."""
    user = _user(login.user) if login.user is not None else None
    if login.names_a_scope or (login.user is not None and user is None):
        raise NotAuthenticated()
    credential = application_credentials.prove(reference.id, reference.name, user, login.secret)
    origin = Origin(["application_credential"], _sooner(credential.expires_at), application_credential=credential)
    return tokens.issue_for(credential.user, Scope(credential.project), origin)


def _with_access(login: Login, signed: Signed) -> tuple[str, Granted]:
    """An access token has its scope already: another one cannot be asked for."""
    if login.names_a_scope:
        raise NotAuthenticated()
    access = oauth1.prove(signed)
    return tokens.issue_for(
        access.user, Scope(access.project), Origin(["oauth1"], _sooner(access.expires_at), access=access)
    )


def _with_trust(user: User, trust_id: str, origin: Origin) -> tuple[str, Granted]:
    trust = trusts.use(trust_id, user.id)
    acting = trust.trustor if trust.is_impersonation else user
    ends = _sooner(trust.expires_at)
    if origin.expires_at is not None:
        ends = min(ends or origin.expires_at, origin.expires_at)
    return tokens.issue_for(
        acting, Scope(trust.project), Origin(origin.methods, ends, origin.parent_audit_id, trust=trust)
    )


def _sooner(ends: datetime | None) -> datetime | None:
    """The end of what was handed on, if it comes before the end of an ordinary token."""
    if ends is None or ends > database_time() + timedelta(seconds=tokens.LIFETIME_SECONDS):
        return None
    return ends
