"""Tokens: issued for a password or another token, validated by digest, revoked at once."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from conductor.core.context import RequestContext
from conductor.core.errors import NotAuthenticated, NotFound
from conductor.identity.models import Project, Role, Token, User
from conductor.identity.roles import implied, roles_on
from conductor.transactions import database_now, write_tx

LIFETIME_SECONDS = 4 * 3600
# Found by people and scanners in logs where it should not be, and never read as an option by a command line.
_PREFIX = "nv_"


@dataclass(frozen=True)
class Granted:
    """What a valid token stands for. `project` is None for an unscoped one, which has no roles either."""

    user: User
    project: Project | None
    roles: Sequence[Role]  # with the implied ones, by name
    methods: Sequence[str]
    audit_id: str
    issued_at: datetime
    expires_at: datetime

    def context(self, request_id: str) -> RequestContext:
        """The asker of a request that carries this token."""
        return RequestContext(
            user_id=self.user.id,
            project_id=self.project.id if self.project else "",
            request_id=request_id,
            roles=frozenset(role.name for role in self.roles),
            user_name=self.user.username,
            project_name=self.project.name if self.project else "",
        )


def digest_of(text: str) -> str:
    """What is stored instead of a token's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def issue(
    user: User, project: Project | None, methods: Sequence[str], *, expires_at: datetime | None = None
) -> tuple[str, Granted]:
    """A new token's text, told only here, and what it grants.

    A token made from another one passes that one's `expires_at` on: nobody prolongs a login with itself.
    Raises NotAuthenticated for a user or project that is disabled, or a project on which the user has no role.
    """
    _refuse_disabled(user, project)
    if project is not None and not roles_on(user.id, project.id):
        raise NotAuthenticated()
    text = _PREFIX + secrets.token_urlsafe(32)
    with write_tx():
        Token.objects.filter(expires_at__lt=database_now()).delete()
        token = Token.objects.create(
            digest=digest_of(text),
            user=user,
            project=project,
            methods=list(methods),
            audit_id=secrets.token_urlsafe(16),
            issued_at=database_now(),
            expires_at=expires_at or database_now(LIFETIME_SECONDS),
        )
        token.refresh_from_db(fields=["issued_at", "expires_at"])
    return text, _granted(token)


def validate(text: str) -> Granted:
    """Raises NotAuthenticated for a token that is unknown, expired or revoked, or whose user lost the project.

    Rights are read anew each time: a role that was taken away is gone with the next request.
    """
    token = (
        Token.objects.select_related("user__domain", "project__domain")
        .filter(digest=digest_of(text), expires_at__gt=database_now())
        .first()
    )
    if token is None:
        raise NotAuthenticated()
    _refuse_disabled(token.user, token.project)
    granted = _granted(token)
    if granted.project is not None and not granted.roles:
        raise NotAuthenticated()
    return granted


def revoke(text: str) -> None:
    """Raises NotFound when there is no such token."""
    with write_tx():
        removed, _ = Token.objects.filter(digest=digest_of(text)).delete()
    if not removed:
        raise NotFound("This token could not be found.")


def revoke_all(*, user_id: str | None = None, project_id: str | None = None) -> None:
    """Ends every session of a user, or on a project. Call inside the transaction that gives the reason."""
    condition = Q(user_id=user_id) if user_id is not None else Q(project_id=project_id)
    Token.objects.filter(condition).delete()


def _granted(token: Token) -> Granted:
    roles = implied(roles_on(token.user_id, token.project_id)) if token.project_id else []
    return Granted(
        user=token.user,
        project=token.project,
        roles=roles,
        methods=token.methods,
        audit_id=token.audit_id,
        issued_at=token.issued_at,
        expires_at=token.expires_at,
    )


def _refuse_disabled(user: User, project: Project | None) -> None:
    enabled = user.is_active and user.domain.is_enabled
    if project is not None:
        enabled = enabled and project.is_enabled and project.domain.is_enabled
    if not enabled:
        raise NotAuthenticated()
