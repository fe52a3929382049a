"""Tokens: issued for verified credentials, validated by digest, revoked at once."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from django.db.models import F, Q
from django.db.models.functions import Now

from conductor.core.context import RequestContext
from conductor.core.errors import NotAuthenticated, NotFound
from conductor.db.transactions import database_now, database_time, write_tx
from conductor.identity import effective, rights
from conductor.identity.models import (
    AccessRule,
    ApplicationCredential,
    Domain,
    Project,
    Role,
    Token,
    Trust,
    User,
)
from conductor.identity.revocations import revoke_where

LIFETIME_SECONDS = 4 * 3600
EXPIRED_KEPT_SECONDS = 48 * 3600  # services may look up expired tokens this long, to finish work
# Recognizable to people and secret scanners, and never parsed as an option by a command line.
_PREFIX = "nv_"
_REMEMBERED = 8192
_NO_TIME = datetime.min.replace(tzinfo=UTC)  # issue time of rights that are granted without a token


@dataclass(frozen=True)
class Scope:
    """Scope of a token: one of these, or none."""

    project: Project | None = None
    domain: Domain | None = None
    is_on_system: bool = False

    @property
    def is_nothing(self) -> bool:
        return self.project is None and self.domain is None and not self.is_on_system


UNSCOPED = Scope()
_TRUST, _CREDENTIAL = "trust", "application_credential"


@dataclass(frozen=True)
class Granted:
    """Rights that a valid token grants. A token without a scope grants no roles."""

    user: User
    scope: Scope
    roles: Sequence[Role]  # with the implied ones, by name
    methods: Sequence[str]
    audit_ids: Sequence[str]  # the token's own, then that of the login that it stems from
    issued_at: datetime
    expires_at: datetime
    application_credential: ApplicationCredential | None = None
    access_rules: Sequence[AccessRule] | None = None  # None: every request
    trust: Trust | None = None
    digest: str = ""  # "" where no token carries it

    @property
    def delegated_by(self) -> str:
        """The trust or application credential that the token acts by; "" for the user's own sign-in."""
        if self.trust is not None:
            return f"{_TRUST}:{self.trust.id}"
        credential = self.application_credential
        return f"{_CREDENTIAL}:{credential.id}" if credential is not None else ""

    @property
    def project(self) -> Project | None:
        return self.scope.project

    @property
    def audit_id(self) -> str:
        return self.audit_ids[0]

    @property
    def is_admin(self) -> bool:
        """Whether the token is for an administrator of the cloud."""
        return self.context("").is_admin

    def context(self, request_id: str) -> RequestContext:
        """Return the context of a request that carries this token."""
        project, domain = self.scope.project, self.scope.domain
        return RequestContext(
            user_id=self.user.id,
            project_id=project.id if project else "",
            request_id=request_id,
            roles=effective.names(self.roles),
            user_name=self.user.username,
            project_name=project.name if project else "",
            domain_id=domain.id if domain else "",
            project_domain_id=project.domain_id if project else "",
            is_on_system=self.scope.is_on_system,
            is_on_admin_project=project is not None and effective.is_admin_project(project),
            delegated_by=self.delegated_by,
            token_digest=self.digest,
        )


@dataclass(frozen=True)
class Origin:
    """Origin of a token: the methods used, and the limits beside the user's own rights."""

    methods: Sequence[str]
    expires_at: datetime | None = None  # a login cannot prolong itself
    parent_audit_id: str = ""
    application_credential: ApplicationCredential | None = None
    trust: Trust | None = None


