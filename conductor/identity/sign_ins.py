"""Sign-in with a browser, with the same password checks as logins to the API."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.http import HttpRequest

from conductor.core.errors import NotAuthenticated
from conductor.identity import domains, passwords, sign_in_limits
from conductor.identity.models import Domain, User


class Backend(ModelBackend):
    """Authentication backend: finds a user by `name` or `name@domain`, and verifies the password by `passwords`."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: Any
    ) -> User | None:
        """Return the user if enabled and the password is right; else None.

        `address`, where the request came from, is limited as `sign_in_limits` says. Raises TooManyRequests.
        """
        if username is None or password is None:
            return None
        found = _named(username)
        account = sign_in_limits.of_user(found.id) if found is not None else _account_of(username)
        try:
            with sign_in_limits.attempt(str(kwargs.get("address", "")), account):
                user = passwords.prove(found, password)
                if not (user.is_active and user.domain.is_enabled):
                    raise NotAuthenticated()
        except NotAuthenticated:
            return None
        return user


def _named(username: str) -> User | None:
    try:
        found: User = User.objects.get_by_natural_key(username)
    except User.DoesNotExist:
        return None
    return found


def _account_of(username: str) -> str:
    """Return the account that a name without a user stands for: in its domain, or in the default one."""
    name, _, domain_name = username.rpartition("@")
    domain_id = Domain.objects.filter(name__iexact=domain_name.strip()).values_list("id", flat=True).first()
    if name and domain_id is not None:
        return sign_in_limits.of_name(name, domain_id=domain_id)
    return sign_in_limits.of_name(username, domain_id=domains.DEFAULT_ID)
