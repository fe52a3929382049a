"""Lookup of one instance: its cost, and that cached statements equal new ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from conductor.api_db.models import InstanceGroup, InstanceGroupMember, InstanceMapping
from conductor.cell_db.models import BlockDevice, Instance
from conductor.core.errors import NotFound
from conductor.db.transactions import database_now
from conductor.services.servers import instance_data, instances, queries
from tests.compute_rows import Cloud, make_cloud, make_host, make_instance
from tests.counting import counted
from tests.fixtures.unresponsive_cells import silence
from tests.people import People


@pytest.fixture
def cloud(people: People) -> Cloud:
    return make_cloud(people)


def test_a_server_costs_one_statement_of_each_database(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    rows = [make_instance(ana, cell, f"n-{cell}") for cell in ("cell1", "cell2")]
    for row in rows:
        instances.get(ana, str(row.uuid))
    with counted("default") as api, counted("cell1") as first, counted("cell2") as second:
        found = instances.get(ana, str(rows[1].uuid))
    assert (found.name, found.cell) == ("n-cell2", "cell2")
    assert [len(one.statements) for one in (api, first, second)] == [1, 0, 1]


def test_cached_statements_equal_new_ones(cloud: Cloud, settings: Any) -> None:
    """Also for the second uuid, and when the setting that is among their values is another one."""
    ana = cloud.people.ana.context()
    make_host("cell1", "host-1")
    rows = [make_instance(ana, "cell1", f"n-{number}", host="host-1") for number in range(3)]
    BlockDevice.objects.using("cell1").create(
        instance_uuid=rows[1].uuid, volume_uuid=uuid4(), device_name="/dev/vdb", created_at=database_now()
    )
    reported = set()
    for seconds in (3600, -3600):
        settings.NOVELLA_HOST_DOWN_SECONDS = seconds
        for row in rows:
            (anew,) = instance_data.read("cell1", Instance.objects.using("cell1").alive().filter(uuid=row.uuid))
            assert instance_data.one("cell1", row.uuid) == [anew]
            reported.add(anew.host_status)
    assert reported == {"UP", "UNKNOWN"}, reported
    assert [len(instances.get(ana, str(row.uuid)).volumes) for row in rows] == [0, 1, 0]


def test_the_group_and_the_build_of_a_server_are_shown(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    mine, other = (make_instance(ana, "cell1", name) for name in ("mine", "other"))
    group = InstanceGroup.objects.create(
        uuid=uuid4(), name="g", project_id=ana.project_id, user_id=ana.user_id, policy="affinity"
    )
    InstanceGroupMember.objects.create(group=group, instance_uuid=mine.uuid)
    mapping = InstanceMapping.objects.get(instance_uuid=mine.uuid)
    found = instances.get(ana, str(mine.uuid))
    assert (found.group_uuid, found.run_uuid) == (str(group.uuid), str(mapping.build_run_uuid))
    assert instances.get(ana, str(other.uuid)).group_uuid == ""


def test_missing_and_foreign_servers_are_not_found(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    row = make_instance(ana, "cell1", "mine")
    gone = make_instance(ana, "cell1", "gone")
    Instance.objects.using("cell1").filter(uuid=gone.uuid).update(deleted_at=database_now())
    for caller, uuid in (
        (replace(ana, project_id=uuid4().hex), str(row.uuid)),
        (ana, str(gone.uuid)),
        (ana, str(uuid4())),
        (ana, "no-uuid"),
    ):
        with pytest.raises(NotFound):
            instances.get(caller, uuid)
    assert instances.get(cloud.people.admin.context(), str(row.uuid)).name == "mine"


def test_a_server_in_an_unresponsive_cell_shows_what_other_databases_know(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = cloud.people.ana.context()
    row, gone = (make_instance(ana, "cell1", name) for name in ("mine", "gone"))
    InstanceMapping.objects.filter(instance_uuid=gone.uuid).update(is_deleted=True)
    with monkeypatch.context() as patched:
        silence(patched, "cell1")
        found = instances.get(ana, str(row.uuid))
        with pytest.raises(NotFound):
            instances.get(ana, str(gone.uuid))
    assert (found.is_partial, found.status, found.cell) == (True, "UNKNOWN", "cell1")


def test_one_that_reaches_its_cell_while_it_is_looked_for_is_found_there(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = cloud.people.ana.context()
    row = make_instance(ana, "cell1", "mine")
    real, requested = queries._place_of, list[UUID]()

    def late(uuid: UUID) -> Any:
        requested.append(uuid)
        place = real(uuid)
        return place._replace(cell="") if place and len(requested) == 1 else place

    monkeypatch.setattr(queries, "_place_of", late)
    assert instances.get(ana, str(row.uuid)).cell == "cell1"
    assert len(requested) == 2
