"""Trusts: a user lets another user act on a project, with some of the trustor's roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Q, QuerySet

from conductor import row_limits
from conductor.core.errors import Forbidden, Invalid, NotAuthenticated, NotFound
from conductor.db.transactions import database_now, database_time, write_tx
from conductor.identity import delegation, rights, users
from conductor.identity.delegation import Power
from conductor.identity.models import Role, Trust
from conductor.identity.tokens import Granted


@dataclass(frozen=True)
class TrustCreate:
    """A trust to create."""

    trustor_id: str
    trustee_id: str
    project_id: str | None
    is_impersonation: bool
    roles: Sequence[Mapping[str, str]] = ()  # each by id or name
    expires_at: datetime | None = None
    remaining_uses: int | None = None


def _rows() -> QuerySet[Trust]:
    """Return unexpired trusts. One without uses left can still be shown and deleted: its tokens may be alive."""
    related = ("trustor__domain", "trustee__domain", "project__domain")
    is_alive = Q(expires_at=None) | Q(expires_at__gt=database_now())
    return Trust.objects.select_related(*related).prefetch_related("roles").filter(is_alive)


def get(trust_id: str) -> Trust:
    """Return a trust. Raises NotFound, also for an expired one."""
    found = _rows().filter(id=trust_id).first()
    if found is None:
        raise NotFound(f"Could not find trust: {trust_id}.")
    return found


def find(*, trustor_id: str | None = None, trustee_id: str | None = None) -> list[Trust]:
    """Return trusts, filtered by the given users."""
    wanted = {"trustor_id": trustor_id, "trustee_id": trustee_id}
    return list(_rows().filter(**{name: value for name, value in wanted.items() if value is not None}).order_by("id"))


def create(caller: Granted, requested: TrustCreate) -> Trust:
    """Create a trust. Raises Forbidden for rights that the caller may not give, Invalid, NotFound for user or role."""
    delegation.require(caller, Power.TRUSTS)
    if caller.user.id != requested.trustor_id:
        raise Forbidden("At least one role should be specified by the trustor: only oneself can be the trustor.")
    trustee = users.get(requested.trustee_id)
    if requested.expires_at is not None and requested.expires_at <= database_time():
        raise Invalid("Invalid input for field/attribute expires_at. It must be in the future.", field="expires_at")
    if requested.project_id is None or caller.project is None or caller.project.id != requested.project_id:
        raise Forbidden("A trust is made with a token for the project that it is for.")
    if not requested.roles:
        raise Forbidden("At least one role should be specified.")
    roles = [_role(caller, given) for given in requested.roles]
    expires_at = delegation.bounded_end(caller, requested.expires_at)
    with write_tx():
        row_limits.require("trusts", caller.user.id)
        trust = Trust.objects.create(
            trustor=caller.user,
            trustee=trustee,
            project=caller.project,
            is_impersonation=requested.is_impersonation,
            expires_at=expires_at,
            remaining_uses=requested.remaining_uses,
        )
        trust.roles.set(roles)
    return get(trust.id)


def _role(caller: Granted, given: Mapping[str, str]) -> Role:
    for role in caller.roles:
        if given.get("id", role.id) == role.id and given.get("name", role.name) == role.name:
            return role
    named = given.get("id") or given.get("name", "")
    if not Role.objects.filter(Q(id=named) | Q(name=named)).exists():
        raise NotFound(f"Could not find role: {named}.")
    raise Forbidden(f"Trustor does not have the role '{named}' on the project.")


def delete(granted: Granted, trust_id: str) -> None:
    """Delete the trust and all sessions opened with it. Raises NotFound, and Forbidden for a delegated token.

    A token of the trust itself may delete it: services that act by a trust delete it when they are done.
    """
    if granted.trust is None or granted.trust.id != trust_id:
        delegation.require(granted, Power.TRUSTS)
    with write_tx():
        get(trust_id).delete()
        rights.changed()


def use(trust_id: str, trustee_id: str) -> Trust:
    """Take one use of the trust and return it. Raises NotAuthenticated if ended, Forbidden for other trustees."""
    found = _rows().filter(id=trust_id).first()
    if found is None:
        raise NotAuthenticated()
    if found.trustee_id != trustee_id:
        raise Forbidden("User is not a trustee.")
    if found.remaining_uses is not None:
        with write_tx():
            left = Trust.objects.filter(id=trust_id, remaining_uses__gt=0)
            if not left.update(remaining_uses=F("remaining_uses") - 1):
                raise NotAuthenticated()
    return found
