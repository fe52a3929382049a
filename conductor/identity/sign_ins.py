"""Signing in with a browser: the same checks of a password as logging in to the API."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.http import HttpRequest

from conductor.core.errors import NotAuthenticated
from conductor.identity import passwords
from conductor.identity.models import User


class Backend(ModelBackend):
    """Finds a user by `name` or `name@domain`, and asks `passwords` whether it is them."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: Any
    ) -> User | None:
        """None for everything that is not an enabled user with the right password."""
        if username is None or password is None:
            return None
        try:
            user: User | None = User.objects.get_by_natural_key(username)
        except User.DoesNotExist:
            user = None
        try:
            passwords.prove(user, password)
        except NotAuthenticated:
            return None
        return user if user is not None and user.is_active and user.domain.is_enabled else None
