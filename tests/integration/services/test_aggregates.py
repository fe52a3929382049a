"""Services of aggregates: placement and the cells are updated with them."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.api_db.models import Aggregate, AggregateHost
from conductor.cell_db.models import ComputeNode, Service
from conductor.core.compute_driver import Inventory
from conductor.core.errors import Conflict, Invalid
from conductor.placement import aggregates as placed
from conductor.placement import inventories
from conductor.services.hosts import aggregates, availability_zones
from tests.compute_rows import make_cloud, make_host, make_instance
from tests.people import People

pytestmark = pytest.mark.django_db(databases="__all__")


@pytest.fixture
def admin(people: People) -> Any:
    make_cloud(people)
    for cell, host in (("cell1", "sim-1-01"), ("cell2", "sim-2-01")):
        make_host(cell, host, zone="nova")
        inventories.report(_node(cell, host), f"{host}.example", {"VCPU": Inventory(8)})
    return people.admin.context()


def _node(cell: str, host: str) -> str:
    return str(ComputeNode.objects.using(cell).get(host=host).uuid)


def _zone(cell: str, host: str) -> str:
    return Service.objects.using(cell).get(host=host).availability_zone


def test_members_are_mirrored_to_placement_and_their_zone_to_their_cell(admin: Any) -> None:
    made = aggregates.create(admin, "nine", "az-9")
    node = _node("cell1", "sim-1-01")
    aggregates.add_host(admin, made.uuid, "sim-1-01")
    assert placed.of_provider(node)[1] == [made.uuid]
    assert _zone("cell1", "sim-1-01") == "az-9"
    assert [zone.name for zone in availability_zones.list_zones(admin)] == ["az-9", "nova"]
    aggregates.update(admin, made.uuid, None, {"availability_zone": "az-8"})
    assert _zone("cell1", "sim-1-01") == "az-8"
    aggregates.set_metadata(admin, made.uuid, {"availability_zone": None})
    assert _zone("cell1", "sim-1-01") == "nova"
    aggregates.remove_host(admin, made.uuid, "sim-1-01")
    assert placed.of_provider(node)[1] == []
    aggregates.delete(admin, made.uuid)
    assert not Aggregate.objects.exists()


def test_a_host_is_in_one_zone_at_most_and_nothing_is_left_of_a_refusal(admin: Any) -> None:
    eight, nine = aggregates.create(admin, "eight", "az-8"), aggregates.create(admin, "nine", "az-9")
    plain = aggregates.create(admin, "plain")
    aggregates.add_host(admin, eight.uuid, "sim-1-01")
    aggregates.add_host(admin, plain.uuid, "sim-1-01")
    with pytest.raises(Conflict, match="az-8"):
        aggregates.add_host(admin, nine.uuid, "sim-1-01")
    with pytest.raises(Invalid, match="az-8"):
        aggregates.set_metadata(admin, plain.uuid, {"availability_zone": "az-9", "ssd": "true"})
    assert AggregateHost.objects.count() == 2
    assert aggregates.get(admin, plain.uuid).metadata == {}
    assert sorted(placed.of_provider(_node("cell1", "sim-1-01"))[1]) == sorted([eight.uuid, plain.uuid])
    assert _zone("cell1", "sim-1-01") == "az-8"


def test_a_host_with_servers_stays_in_its_zone(admin: Any) -> None:
    zone, twin = aggregates.create(admin, "a", "az-9"), aggregates.create(admin, "b", "az-9")
    aggregates.add_host(admin, zone.uuid, "sim-2-01")
    make_instance(admin, "cell2", "web", host="sim-2-01")
    with pytest.raises(Conflict, match="has servers"):
        aggregates.remove_host(admin, zone.uuid, "sim-2-01")
    assert aggregates.get(admin, zone.uuid).hosts == ("sim-2-01",)
    assert placed.of_provider(_node("cell2", "sim-2-01"))[1] == [zone.uuid]
    # Another aggregate of the same zone keeps it there.
    aggregates.add_host(admin, twin.uuid, "sim-2-01")
    assert aggregates.remove_host(admin, zone.uuid, "sim-2-01").hosts == ()
    assert _zone("cell2", "sim-2-01") == "az-9"


def test_a_host_that_is_gone_can_be_taken_out(admin: Any) -> None:
    made = aggregates.create(admin, "old", "az-9")
    AggregateHost.objects.create(aggregate_id=made.number, host="long-gone")
    assert aggregates.remove_host(admin, made.uuid, "long-gone").hosts == ()
