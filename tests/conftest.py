"""What every test shares: each is marked with the kind of proof that its folder stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS_DIR = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        kind = item.path.relative_to(TESTS_DIR).parts[0]
        item.add_marker(kind)
