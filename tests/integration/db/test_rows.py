"""Hand-written rows equal the ORM's, both ways, on each kind of database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, connections
from django.db.models import Model

from conductor.cell_db.models import Instance
from conductor.core.context import RequestContext
from conductor.core.states import PowerState, TaskState, VmState
from conductor.db.dialect import SecondsFromNow
from conductor.db.rows import Rows
from conductor.db.transactions import database_now, database_time, write_tx
from conductor.network import security_groups
from conductor.network.models import Port, SecurityGroup
from tests import factories
from tests.fixtures.addresses import make_network, make_port

ALIAS = "cell1"
ROWS = Rows(Instance, "uuid")
ANA = RequestContext(user_id="a" * 32, project_id="5" * 32, request_id="req-1", roles=frozenset({"member"}))

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


def make() -> Instance:
    return factories.instance(ANA, "web-1", cell=ALIAS)


def values_of(row: Model) -> dict[str, Any]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


@pytest.fixture
def instance() -> Instance:
    factories.cells()
    made = make()
    Instance.objects.using(ALIAS).filter(pk=made.pk).update(
        description='Ana\'s "first" 100 % server',
        metadata={"rack": ["a", 1, None], "name": "Zoë"},
        launched_at=datetime(2026, 5, 4, 3, 2, 1, 987000, tzinfo=UTC),
        is_locked=True,
        rescue_image=None,
    )
    return Instance.objects.using(ALIAS).get(pk=made.pk)


def test_a_row_reads_as_the_orm_reads_it(instance: Instance) -> None:
    found = ROWS.get(connections[ALIAS], str(instance.uuid))
    assert values_of(found) == values_of(instance)
    assert {name: type(value) for name, value in values_of(found).items()} == {
        name: type(value) for name, value in values_of(instance).items()
    }
    assert found._state.db == ALIAS
    assert not found._state.adding


def test_written_rows_equal_those_of_the_orm(instance: Instance) -> None:
    changes: dict[str, Any] = {
        "vm_state": VmState.ACTIVE,
        "task_state": None,
        "power_state": PowerState.RUNNING,
        "is_locked": False,
        "addresses": [{"ip": "10.0.0.7", "dns": ["10.0.0.1"]}],
        "rescue_image": {"image_id": "x"},
        "terminated_at": datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC),
    }
    twin = make()
    Instance.objects.using(ALIAS).filter(pk=twin.pk).update(**changes)
    ROWS.update(connections[ALIAS], instance.uuid, **changes)
    stored, twin_stored = (Instance.objects.using(ALIAS).filter(pk=row.pk).values().get() for row in (instance, twin))
    assert {name: stored[name] for name in changes} == {name: twin_stored[name] for name in changes}
    assert stored["description"] == instance.description
    assert Instance.objects.using(ALIAS).filter(addresses__0__ip="10.0.0.7").count() == 2


def test_times_are_of_the_databases_clock(instance: Instance) -> None:
    before = database_time(ALIAS)
    ROWS.update(
        connections[ALIAS],
        instance.uuid,
        updated_at=database_now(),
        launched_at=SecondsFromNow(),
        terminated_at=SecondsFromNow(60.0),
    )
    stored, after = ROWS.get(connections[ALIAS], instance.uuid), database_time(ALIAS)
    assert before <= stored.updated_at <= after
    assert stored.launched_at is not None
    assert before <= stored.launched_at <= after
    assert stored.terminated_at is not None
    assert 59 < (stored.terminated_at - after).total_seconds() <= 60


def test_only_the_row_that_is_named_is_written(instance: Instance) -> None:
    other = make()
    before = values_of(Instance.objects.using(ALIAS).get(pk=other.pk))
    ROWS.update(connections[ALIAS], instance.uuid, task_state=TaskState.SPAWNING)
    assert values_of(Instance.objects.using(ALIAS).get(pk=other.pk)) == before
    assert ROWS.get(connections[ALIAS], instance.uuid).task_state == TaskState.SPAWNING


def test_a_missing_row_raises_the_same_error_as_the_orm() -> None:
    assert ROWS.find(connections[ALIAS], uuid4()) is None
    with pytest.raises(Instance.DoesNotExist):
        ROWS.get(connections[ALIAS], uuid4())


def test_an_inserted_row_equals_that_of_the_orm() -> None:
    network, now = make_network(), database_time()
    values: dict[str, Any] = {"project_id": "b" * 32, "created_at": now, "updated_at": now, "network": network}
    by_hand, twin = Port(mac_address="fa:16:3e:00:00:01", **values), Port(mac_address="fa:16:3e:00:00:02", **values)
    assert Rows(Port, "id").insert(connections["default"], by_hand)
    twin.save(force_insert=True)
    assert (by_hand._state.db, by_hand._state.adding) == ("default", False)
    stored, twin_stored = (Port.objects.values().get(pk=port.pk) for port in (by_hand, twin))
    own = ("id", "uuid", "mac_address")
    assert {name: value for name, value in stored.items() if name not in own} == {
        name: value for name, value in twin_stored.items() if name not in own
    }
    assert (stored["uuid"], stored["mac_address"]) == (by_hand.uuid, "fa:16:3e:00:00:01")


def test_a_row_that_another_writer_inserted_first_changes_nothing() -> None:
    port = make_port(make_network())
    before = list(Port.objects.values())
    again = Port(mac_address=port.mac_address, **{name: getattr(port, name) for name in ("network", "project_id")})
    again.created_at = again.updated_at = port.created_at
    with write_tx():
        assert not Rows(Port, "id").insert(connections["default"], again, unless="mac_address")
        Port.objects.filter(pk=port.pk).update(name="the transaction goes on")
    assert again.pk is None
    assert list(Port.objects.values()) == [{**before[0], "name": "the transaction goes on"}]


def test_a_row_is_found_by_two_columns() -> None:
    first, second = security_groups.ensure_default("b" * 32), security_groups.ensure_default("c" * 32)
    rows = Rows(SecurityGroup, "project_id", "name")
    assert [rows.get(connections["default"], group.project_id, "default").pk for group in (first, second)] == [
        first.pk,
        second.pk,
    ]
    assert rows.find(connections["default"], "b" * 32, "other") is None


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_rows_are_found_by_a_set_of_values(count: int, instance: Instance) -> None:
    """For any number of values: each row once, none for an unknown value."""
    wanted = [instance, *(make() for _ in range(4))][:count]
    found = ROWS.among(connections[ALIAS], [*(row.uuid for row in wanted), uuid4()])
    assert sorted(row.pk for row in found) == sorted(row.pk for row in wanted)
    assert all(values_of(row) == values_of(instance) for row in found if row.pk == instance.pk)
    assert ROWS.among(connections[ALIAS], []) == []


def test_many_inserted_rows_equal_those_of_the_orm() -> None:
    factories.cells()
    now = database_time(ALIAS)
    defaults: dict[str, Any] = {
        "project_id": ANA.project_id,
        "user_id": ANA.user_id,
        "flavor": {"vcpus": 1, "extra_specs": {}},
        "image": {},
        "vm_state": VmState.BUILDING,
        "power_state": PowerState.NOSTATE,
        "created_at": now,
        "updated_at": now,
    }
    by_hand = [
        {"uuid": uuid4(), "name": f"Zoë's {number} %", "metadata": {"n": number}, **defaults} for number in (1, 2)
    ]
    twins = [{**values, "uuid": uuid4()} for values in by_hand]
    ROWS.insert_all(connections[ALIAS], [])
    ROWS.insert_all(connections[ALIAS], by_hand)
    Instance.objects.using(ALIAS).bulk_create(Instance(**values) for values in twins)
    own = ("id", "uuid")
    for mine, twin in zip(by_hand, twins, strict=True):
        stored, twin_stored = (Instance.objects.using(ALIAS).values().get(uuid=row["uuid"]) for row in (mine, twin))
        assert {name: value for name, value in stored.items() if name not in own} == {
            name: value for name, value in twin_stored.items() if name not in own
        }


def test_many_rows_are_inserted_together_or_not_at_all() -> None:
    network, now = make_network(), database_time()
    values = {"project_id": "b" * 32, "created_at": now, "updated_at": now, "network_id": network.pk}
    twice = [{"mac_address": "fa:16:3e:00:00:03", **values}] * 2
    with pytest.raises(IntegrityError), write_tx():
        Rows(Port, "id").insert_all(connections["default"], twice)
    assert not Port.objects.exists()
