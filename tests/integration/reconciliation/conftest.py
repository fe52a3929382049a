"""A small cloud whose hosts remember their guests, and faults that no code of the product causes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.flows.conftest import ana, hosts, launch

__all__ = ["ana", "hosts", "launch"]


@pytest.fixture(autouse=True)
def settled(settings: Any) -> None:
    """Make workflows count as over at once, without waiting for hosts' heartbeats."""
    settings.NOVELLA_HEARTBEAT_SECONDS = 0.0