def digest_of(text: str) -> str:
    """Return the digest that is stored instead of a token's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def issue(
    user: User, project: Project | None, methods: Sequence[str], *, expires_at: datetime | None = None
) -> tuple[str, Granted]:
    """Issue a token for a project or without scope. Return its text, and what it grants: see `issue_for`."""
    return issue_for(user, Scope(project), Origin(methods, expires_at))


def issue_for(
    user: User, scope: Scope, origin: Origin, *, on_issue: Callable[[Granted], None] = lambda _: None
) -> tuple[str, Granted]:
    """Issue a token. Return its text, shown only here, and its grants; `on_issue` runs in its transaction.

    Raises NotAuthenticated for a user or scope that is disabled, or a scope on which the user has no role.
    """
    number = rights.version()
    token = Token(
        user=user,
        project=scope.project,
        domain=scope.domain,
        is_on_system=scope.is_on_system,
        application_credential=origin.application_credential,
        trust=origin.trust,
        methods=list(origin.methods),
        audit_id=secrets.token_urlsafe(16),
        parent_audit_id=origin.parent_audit_id,
    )
    roles = _roles_of(token)  # before anything is written: a refusal leaves no row
    text = _PREFIX + secrets.token_urlsafe(32)
    token.digest = digest_of(text)
    with write_tx():
        Token.objects.filter(expires_at__lt=database_now(-EXPIRED_KEPT_SECONDS)).delete()
        token.issued_at, token.expires_at = database_now(), origin.expires_at or database_now(LIFETIME_SECONDS)
        token.save(force_insert=True)
        token.refresh_from_db(fields=["issued_at", "expires_at"])
        granted = _granted(token, roles)
        on_issue(granted)
    _remember(token.digest, number, granted, (token.expires_at - token.issued_at).total_seconds())
    return text, granted


_held: OrderedDict[str, tuple[int, float, Granted]] = OrderedDict()  # digest → version of rights, deadline, grant
_lock = threading.Lock()


def _remember(digest: str, number: int, granted: Granted, seconds_left: float) -> None:
    with _lock:
        _held[digest] = (number, time.monotonic() + seconds_left, granted)
        _held.move_to_end(digest)
        while len(_held) > _REMEMBERED:
            _held.popitem(last=False)


def _remembered(digest: str, number: int) -> Granted | None:
    with _lock:
        held = _held.get(digest)
        if held is None or held[0] != number or held[1] <= time.monotonic():
            return None
        _held.move_to_end(digest)
        return held[2]


def validate(text: str, *, allow_expired: bool = False) -> Granted:
    """Return what a token grants. Raises NotAuthenticated for one unknown, expired or revoked, or without its scope.

    Nothing is read while no rights have changed since the last time: see `rights`. `allow_expired` is for services
    that finish a user's work: up to EXPIRED_KEPT_SECONDS after the end.
    """
    return validate_digest(digest_of(text), allow_expired=allow_expired)


def validate_digest(digest: str, *, allow_expired: bool = False) -> Granted:
    """Validate a token by its digest, for objects that end with the token that created them."""
    number = rights.version()  # before the data that it covers is read
    held = _remembered(digest, number)
    if held is not None:
        return held
    ends_after = database_now(-EXPIRED_KEPT_SECONDS if allow_expired else 0)
    related = ("user__domain", "project__domain", "domain", "application_credential", "trust__trustor__domain")
    token = (
        Token.objects.select_related(*related, "trust__trustee__domain")
        .filter(digest=digest, expires_at__gt=ends_after)
        .annotate(left=F("expires_at") - Now())
        .first()
    )
    if token is None:
        raise NotAuthenticated()
    granted = _granted(token, _roles_of(token))
    _remember(digest, number, granted, token.left.total_seconds())
    return granted


def standing(user_id: str, project_id: str, delegated_by: str = "") -> Granted:
    """Return the current grants of a user on a project without a token, for sessions and for rows that are stored.

    `delegated_by` is that of the request that stored the row: then they are those of this trust or application
    credential. Raises NotAuthenticated if there are none, or if the delegation has ended or is for others.
    """
    token = _of_delegation(delegated_by) if delegated_by else _of_user(user_id, project_id)
    if token is None or (token.user_id, token.project_id) != (user_id, project_id):
        raise NotAuthenticated()
    return _granted(token, _roles_of(token))


def is_delegation_alive(delegated_by: str) -> bool:
    """Whether a trust or application credential still grants anything. True for "", the user's own sign-in."""
    if not delegated_by:
        return True
    token = _of_delegation(delegated_by)
    try:
        return token is not None and bool(_roles_of(token))
    except NotAuthenticated:
        return False


