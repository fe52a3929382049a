"""Fixtures of flow tests: users, hosts, and a way to make one part of a step fail."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.cells import quarantine
from conductor.image import seed as image_seed
from conductor.image.models import Image
from conductor.rpc import backports
from conductor.scheduler import host_manager
from conductor.services.servers import instances
from conductor.services.servers.types import InstanceCreate
from tests.compute_rows import seed_cloud
from tests.integration.flows.moving import Hosts, run_to_the_end
from tests.trouble import trouble

assert trouble, "the fixture of that name"


@pytest.fixture
def hosts(people: Any) -> Hosts:
    """sim-1, sim-2 and sim-3 in cell1, with room for many."""
    admin = people.admin.context()
    image_seed.seed(admin.project_id, None)
    seed_cloud(people, "sim-1", "sim-2", "sim-3")
    return Hosts()


@pytest.fixture
def reads_nothing_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable periodic reads: they would add statements to requests on a slow machine only."""
    monkeypatch.setattr(host_manager, "IO_OPS_EVERY_SECONDS", 3600.0)
    monkeypatch.setattr(quarantine, "LOOK_EVERY_SECONDS", 3600.0)
    monkeypatch.setattr(backports, "REMEMBERED_SECONDS", 3600.0)


@pytest.fixture
def ana(people: Any) -> Any:
    return people.ana.context()


@pytest.fixture
def admin(people: Any) -> Any:
    return people.admin.context()


@pytest.fixture
def launch(hosts: Hosts, ana: Any) -> Any:
    """`launch()` gives the uuid of a server that runs."""

    def launched(name: str = "web-1", **requested: Any) -> str:
        image = Image.objects.get(name="simulated-linux")
        query = InstanceCreate(name=name, flavor_ref="1", image_ref=str(image.uuid), **requested)
        (uuid,) = instances.create(ana, query).instance_uuids
        run_to_the_end(hosts)
        return uuid

    return launched
