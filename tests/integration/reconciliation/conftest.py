"""A small cloud whose hosts remember their guests, and ways to break it that no code of the product has."""

from __future__ import annotations

from tests.integration.flows.conftest import ana, hosts, launch

__all__ = ["ana", "hosts", "launch"]
