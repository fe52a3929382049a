"""Walks through long lists: the cost of a page in each cell, and completeness while servers come and go."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import DatabaseError, connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductor.cell_db.models import BlockDevice, Instance, InstanceFault, Service
from conductor.core.context import RequestContext
from conductor.db.transactions import database_now
from conductor.services.hosts import hosts
from conductor.services.servers import filters, instance_data, instances
from conductor.services.servers.types import InstanceData, InstanceQuery
from tests.compute_rows import CELLS, Cloud, make_cloud, make_host, make_instance
from tests.counting import counted, plan_of
from tests.people import People

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
BY_NAME = (("name", False),)
NEWEST_FIRST = (("created_at", True),)


@pytest.fixture
def cloud(people: People) -> Cloud:
    return make_cloud(people)


def in_a_project_of_its_own(cloud: Cloud) -> RequestContext:
    return replace(cloud.people.ana.context(), project_id=uuid4().hex)


def with_extras(context: RequestContext, cell: str, number: int, **values: Any) -> Instance:
    """Return a server in error that has a volume: all that a list asks for."""
    row = make_instance(
        context, cell, f"n-{number:02}", vm_state="error", created_at=START + timedelta(seconds=number), **values
    )
    for message in ("first", "last"):
        InstanceFault.objects.using(cell).create(instance_uuid=row.uuid, message=message, created_at=database_now())
    BlockDevice.objects.using(cell).create(
        instance_uuid=row.uuid, volume_uuid=uuid4(), device_name="/dev/vdb", created_at=database_now()
    )
    return row


@pytest.mark.parametrize("sort", [NEWEST_FIRST, BY_NAME])
def test_no_page_costs_a_cell_more_than_four_statements(sort: Any, cloud: Cloud) -> None:
    """With servers evenly in all cells, or all in one."""
    ana = cloud.people.ana.context()
    for number in range(20):
        with_extras(ana, "cell1", number)
    for number in range(20, 24):
        with_extras(ana, "cell2", number)
    query, seen = InstanceQuery(sort=sort, limit=8), []
    while True:
        with counted("cell0") as none, counted("cell1") as most, counted("cell2") as few:
            page = instances.list_page(ana, query)
        seen += [view.name for view in page.items]
        assert max(len(one.statements) for one in (none, most, few)) <= 4
        for view in page.items:
            assert view.fault is not None
            assert (view.fault.message, len(view.volumes)) == ("last", 1)
        if not page.has_more:
            break
        query = replace(query, marker=page.items[-1].uuid)
    assert sorted(seen) == [f"n-{number:02}" for number in range(24)]


def test_a_page_of_an_even_list_costs_each_cell_one_statement(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    for number in range(12):
        make_instance(ana, f"cell{number % 2 + 1}", f"n-{number}", created_at=START + timedelta(seconds=number))
    with counted("cell1") as seen:
        assert len(instances.list_page(ana, InstanceQuery(limit=4)).items) == 4
    assert len(seen.statements) == 1


@pytest.mark.parametrize("marker", [False, True])
def test_a_list_of_all_projects_walks_an_index(marker: bool, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page must not cost a cell a look at every server that lives in it, wherever the page is."""
    rows = [make_instance(cloud.people[who].context(), "cell1", who) for who in ("ana", "bo")]
    requested: list[Any] = []
    fetch = instance_data.fetch
    monkeypatch.setattr(
        instance_data, "fetch", lambda alias, sql: (requested.append((alias, sql)), fetch(alias, sql))[1]
    )
    query = InstanceQuery(all_projects=True, limit=1, marker=str(rows[1].uuid) if marker else "")
    assert len(instances.list_page(cloud.people.admin.context(), query).items) == 1
    sql, parameters = next(asked_of for alias, asked_of in requested if alias == "cell1")
    # Two rows are sooner sorted than found by an index.
    plan = plan_of("cell1", sql, parameters, "SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
    assert "instance_alive" in plan, plan
    assert "TEMP B-TREE" not in plan, plan


row = st.tuples(
    st.sampled_from(CELLS),
    st.integers(0, 2),  # second of creation: ties are many
    st.sampled_from(["a", "b", "B", "ä"]),
    st.sampled_from([None, "x", "y"]),  # of what may be null
    st.sampled_from([None, 0, 1]),  # second of launch
)


def add(context: RequestContext, cell: str, second: int, name: str, word: str | None, launched: int | None) -> str:
    at = None if launched is None else START + timedelta(seconds=launched, milliseconds=launched)
    made = make_instance(
        context, cell, name, created_at=START + timedelta(seconds=second), host=word, key_name=word, node=word,
        description=word, launched_at=at, terminated_at=at, launch_index=second, is_locked=word == "x",
    )  # fmt: skip
    return str(made.uuid)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(row, min_size=2, max_size=9),
    added=st.lists(row, max_size=3),
    removed=st.integers(0, 8),
    limit=st.integers(1, 4),
    sort=st.lists(
        st.tuples(st.sampled_from(sorted(filters.SORT_KEYS)), st.booleans()),
        min_size=1, max_size=2, unique_by=lambda key: key[0],
    ),
)  # fmt: skip
def test_a_walk_gives_what_stays_once_and_in_order_while_servers_come_and_go(
    cloud: Cloud, rows: Any, added: Any, removed: int, limit: int, sort: Any
) -> None:
    context = in_a_project_of_its_own(cloud)
    made = [add(context, *values) for values in rows]
    gone = made[removed % len(made)]
    query, found, waiting = InstanceQuery(sort=tuple(sort), limit=limit), list[InstanceData](), list(added)
    while True:
        page = instances.list_page(context, query)
        found += page.items
        if waiting:
            add(context, *waiting.pop())
        if len(found) >= limit and gone:  # the marker itself, perhaps
            for cell in CELLS:
                Instance.objects.using(cell).filter(uuid=gone).update(deleted_at=database_now())
            gone = ""
        if not page.has_more:
            break
        query = replace(query, marker=found[-1].uuid)
    seen = [view.uuid for view in found]
    assert len(set(seen)) == len(seen)
    assert set(made) - {made[removed % len(made)]} <= set(seen)
    assert found == filters.in_order(found, query)


