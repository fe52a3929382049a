"""Cheap password hashes, for tests that count hashes and do not measure their cost."""

from __future__ import annotations

import pytest
from django.contrib.auth.hashers import ScryptPasswordHasher, make_password

from conductor.identity.models import User
from tests.people import PASSWORD


def make_cheap(patch: pytest.MonkeyPatch) -> None:
    """Make password hashes cheap from now on, also those of existing users."""
    patch.setattr(ScryptPasswordHasher, "work_factor", 2)
    User.objects.update(password=make_password(PASSWORD))
