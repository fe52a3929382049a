"""Lists of servers read neither deleted servers, nor those of other projects or in other states."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connections
from django.db.models import Q

from conductor.cell_db.models import Instance
from conductor.core.context import RequestContext
from conductor.scheduler import host_facts
from conductor.services.servers import filters, queries
from conductor.services.servers.types import InstanceQuery
from tests.compute_rows import Cloud, make_cloud, make_instance
from tests.counting import plan_of
from tests.people import People

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
CELL = "cell1"


@pytest.fixture
def context(people: People) -> RequestContext:
    """A context of one of ten projects with servers in a cell; every second one is deleted, one in a hundred in error.

    PostgreSQL decides by statistics of them, SQLite has none.
    """
    is_postgresql = connections[CELL].vendor == "postgresql"
    cloud: Cloud = make_cloud(people)
    context = cloud.people.ana.context()
    first = make_instance(context, CELL, "server-0", created_at=START)
    values = {name: value for name, value in vars(first).items() if name not in ("_state", "id", "uuid")}
    rows = []
    for number in range(1, 4000 if is_postgresql else 40):
        values |= {
            "uuid": uuid4(),
            "name": f"server-{number}",
            "host": f"sim-{number % 7}",
            "project_id": context.project_id if number % 20 < 2 else f"project-{number // 2 % 10}",
            "vm_state": "deleted" if number % 2 else "error" if number % 100 == 0 else "active",
            "deleted_at": START if number % 2 else None,
            "created_at": START + timedelta(seconds=number),
        }
        rows.append(Instance(**values))
    Instance.objects.using(CELL).bulk_create(rows)
    if is_postgresql:
        with connections[CELL].cursor() as cursor:
            cursor.execute("VACUUM ANALYZE cell_db_instance")
    return context


EVERY = {"all_projects": True}
ERROR, ACTIVE = {"statuses": ("ERROR",)}, {"statuses": ("ACTIVE",)}
OF_STATES = ("instance_states", "instance_project_states")


@pytest.mark.parametrize(
    ("query", "indexes"),
    [
        (InstanceQuery(), ("instance_live",)),
        (InstanceQuery(**ACTIVE), ("instance_live", "instance_project_states")),
        (InstanceQuery(**ERROR), OF_STATES),
        (InstanceQuery(**EVERY), ("instance_alive",)),
        (InstanceQuery(**EVERY, **ACTIVE), ("instance_alive", "instance_states")),
        (InstanceQuery(**EVERY, **ERROR), ("instance_states",)),
    ],
)
def test_a_list_reads_what_it_shows(query: InstanceQuery, indexes: tuple[str, ...], context: RequestContext) -> None:
    found = plan(query, context)
    assert set(indexes) & set(found.split()), found


@pytest.mark.parametrize("name", ["server-1234", "^server-1234$", "^server-12"])
def test_a_name_is_found_by_an_index_of_its_parts(name: str, context: RequestContext) -> None:
    """SQLite has none: it reads the names of the project."""
    is_postgresql = connections[CELL].vendor == "postgresql"
    found = plan(InstanceQuery(filters={"name": name}), context)
    assert ("instance_names" if is_postgresql else "instance_live") in found.split(), found


def test_builds_are_counted_without_reading_other_servers(context: RequestContext) -> None:
    make_instance(context, CELL, "new", vm_state="building", host="sim-1")
    building = host_facts.building(CELL)
    assert "instance_states" in plan_of(CELL, *building.query.sql_with_params()).split()
    assert dict(building) == {"sim-1": 1}


def plan(query: InstanceQuery, context: RequestContext) -> str:
    scope = Q() if query.all_projects else Q(project_id=context.project_id)
    rows = queries.rows_of(CELL, filters.checked(replace(query, limit=10)), scope)[:11]
    return plan_of(CELL, *rows.query.sql_with_params())
