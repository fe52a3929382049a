"""Trusts: a user lets another one act on a project, with some of the own roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Q, QuerySet

from conductor import row_limits
from conductor.core.errors import Forbidden, Invalid, NotAuthenticated, NotFound
from conductor.identity import delegation, rights, users
from conductor.identity.delegation import Power
from conductor.identity.models import Role, Trust
from conductor.identity.tokens import Granted
from conductor.transactions import database_now, database_time, write_tx


@dataclass(frozen=True)
class Wish:
    """A trust to be made."""

    trustor_id: str
    trustee_id: str
    project_id: str | None
    is_impersonation: bool
    roles: Sequence[Mapping[str, str]] = ()  # each by id or name
    expires_at: datetime | None = None
    remaining_uses: int | None = None


def _rows() -> QuerySet[Trust]:
    """Trusts that have not expired. One without uses left is still shown and deleted: its tokens may be alive."""
    related = ("trustor__domain", "trustee__domain", "project__domain")
    is_alive = Q(expires_at=None) | Q(expires_at__gt=database_now())
    return Trust.objects.select_related(*related).prefetch_related("roles").filter(is_alive)


def get(trust_id: str) -> Trust:
    """Raises NotFound, also for one that has expired."""
    found = _rows().filter(id=trust_id).first()
    if found is None:
        raise NotFound(f"Could not find trust: {trust_id}.")
    return found


def find(*, trustor_id: str | None = None, trustee_id: str | None = None) -> list[Trust]:
    """Trusts narrowed by what is given."""
    wanted = {"trustor_id": trustor_id, "trustee_id": trustee_id}
    return list(_rows().filter(**{name: value for name, value in wanted.items() if value is not None}).order_by("id"))


def create(asker: Granted, wish: Wish) -> Trust:
    """Raises Forbidden for rights that are not the caller's own to give, Invalid, and NotFound for a user or role."""
    delegation.require(asker, Power.TRUSTS)
    if asker.user.id != wish.trustor_id:
        raise Forbidden("At least one role should be specified by the trustor: only oneself can be the trustor.")
    trustee = users.get(wish.trustee_id)
    if wish.expires_at is not None and wish.expires_at <= database_time():
        raise Invalid("Invalid input for field/attribute expires_at. It must be in the future.", field="expires_at")
    if wish.project_id is None or asker.project is None or asker.project.id != wish.project_id:
        raise Forbidden("A trust is made with a token for the project that it is for.")
    if not wish.roles:
        raise Forbidden("At least one role should be specified.")
    roles = [_role(asker, given) for given in wish.roles]
    expires_at = delegation.bounded_end(asker, wish.expires_at)
    with write_tx():
        row_limits.require("trusts", asker.user.id)
        trust = Trust.objects.create(
            trustor=asker.user,
            trustee=trustee,
            project=asker.project,
            is_impersonation=wish.is_impersonation,
            expires_at=expires_at,
            remaining_uses=wish.remaining_uses,
        )
        trust.roles.set(roles)
    return get(trust.id)


def _role(asker: Granted, given: Mapping[str, str]) -> Role:
    for role in asker.roles:
        if given.get("id", role.id) == role.id and given.get("name", role.name) == role.name:
            return role
    named = given.get("id") or given.get("name", "")
    if not Role.objects.filter(Q(id=named) | Q(name=named)).exists():
        raise NotFound(f"Could not find role: {named}.")
    raise Forbidden(f"Trustor does not have the role '{named}' on the project.")


def delete(granted: Granted, trust_id: str) -> None:
    """Ends the trust and all that was opened with it. Raises NotFound, and Forbidden for a token that was handed on.

    A token of the trust itself may end it: services that act by a trust give it back when they are done.
    """
    if granted.trust is None or granted.trust.id != trust_id:
        delegation.require(granted, Power.TRUSTS)
    with write_tx():
        get(trust_id).delete()
        rights.changed()


def use(trust_id: str, trustee_id: str) -> Trust:
    """The trust, one use of it taken. Raises NotAuthenticated when it has ended, and Forbidden for another trustee."""
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
