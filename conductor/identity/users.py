"""Users: create, find, change, delete, and their passwords."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError

from conductor.core import names
from conductor.core.errors import Conflict, Forbidden, Invalid, NotAuthenticated, NotFound
from conductor.db.transactions import one_at_a_time, write_tx
from conductor.identity import domains, passwords, rights, second_factors
from conductor.identity.domains import merged_value
from conductor.identity.listing import IdentityListQuery, narrowed, paged
from conductor.identity.models import User
from conductor.identity.revocations import end_portal_sessions, revoke_where

CHANGEABLE = frozenset(
    {"username", "email", "description", "default_project_id", "is_active", "password", "options", "extra"}
)
COLUMNS = {"name": "username", "domain_id": "domain_id", "enabled": "is_active", "id": "id"}
COLUMNS |= {"default_project_id": "default_project_id", "email": "email"}


def get(user_id: str) -> User:
    """Return a user. Raises NotFound."""
    user = User.objects.select_related("domain").filter(id=user_id).first()
    if user is None:
        raise NotFound(f"Could not find user: {user_id}.")
    return user


def domain_id_of(user_id: str) -> str:
    """Return the domain of a user; empty where there is no such user."""
    return User.objects.filter(id=user_id).values_list("domain_id", flat=True).first() or ""


def find(question: IdentityListQuery, *, group_id: str | None = None) -> tuple[list[User], bool]:
    """Return a page of users by name, and whether there are more; of `group_id` only, where given."""
    rows = narrowed(User.objects.all(), question, COLUMNS)
    return paged(rows if group_id is None else rows.filter(memberships__group_id=group_id), question, "username")


def create(username: str, password: str | None, *, domain_id: str = domains.DEFAULT_ID, **fields: Any) -> User:
    """Create a user; one without a password cannot sign in. Raises Conflict for a taken name, Invalid, NotFound."""
    assert fields.keys() <= CHANGEABLE, fields.keys()
    _require_plain(username)
    user = User(domain=domains.get(domain_id), username=username, **fields)
    _set_password(user, password)  # before the transaction: hashing takes long
    try:
        with write_tx():
            _require_free(user)
            user.save(force_insert=True)
    except IntegrityError:
        raise _taken(username) from None
    return user


def change(user_id: str, changes: Mapping[str, Any], *, check: rights.Check | None = None) -> User:
    """Update the fields in `changes` (of CHANGEABLE). A new password, or disabling, ends every session of the user.

    Raises what `check` raises, NotFound, Conflict for a taken name, Invalid for a name with invisible characters or
    unusual forms of letters, and for a password that is easily guessed.
    """
    assert changes.keys() <= CHANGEABLE, changes.keys()
    if "username" in changes:
        _require_plain(str(changes["username"]))
    user = get(user_id)
    for field, value in changes.items():
        if field == "password":
            _set_password(user, value)
        else:
            setattr(user, field, merged_value(user, field, value))
    try:
        with rights.changing(check):
            if "username" in changes:
                _require_free(user)
            user.save(update_fields=sorted(changes))
            if "password" in changes or not user.is_active:
                revoke_where(user_id=user_id)
            if not user.is_active:
                end_portal_sessions(id=user_id)
    except IntegrityError:
        raise _taken(str(changes.get("username"))) from None
    return user


def change_own_password(
    user_id: str, original: str, password: str, *, code: str = "", has_shown_code: bool = False
) -> None:
    """Set a new password. A user with a second factor needs a code of it too, now or for the caller's token.

    Raises NotAuthenticated where the user, the original password or the code is wrong, Forbidden for a locked password,
    Invalid for a new one that is easily guessed; then nothing changes.
    """
    user = passwords.prove(User.objects.select_related("domain").filter(id=user_id).first(), original)
    if not (user.is_active and user.domain.is_enabled):
        raise NotAuthenticated()
    if second_factors.is_on(user.id) and not has_shown_code:
        if not code:
            raise NotAuthenticated()
        second_factors.prove(user.id, code)
    if user.options.get("lock_password"):
        raise Forbidden("The password of this user is locked: only an administrator changes it.")
    change(user_id, {"password": password})


def delete(user_id: str, *, check: rights.Check | None = None) -> None:
    """Delete the user with their assignments and tokens. Raises NotFound, and what `check` raises."""
    with rights.changing(check):
        removed, _ = User.objects.filter(id=user_id).delete()
    if not removed:
        raise NotFound(f"Could not find user: {user_id}.")


def _set_password(user: User, password: str | None) -> None:
    if password is None:
        user.set_unusable_password()
    else:
        passwords.require_acceptable(user, password)
        user.password = passwords.hashed(password)


def _require_plain(name: str) -> None:
    if name != names.plain(name):
        raise Invalid(
            f"Invalid input for field/attribute name. Value: '{name[:60]}'. It must be written as "
            f"'{names.plain(name)[:60]}': with the usual forms of letters, and without invisible ones (Unicode NFKC).",
            field="name",
        )


def _require_free(user: User) -> None:
    """Raise Conflict where another user of the domain has the name, or one that differs only by case.

    Names are compared here, as databases fold only some alphabets. Inside the transaction that writes the user.
    """
    one_at_a_time("default", f"user names:{user.domain_id}")
    others = User.objects.filter(domain_id=user.domain_id).exclude(id=user.id)
    wanted = names.folded(user.username)
    if any(names.folded(name) == wanted for name in others.values_list("username", flat=True)):
        raise _taken(user.username)


def _taken(name: str) -> Conflict:
    return Conflict(f"Conflict occurred attempting to store user - Duplicate entry found with name {name}.")
