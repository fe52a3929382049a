"""Every test of the Image API begins with an empty store."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings

from tests.api.image.calls import on_disk


@pytest.fixture(autouse=True)
def empty_store() -> None:
    for name in on_disk():
        (Path(settings.NOVELLA_DATA) / "images" / name).unlink()
