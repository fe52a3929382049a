"""OVN for the tests of its projection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import override_settings

from conductor.services.networks.ovn_projection import OvnProjection
from tests.services import ovn


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ovn.Lab]:
    """A central without hosts."""
    with ovn.lab(tmp_path_factory.mktemp("ovn")) as lab:
        yield lab


@pytest.fixture
def configured(lab: ovn.Lab) -> Iterator[None]:
    """The settings name the lab's databases."""
    remotes = {"NOVELLA_OVN_NORTHBOUND": lab.central.nb_remote, "NOVELLA_OVN_SOUTHBOUND": lab.central.sb_remote}
    with override_settings(**remotes):
        yield


@pytest.fixture
def projection(configured: None) -> Iterator[OvnProjection]:
    made = OvnProjection("conductor-1")
    yield made
    made.release()
