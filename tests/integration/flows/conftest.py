"""What tests of flows share: people, hosts, and a way to make one part of a step fail."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.image import seed as image_seed
from conductor.image.models import Image
from conductor.network import seed as network_seed
from conductor.services import flavors, instances
from conductor.services.values import BuildWish
from tests.fleet import add_host
from tests.integration.flows.moving import Hosts, run_to_the_end
from tests.trouble import trouble

assert trouble, "the fixture of that name"


@pytest.fixture
def hosts(people: Any) -> Hosts:
    """sim-1, sim-2 and sim-3 in cell1, with room for many."""
    admin = people.admin.context()
    flavors.seed()
    image_seed.seed(admin.project_id, None)
    network_seed.seed(admin.project_id)
    for host in ("sim-1", "sim-2", "sim-3"):
        add_host(host, "cell1", size=(64, 65536, 1000))
    return Hosts()


@pytest.fixture
def ana(people: Any) -> Any:
    return people.ana.context()


@pytest.fixture
def admin(people: Any) -> Any:
    return people.admin.context()


@pytest.fixture
def launch(hosts: Hosts, ana: Any) -> Any:
    """`launch()` gives the uuid of a server that runs."""

    def launched(name: str = "web-1", **wish: Any) -> str:
        image = Image.objects.get(name="simulated-linux")
        asked = BuildWish(name=name, flavor_ref="1", image_ref=str(image.uuid), **wish)
        (uuid,) = instances.create(ana, asked).instance_uuids
        run_to_the_end(hosts)
        return uuid

    return launched
