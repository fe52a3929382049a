"""Consumers, what they ask for, who lets them, and what they may then: OAuth 1.0 in three steps.

consumer ──signed──▶ request token ──user──▶ verifier ──consumer, signed──▶ access token ──signed──▶ token
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import QuerySet

from conductor import row_limits
from conductor.core.errors import Forbidden, NotAuthenticated, NotFound
from conductor.identity import delegation, effective, projects, rights, signatures
from conductor.identity.delegation import Power
from conductor.identity.models import AccessToken, Consumer, RequestToken, Role
from conductor.identity.signatures import Signed
from conductor.identity.tokens import Granted
from conductor.transactions import database_now, write_tx

REQUEST_SECONDS = 8 * 3600
ACCESS_SECONDS = 24 * 3600


def consumer(consumer_id: str) -> Consumer:
    """Raises NotFound."""
    found = Consumer.objects.filter(id=consumer_id).first()
    if found is None:
        raise NotFound(f"Could not find Consumer: {consumer_id[:64]}.")
    return found


def consumers() -> list[Consumer]:
    return list(Consumer.objects.order_by("id"))


def create_consumer(description: str | None, extra: Mapping[str, Any]) -> tuple[Consumer, str]:
    """A consumer and its secret, told only here."""
    text, encrypted = signatures.new_secret()
    with write_tx():
        made = Consumer.objects.create(description=description, encrypted_secret=encrypted, extra=dict(extra))
    return made, text


def update_consumer(consumer_id: str, changes: Mapping[str, Any]) -> Consumer:
    """Raises NotFound."""
    row = consumer(consumer_id)
    with write_tx():
        row.description = changes.get("description", row.description)
        row.extra = {**row.extra, **{name: value for name, value in changes.items() if name != "description"}}
        row.save(update_fields=["description", "extra"])
    return row


def delete_consumer(consumer_id: str) -> None:
    """Ends all that it was let do. Raises NotFound."""
    with write_tx():
        consumer(consumer_id).delete()
        rights.changed()


def ask(signed: Signed, project_id: str) -> tuple[RequestToken, str]:
    """A request token and its secret. Raises NotAuthenticated, NotFound for the project."""
    asker = _consumer_of(signed)
    signatures.require(signed, signatures.secret_of(asker.encrypted_secret))
    signed.get("oauth_callback")
    project = projects.get(project_id)
    text, encrypted = signatures.new_secret()
    with write_tx():
        RequestToken.objects.filter(expires_at__lt=database_now()).delete()
        row_limits.require("OAuth request tokens", project.id)
        row = RequestToken.objects.create(
            consumer=asker, project=project, encrypted_secret=encrypted, expires_at=database_now(REQUEST_SECONDS)
        )
        row.refresh_from_db(fields=["expires_at"])
    return row, text


def authorize(asker: Granted, request_id: str, wanted: Sequence[Mapping[str, str]]) -> str:
    """The verifier, told only here. Raises NotFound, and Forbidden for roles that are not the asker's own."""
    delegation.require(asker, Power.CONSUMERS)
    verifier = secrets.token_urlsafe(8)
    with write_tx():
        row = _requests().select_for_update(of=("self",)).filter(id=request_id).first()
        if row is None:
            raise NotFound(f"Could not find Request Token: {request_id[:64]}.")
        own = effective.roles_on(asker.user.id, project=row.project)
        roles = [_own_role(own, given) for given in wanted]
        row.user, row.verifier_hash = asker.user, _hash(verifier)
        row.save(update_fields=["user", "verifier_hash"])
        row.roles.set(roles)
    return verifier


def exchange(signed: Signed) -> tuple[AccessToken, str]:
    """An access token and its secret for a request token that was authorised. Raises NotAuthenticated."""
    asker = _consumer_of(signed)
    row = _requests().filter(id=signed.get("oauth_token"), consumer=asker).first()
    if row is None or row.user is None:
        raise NotAuthenticated()
    signatures.require(signed, signatures.secret_of(asker.encrypted_secret), signatures.secret_of(row.encrypted_secret))
    if not hmac.compare_digest(row.verifier_hash, _hash(signed.get("oauth_verifier"))):
        raise NotAuthenticated()
    text, encrypted = signatures.new_secret()
    with write_tx():
        roles = list(row.roles.all())
        if not RequestToken.objects.filter(id=row.id).delete()[0]:  # somebody was quicker
            raise NotAuthenticated()
        row_limits.require("OAuth access tokens", row.user.id)
        made = AccessToken.objects.create(
            consumer=asker,
            user=row.user,
            project=row.project,
            encrypted_secret=encrypted,
            expires_at=database_now(ACCESS_SECONDS),
        )
        made.roles.set(roles)
        made.refresh_from_db(fields=["expires_at"])
    return made, text


def prove(signed: Signed) -> AccessToken:
    """The access token that a request is signed with. Raises NotAuthenticated."""
    asker = _consumer_of(signed)
    row = _accesses().filter(id=signed.get("oauth_token"), consumer=asker, expires_at__gt=database_now()).first()
    if row is None:
        raise NotAuthenticated()
    signatures.require(signed, signatures.secret_of(asker.encrypted_secret), signatures.secret_of(row.encrypted_secret))
    return row


def accesses(user_id: str) -> list[AccessToken]:
    """What a user has let consumers do."""
    return list(_accesses().filter(user_id=user_id).order_by("id"))


def access(user_id: str, access_id: str) -> AccessToken:
    """Raises NotFound."""
    found = _accesses().filter(user_id=user_id, id=access_id).first()
    if found is None:
        raise NotFound(f"Could not find Access Token: {access_id[:64]}.")
    return found


def end_access(granted: Granted, user_id: str, access_id: str) -> None:
    """Ends an access token and all that was opened with it. Raises NotFound, Forbidden for a token handed on."""
    delegation.require(granted, Power.CONSUMERS)
    with write_tx():
        access(user_id, access_id).delete()
        rights.changed()


def _consumer_of(signed: Signed) -> Consumer:
    found = Consumer.objects.filter(id=signed.get("oauth_consumer_key")).first()
    if found is None:
        raise NotAuthenticated()
    return found


def _requests() -> QuerySet[RequestToken]:
    return RequestToken.objects.select_related("project__domain", "user").filter(expires_at__gt=database_now())


def _accesses() -> QuerySet[AccessToken]:
    return AccessToken.objects.select_related("consumer", "user__domain", "project__domain").prefetch_related("roles")


def _own_role(own: Sequence[Role], given: Mapping[str, str]) -> Role:
    for role in own:
        if given.get("id", role.id) == role.id and given.get("name", role.name) == role.name:
            return role
    raise Forbidden(f"You do not have the role {given.get('id') or given.get('name', '')} on this project.")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
