"""Cheap password hashes, for tests that show how many there are and not what one costs."""

from __future__ import annotations

import pytest
from django.contrib.auth.hashers import ScryptPasswordHasher, make_password

from conductor.identity.models import User
from tests.people import PASSWORD


def make_cheap(patch: pytest.MonkeyPatch) -> None:
    """From now on, those of everybody who is there too."""
    patch.setattr(ScryptPasswordHasher, "work_factor", 2)
    User.objects.update(password=make_password(PASSWORD))