def _of_user(user_id: str, project_id: str) -> Token | None:
    """Return a token, not stored, of the user's own."""
    user = User.objects.select_related("domain").filter(id=user_id).first()
    project = Project.objects.select_related("domain").filter(id=project_id).first()
    if user is None or project is None:
        return None
    return Token(user=user, project=project, issued_at=_NO_TIME, expires_at=_NO_TIME)


def _of_delegation(delegated_by: str) -> Token | None:
    """Return a token, not stored, of a trust or application credential that has not ended."""
    kind, _, key = delegated_by.partition(":")
    wanted = Q(id=key) & (Q(expires_at=None) | Q(expires_at__gt=database_now()))
    given: Trust | ApplicationCredential | None
    if kind == _TRUST:
        related = ("trustor__domain", "trustee__domain", "project__domain")
        given = Trust.objects.select_related(*related).filter(wanted).first()
    else:
        given = ApplicationCredential.objects.select_related("user__domain", "project__domain").filter(wanted).first()
    if given is None:
        return None
    user = given.actor if isinstance(given, Trust) else given.user
    token = Token(user=user, project=given.project, issued_at=_NO_TIME, expires_at=_NO_TIME)
    setattr(token, kind, given)
    return token


def of_session(context: RequestContext) -> Granted:
    """Return the grants of a user signed in to the portal: those of the user's token for the same project."""
    now = database_time()
    granted = standing(context.user_id, context.project_id)
    return replace(granted, methods=["password"], issued_at=now, expires_at=now)


def revoke(text: str) -> None:
    """Revoke a token. Raises NotFound when there is no such token."""
    with write_tx():
        if not revoke_where(digest=digest_of(text)):
            raise NotFound("This token could not be found.")


def _granted(token: Token, roles: Sequence[Role]) -> Granted:
    credential = token.application_credential
    rules = list(credential.access_rules.order_by("id")) if credential is not None else []
    return Granted(
        user=token.user,
        scope=Scope(token.project, token.domain, token.is_on_system),
        roles=roles,
        methods=token.methods,
        audit_ids=[token.audit_id, *([token.parent_audit_id] if token.parent_audit_id else [])],
        issued_at=token.issued_at,
        expires_at=token.expires_at,
        application_credential=credential,
        access_rules=rules or None,
        trust=token.trust,
        digest=token.digest,
    )


def _roles_of(token: Token) -> list[Role]:
    """Return the current roles of a token. Raises NotAuthenticated for one without access any more."""
    _refuse_disabled(token)
    if token.project_id is None and token.domain_id is None and not token.is_on_system:
        return []
    holder = token.trust.trustor_id if token.trust is not None else token.user_id
    roles = effective.roles_on(holder, project=token.project, domain=token.domain)
    delegated = token.application_credential or token.trust
    if delegated is not None:
        # The user must still have all of them: delegation does not keep a lost role alive.
        handed_on = list(delegated.roles.values_list("id", flat=True))
        if not set(handed_on) <= {role.id for role in roles}:
            raise NotAuthenticated()
        wanted = effective.closure(handed_on)
        roles = [role for role in roles if role.id in wanted]
    if not roles:
        raise NotAuthenticated()
    return roles


def _refuse_disabled(token: Token) -> None:
    people = [token.user]
    if token.trust is not None:
        people += [token.trust.trustor, token.trust.trustee]
    places = [place for place in (token.domain, token.project) if place is not None]
    if token.project is not None:
        places.append(token.project.domain)
    is_open = all(user.is_active and user.domain.is_enabled for user in people)
    if not (is_open and all(place.is_enabled for place in places)):
        raise NotAuthenticated()
