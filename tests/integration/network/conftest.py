"""OVN for the tests of its projection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services import ovn


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ovn.Lab]:
    """A central without hosts."""
    with ovn.lab(tmp_path_factory.mktemp("ovn")) as lab:
        yield lab
