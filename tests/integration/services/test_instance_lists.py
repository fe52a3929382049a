"""Lists over build requests and cells: every instance once, in one order, at a constant price."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductor.api_db.models import BuildRequest, InstanceMapping
from conductor.cell_db.models import Instance, InstanceFault
from conductor.core.errors import Invalid
from conductor.db.transactions import database_now
from conductor.journal.models import WorkflowRun
from conductor.services.servers import filters, instances, name_search, queries
from conductor.services.servers.types import InstanceCreate, InstanceData, InstanceQuery
from tests.compute_rows import CELLS, Cloud, make_cloud, make_host, make_instance
from tests.counting import Captured
from tests.databases import empty_all
from tests.fixtures.unresponsive_cells import silence
from tests.people import People, create_people

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def cloud(people: People) -> Cloud:
    return make_cloud(people)


def request(cloud: Cloud, name: str, **values: Any) -> str:
    requested = InstanceCreate(**({"name": name, "flavor_ref": "1", "image_ref": str(cloud.image.uuid)} | values))
    return instances.create(cloud.people.ana.context(), requested).instance_uuids[0]


def walk(cloud: Cloud, query: InstanceQuery) -> list[str]:
    """Return every uuid that the pages give, in order."""
    context, found = cloud.people.ana.context(), []
    while True:
        page = instances.list_page(context, query)
        found += [view.uuid for view in page.items]
        if not page.has_more:
            return found
        assert len(page.items) == query.limit
        query = replace(query, marker=found[-1])


def names(cloud: Cloud, who: str = "ana", **query: Any) -> list[str]:
    page = instances.list_page(cloud.people[who].context(), InstanceQuery(**query))
    return [view.name for view in page.items]


def test_requests_and_cells_make_one_list_newest_first(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    for number, cell in enumerate(("cell2", "cell1", "cell0")):
        make_instance(ana, cell, f"built-{number}", created_at=START + timedelta(minutes=number))
    make_instance(cloud.people.chi.context(), "cell1", "foreign")
    request(cloud, "asked")
    assert names(cloud) == ["asked", "built-2", "built-1", "built-0"]
    assert names(cloud, sort=(("name", False),)) == ["asked", "built-0", "built-1", "built-2"]
    assert names(cloud, "admin") == []
    assert sorted(names(cloud, "admin", all_projects=True)) == ["asked", "built-0", "built-1", "built-2", "foreign"]
    assert "foreign" not in names(cloud, all_projects=True)  # only administrators see across projects


def test_an_instance_in_a_cell_hides_its_build_request(cloud: Cloud) -> None:
    uuid_of_both = request(cloud, "moving")
    row = BuildRequest.objects.get()
    Instance.objects.using("cell1").create(
        uuid=uuid_of_both,
        **(row.instance | {"task_state": "networking"}),
        created_at=row.created_at,
        updated_at=database_now(),
    )
    (view,) = instances.list_page(cloud.people.ana.context(), InstanceQuery()).items
    assert (view.uuid, view.cell, view.task_state) == (uuid_of_both, "cell1", "networking")
    assert view.run_uuid == str(row.run_uuid)  # no workflow in the cell yet


@pytest.fixture
def emptied(django_db_setup: None, django_db_blocker: Any) -> Any:
    with django_db_blocker.unblock():
        yield
        empty_all()


SORTS = (
    (("created_at", True),),
    (("created_at", False),),
    (("name", False), ("created_at", True)),
    (("host", True), ("task_state", False)),
    (("launched_at", False),),
    (("updated_at", True),),
    (("uuid", False),),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from([*CELLS, "request"]),
            st.integers(0, 2),  # second of creation: ties are many
            st.sampled_from(["a", "b", "ä"]),
            st.sampled_from([None, "sim-1", "sim-2"]),
            st.sampled_from([None, 0, 1]),
        ),
        max_size=12,
    ),
    limit=st.integers(1, 5),
    sort=st.sampled_from(SORTS),
)
def test_a_walk_gives_every_instance_once_in_order(
    emptied: None, rows: list[tuple[Any, ...]], limit: int, sort: tuple[tuple[str, bool], ...]
) -> None:
    empty_all()
    cloud = make_cloud(create_people())
    ana = cloud.people.ana.context()
    made = []
    for place, second, name, host, launched in rows:
        created_at = START + timedelta(seconds=second)
        if place == "request":
            made.append(request(cloud, name))
            BuildRequest.objects.filter(instance_uuid=made[-1]).update(created_at=created_at)
            InstanceMapping.objects.filter(instance_uuid=made[-1]).update(created_at=created_at)
        else:
            launched_at = None if launched is None else START + timedelta(seconds=launched, milliseconds=launched)
            row = make_instance(ana, place, name, created_at=created_at, host=host, launched_at=launched_at)
            made.append(str(row.uuid))
    query = InstanceQuery(limit=limit, sort=sort)
    found = walk(cloud, query)
    assert sorted(found) == sorted(made)
    assert found == walk(cloud, replace(query, limit=1000))


def test_every_sort_key_walks_through_all_cells(cloud: Cloud) -> None:
    """Half of the rows share each value: pages neither lose nor repeat any."""
    ana = cloud.people.ana.context()
    for number, cell in enumerate([*CELLS, *CELLS]):
        image = {"image_id": f"i-{number % 2}", "properties": {"kernel_id": f"k-{number % 2}"} if number % 3 else {}}
        values = {"locked_by": ["", "owner"][number % 2], "disk_config": ["AUTO", "MANUAL"][number % 2]}
        row = make_instance(ana, cell, f"n-{number % 3}", launch_index=number // 2, is_locked=number % 2 == 0, **values)
        Instance.objects.using(cell).filter(pk=row.pk).update(image=row.image | image)
    request(cloud, "n-1", min_count=2, max_count=2)
    for number, (name, key) in enumerate(filters.SORT_KEYS.items()):
        is_descending = number % 2 == 0
        query = InstanceQuery(limit=1000, sort=((name, is_descending),), with_runs=False)
        views = instances.list_page(ana, query).items
        shown = [key.value(view) for view in views]
        assert shown == sorted(shown, reverse=is_descending), name
        assert walk(cloud, replace(query, limit=4)) == [view.uuid for view in views], name
        assert len(views) == 8


def test_a_walk_goes_on_when_its_marker_is_deleted(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    rows = [make_instance(ana, "cell1", f"n-{n}", created_at=START + timedelta(seconds=n)) for n in range(4)]
    marker = rows[2]
    Instance.objects.using("cell1").filter(pk=marker.pk).update(deleted_at=database_now(), vm_state="deleted")
    assert names(cloud, marker=str(marker.uuid)) == ["n-1", "n-0"]
    requested = request(cloud, "asked")
    BuildRequest.objects.all().delete()
    InstanceMapping.objects.filter(instance_uuid=requested).update(is_deleted=True)
    assert names(cloud, marker=requested) == ["n-3", "n-1", "n-0"]


def test_markers_and_keys_that_do_not_exist_are_named(cloud: Cloud) -> None:
    foreign = make_instance(cloud.people.chi.context(), "cell1", "foreign")
    for marker in (str(foreign.uuid), str(uuid.uuid4()), "web-1"):
        with pytest.raises(Invalid, match=f"marker \\[{marker}\\] not found"):
            names(cloud, marker=marker)
    with pytest.raises(Invalid, match="cannot be filtered by shoe_size"):
        names(cloud, filters={"shoe_size": 43})
    with pytest.raises(Invalid, match="cannot be sorted by shoe_size"):
        names(cloud, sort=(("shoe_size", True),))


def test_filters(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    port = {
        "port_uuid": "p",
        "network_name": "private",
        "mac_address": "m",
        "prefix_length": 20,
        "cidr": "10.64.0.0/20",
    }
    make_instance(ana, "cell1", "web-1", host="sim-1", addresses=[port | {"ip_address": "10.64.0.17"}], tags=["blue"])
    make_instance(ana, "cell2", "web-2", vm_state="error", tags=["blue", "grün"], key_name="laptop")
    make_instance(ana, "cell1", "db", task_state="deleting", addresses=[port | {"ip_address": "fd00::17"}])
    make_instance(ana, "cell2", "old", vm_state="deleted", deleted_at=database_now())
    request(cloud, "Web-3", tags=("red",))
    by_name: tuple[tuple[str, bool], ...] = (("name", False),)

    def found(**query: Any) -> list[str]:
        return names(cloud, sort=by_name, **query)

    assert found(filters={"name": "^web"}) == ["Web-3", "web-1", "web-2"]
    assert found(filters={"name": "b-[12]$"}) == ["web-1", "web-2"]
    assert found(filters={"host": "sim-1"}) == ["web-1"]
    assert found(filters={"ip": "64.0.1"}) == ["web-1"]
    assert found(filters={"ip": "10.64.0.0"}) == []  # the range is not the address
    assert found(filters={"ip6": "FD00:"}) == ["db"]
    assert found(filters={"task_state": "deleting"}) == ["db"]
    assert found(filters={"key_name": "laptop"}) == ["web-2"]
    assert found(filters={"flavor_id": "1"}) == ["Web-3", "db", "web-1", "web-2"]
    assert found(filters={"image_id": str(cloud.image.uuid)}) == ["Web-3"]
    assert found(statuses=("ERROR", "BUILD")) == ["Web-3", "web-2"]
    assert found(statuses=("PAUSED",)) == []
    assert found(filters={"tags": ["blue"]}) == ["web-1", "web-2"]
    assert found(filters={"tags": ["blue", "grün"]}) == ["web-2"]
    assert found(filters={"tags_any": ["grün", "red"]}) == ["Web-3", "web-2"]
    assert found(filters={"not_tags": ["blue", "grün"]}) == ["Web-3", "db", "web-1"]
    assert found(filters={"not_tags_any": ["blue", "red"]}) == ["db"]
    assert found(filters={"tags": ["blu"]}) == []
    assert found(is_deleted=True) == ["old"]
    assert found(changes_since=START) == ["Web-3", "db", "old", "web-1", "web-2"]
    assert found(changes_before=START) == []


@pytest.mark.parametrize(
    "pattern", ["(", "[", r"(a)\1", "(?=a)", "(?<!a)b", "x" * 256, "(?:(?:a{100}){100}){100}", "\\", "a\ud800"]
)
def test_patterns_that_are_wrong_or_too_large_are_refused(pattern: str, cloud: Cloud) -> None:
    with pytest.raises(Invalid):
        names(cloud, filters={"name": pattern})


@pytest.mark.parametrize("pattern", [".*", "^.*$", "^.*web.*$", "^web-[0-9]+$", "a|b", "(web|db)-?1?", "", "EB"])
def test_name_patterns_find_matching_servers(pattern: str, cloud: Cloud) -> None:
    make_instance(cloud.people.ana.context(), "cell1", "web-1")
    assert names(cloud, filters={"name": pattern}) == ["web-1"]


@pytest.mark.parametrize("pattern", [r"\.", r"x\.*", "^eb", "web$"])
def test_patterns_that_do_not_match_find_nothing(pattern: str, cloud: Cloud) -> None:
    make_instance(cloud.people.ana.context(), "cell1", "web-1")
    assert names(cloud, filters={"name": pattern}) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["web", "Web", "db.1", "ä"]),
    tags=st.lists(st.sampled_from(["blue", "grün", 'qu"ote', "back\\slash"]), unique=True, max_size=3),
    key=st.sampled_from([None, "laptop"]),
    query=st.fixed_dictionaries(
        {},
        optional={
            "name": st.sampled_from(["web", "^W", "B$", "^web$", r"b\.1", "x", "^$", "[wd].b", ".*", "(e|ä)"]),
            "key_name": st.just("laptop"),
            "vm_state": st.sampled_from(["building", "active"]),
            "flavor_id": st.sampled_from(["1", "2"]),
            "tags": st.lists(st.sampled_from(["blue", "grün", 'qu"ote', "back\\slash"]), max_size=2),
            "tags_any": st.lists(st.sampled_from(["blue", "grün", 'qu"ote']), max_size=2),
            "not_tags": st.lists(st.sampled_from(["blue", "grün"]), min_size=1, max_size=2),
            "not_tags_any": st.lists(st.sampled_from(["blue", "back\\slash"]), min_size=1, max_size=2),
            "launch_index": st.integers(0, 1),
            "is_locked": st.booleans(),
            "locked_by": st.sampled_from(["", "admin"]),
            "disk_config": st.sampled_from(["AUTO", "MANUAL"]),
            "kernel_id": st.just("k"),
            "root_device_name": st.sampled_from(["/dev/vda", "/dev/vdb"]),
            "progress": st.integers(0, 1),
            "uuid": st.just("11111111-1111-1111-1111-111111111111"),
            "created_at": st.sampled_from([START, START + timedelta(seconds=1)]),
        },
    ),
)
def test_rows_and_requests_are_narrowed_alike(
    emptied: None, name: str, tags: list[str], key: str | None, query: dict[str, Any]
) -> None:
    empty_all()
    cloud = make_cloud(create_people())
    row = make_instance(
        cloud.people.ana.context(),
        "cell1",
        name,
        tags=tags,
        key_name=key,
        created_at=START + timedelta(milliseconds=500),
    )
    requested = filters.checked(InstanceQuery(filters=query))
    rows = filters.of_rows(Instance.objects.using("cell1").all(), requested)
    pattern = filters.pattern_beside_sql(requested)
    in_cell = (name_search.narrow(rows, pattern, 1) if pattern else rows).exists()
    view = queries.get(cloud.people.ana.context(), str(row.uuid))
    assert filters.fits(view, requested) == in_cell


def count_queries(work: Callable[[], Any]) -> int:
    captured = [Captured(connections[alias]) for alias in connections]
    for capture in captured:
        capture.__enter__()
    work()
    for capture in captured:
        capture.__exit__(None, None, None)
    return sum(len(capture) for capture in captured)


@pytest.mark.parametrize("query", [InstanceQuery(), InstanceQuery(filters={"name": "web"}, sort=(("name", False),))])
def test_fifty_cost_as_many_queries_as_five(query: InstanceQuery, cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    make_host("cell1", "sim-1")
    make_host("cell2", "sim-2")

    def fill(count: int) -> None:
        for number in range(count):
            cell = CELLS[number % 3]
            state = "error" if number < 3 else "active"
            row = make_instance(
                ana, cell, f"web-{number}", vm_state=state, host=None if cell == "cell0" else f"sim-{cell[-1]}"
            )
            InstanceFault.objects.using(cell).create(instance_uuid=row.uuid, message="no", created_at=database_now())
            if cell != "cell0":
                WorkflowRun.objects.using(cell).create(
                    flow="f",
                    action="a",
                    queue="q",
                    instance_uuid=row.uuid,
                    wake_at=database_now(),
                    created_at=database_now(),
                )
        request(cloud, "web-asked", min_count=2, max_count=2)

    fill(6)
    few = count_queries(lambda: instances.list_page(ana, query))
    fill(48)
    assert len(instances.list_page(ana, query).items) == 58
    assert count_queries(lambda: instances.list_page(ana, query)) == few
    assert few <= 16


def partial(view: InstanceData) -> tuple[Any, ...]:
    return view.uuid, view.status, view.is_partial, view.name, view.cell


def test_instances_of_an_unresponsive_cell(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    ana = cloud.people.ana.context()
    there = make_instance(ana, "cell1", "there", created_at=START)
    lost = make_instance(ana, "cell2", "lost", created_at=START + timedelta(seconds=1))

    with monkeypatch.context() as patched:
        silence(patched, "cell2")
        page = instances.list_page(ana, InstanceQuery())
        assert list(page.missing_cells) == ["cell2"]
        assert [partial(view) for view in page.items] == [
            (str(lost.uuid), "UNKNOWN", True, "", "cell2"),
            (str(there.uuid), "ACTIVE", False, "there", "cell1"),
        ]
        assert walk(cloud, InstanceQuery(limit=1)) == [str(lost.uuid), str(there.uuid)]
        assert names(cloud, filters={"name": "there"}) == ["there"]  # an unknown server cannot match
        assert partial(instances.get(ana, str(lost.uuid))) == (str(lost.uuid), "UNKNOWN", True, "", "cell2")
    assert names(cloud) == ["lost", "there"]


def test_a_view_says_the_same_before_and_after_the_move(cloud: Cloud) -> None:
    uuid_of_both = request(cloud, "moving", metadata={"a": "b"}, tags=("blue",), description="d")
    before = instances.get(cloud.people.ana.context(), uuid_of_both)
    row = BuildRequest.objects.get()
    Instance.objects.using("cell1").create(
        uuid=uuid_of_both, **row.instance, created_at=row.created_at, updated_at=row.created_at
    )
    (after,) = instances.list_page(cloud.people.ana.context(), InstanceQuery()).items
    assert asdict(replace(after, cell="")) == asdict(before)