def test_a_cell_that_stops_responding_between_two_questions(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its servers keep their places, with the data known without it."""
    ana = cloud.people.ana.context()
    there, lost = with_extras(ana, "cell1", 1), with_extras(ana, "cell2", 2)
    complete = instance_data.complete

    def refuse(alias: str, views: list[InstanceData]) -> list[InstanceData]:
        if alias == "cell2":
            raise DatabaseError("cell2 does not answer")
        return complete(alias, views)

    monkeypatch.setattr(instance_data, "complete", refuse)
    page = instances.list_page(ana, InstanceQuery())
    assert list(page.missing_cells) == ["cell2"]
    assert [(view.uuid, view.is_partial) for view in page.items] == [(str(lost.uuid), True), (str(there.uuid), False)]


def test_a_view_of_a_row_has_every_field_of_a_view(cloud: Cloud) -> None:
    """The view is created without its constructor, so this checks for missing fields."""
    make_instance(cloud.people.ana.context(), "cell1", "n")
    (view,) = instances.list_page(cloud.people.ana.context(), InstanceQuery()).items
    assert view.__dict__.keys() == {field.name for field in fields(InstanceData)}
    assert view == InstanceData(**view.__dict__)
    assert asdict(view)["name"] == "n"


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({}, "UP"),
        ({"is_disabled": True}, "MAINTENANCE"),
        ({"is_forced_down": True, "is_disabled": True}, "DOWN"),
        ({"last_seen_at": START}, "UNKNOWN"),
    ],
)
def test_a_list_says_of_a_host_what_its_own_page_says(values: dict[str, Any], word: str, cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    for host, is_simulated in (("sim-1", True), ("metal-1", False)):
        make_host("cell1", host, is_simulated=is_simulated, **values)
        make_instance(ana, "cell1", f"on-{host}", host=host)
    make_instance(ana, "cell1", "on-none")
    make_instance(ana, "cell1", "on-unknown", host="gone")
    found = {
        view.name: (view.host_status, view.is_simulated) for view in instances.list_page(ana, InstanceQuery()).items
    }
    assert found == {
        "on-sim-1": (word, True), "on-metal-1": (word, False), "on-none": ("", False), "on-unknown": ("UNKNOWN", False),
    }  # fmt: skip
    for row in hosts.services_in("cell1"):
        assert hosts.host_status(hosts.service_view(row, "cell1", 0)) == word
    assert Service.objects.using("cell1").count() == 2


def test_rows_are_read_as_they_were_written(cloud: Cloud) -> None:
    assert connections["cell1"].vendor in ("sqlite", "postgresql")
    values = {"metadata": {"ä": "1"}, "tags": ["b", "a"], "security_groups": ["default"], "key_name": "k"}
    written = make_instance(cloud.people.ana.context(), "cell1", "n", host="h", launched_at=START, **values)
    (view,) = instance_data.read("cell1", Instance.objects.using("cell1").all())
    for name in instance_data.CELL_COLUMNS_AS_THEY_ARE:
        kept, shown = getattr(written, name), getattr(view, name)
        if name in ("flavor", "image"):
            shown = asdict(shown)
        assert (list(shown) if isinstance(shown, tuple) else shown) == (str(kept) if name == "uuid" else kept or shown)
