"""The list of servers with its columns, views and orders, and the tabs and forms of one server."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from conductor.api_db.models import BuildRequest
from conductor.cell_db.models import Instance
from conductor.journal.models import WorkflowRun
from conductor.services.accounts import preferences
from conductor.services.servers import flavors, locking
from portal.pages.servers.servers import TABS
from tests import factories
from tests.counting import Captured
from tests.integration.page_clients import text
from tests.people import PASSWORD


@pytest.fixture
def ana(people: Any) -> Client:
    factories.cells()
    factories.host("sim-1")
    client = Client()
    assert client.post("/sign-in", {"username": "ana", "password": PASSWORD}).status_code == 302
    return client


def names(client: Client, **query: str) -> list[str]:
    return re.findall(r"data-open>(web-\d)<", text(client.get("/servers", query)))


def fleet(people: Any) -> None:
    for number, zone in enumerate(("az-2", "az-1", "az-3")):
        factories.instance(
            people.ana.context(), f"web-{number}", age=100 * (number + 1), availability_zone=zone, tags=[f"t{number}"]
        )


def test_the_list_is_sorted_and_narrowed_by_the_server(ana: Client, people: Any) -> None:
    fleet(people)
    assert names(ana) == ["web-0", "web-1", "web-2"]
    assert names(ana, sort="age:desc") == ["web-2", "web-1", "web-0"]
    assert names(ana, sort="name:desc") == ["web-2", "web-1", "web-0"]
    assert names(ana, sort="zone:asc") == ["web-1", "web-0", "web-2"]
    assert names(ana, sort="nonsense:up") == ["web-0", "web-1", "web-2"]
    assert names(ana, tag="t1") == ["web-1"]


def test_pages_go_on_where_they_ended_in_every_order(ana: Client, people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet(people)
    monkeypatch.setattr("portal.pages.server_queries.PAGE_SIZE", 2)
    first = text(ana.get("/servers", {"sort": "zone:asc"}))
    (following,) = re.findall(r'href="([^"]+)" rel="next"', first)
    assert re.findall(r"data-open>(web-\d)<", text(ana.get(following))) == ["web-2"]


def test_columns_are_kept_with_the_person(ana: Client, people: Any) -> None:
    fleet(people)
    ana.post("/servers/columns", {"column": ["image", "host"], "query": "name=web&next=//evil"})
    page = text(ana.get("/servers"))
    assert 'data-name="Image"' in page
    assert 'data-name="Addresses"' not in page
    assert "sim-1" not in page  # hosts are the operators' alone
    before = preferences.of(people.ana.user.pk)
    assert ana.post("/servers/columns", {"column": "passwords"}).status_code == 400
    assert preferences.of(people.ana.user.pk) == before


def test_views_are_kept_and_forgotten(ana: Client, people: Any) -> None:
    answer = ana.post("/servers/views", {"view": "mine", "query": "name=web&sort=zone%3Aasc&evil=1"})
    assert answer["Location"] == "/servers?name=web&sort=zone%3Aasc"
    assert preferences.of(people.ana.user.pk).views == {"mine": "name=web&sort=zone%3Aasc"}
    assert 'href="/servers?name=web&sort=zone%3Aasc" aria-current="true">mine<' in text(ana.get(answer["Location"]))
    ana.post("/servers/views", {"view": "  ", "query": ""})
    assert "Enter a view name" in text(ana.get("/servers"))
    ana.post("/servers/views", {"forget": "mine", "query": ""})
    assert preferences.of(people.ana.user.pk).views == {}


def test_every_tab_is_a_page(ana: Client, people: Any) -> None:
    server = factories.instance(people.ana.context(), "web-0", metadata={"team": "shop"}, tags=["blue"])
    for tab in TABS:
        answer = ana.get(f"/servers/{server.uuid}" if tab == "overview" else f"/servers/{server.uuid}/{tab}")
        assert answer.status_code == 200, tab
        assert 'id="server-body"' in text(answer), tab
    assert "team" in text(ana.get(f"/servers/{server.uuid}/metadata"))


def test_a_fresh_server_says_how_its_host_was_chosen(ana: Client, people: Any) -> None:
    """The run that asked for hosts has handed the server to its cell, where the server's own history begins."""
    requested, child = factories.build(people.ana.context(), "web-0")
    at = f"/servers/{child.instance_uuid}/placement"
    factories.decision(requested, is_successful=False, **factories.some_decision())
    assert "No host is eligible" in text(ana.get(at))
    chosen = factories.decision(requested, **factories.some_decision())
    factories.decision(requested, is_successful=False, **factories.some_decision())
    page = text(ana.get(at))
    assert f"/decisions/{chosen.uuid}" in page
    assert f"/workflows/{requested.uuid}" in page
    assert "1 host selected" in page


def test_a_volume_is_attached_from_the_servers_page(ana: Client, people: Any) -> None:
    server = factories.instance(people.ana.context(), "web-0")
    ana.post("/volumes/do/create", {"name": "data", "size": "3"})
    form = f"/server/do/attach-volume?item={server.uuid}"
    assert form in text(ana.get(f"/servers/{server.uuid}/volumes"))
    (volume,) = re.findall(r'<option value="([0-9a-f-]{36})"', text(ana.get(form)))
    answer = ana.post("/server/do/attach-volume", {"item": str(server.uuid), "volumeId": volume})
    assert answer["Location"] == f"/servers/{server.uuid}/volumes"
    assert WorkflowRun.objects.using("cell1").get().action == "attach_volume"
    assert "data" in text(ana.get(answer["Location"]))
    again = ana.post("/server/do/attach-volume", {"item": str(server.uuid), "volumeId": volume})
    assert again.status_code == 409
    assert WorkflowRun.objects.using("cell1").count() == 1


def test_metadata_and_tags_of_a_server_are_changed(ana: Client, people: Any) -> None:
    server = factories.instance(people.ana.context(), "web-0", metadata={"old": "1"})
    item = str(server.uuid)
    assert ana.post("/server/do/metadata", {"item": item, "metadata": "a = 1\nb=2"}).status_code == 302
    assert ana.post("/server/do/tags", {"item": item, "tags": "blue green"}).status_code == 302
    assert ana.post("/server/do/rename", {"item": item, "name": "db-0", "description": ""}).status_code == 302
    row = Instance.objects.using("cell1").get(uuid=server.uuid)
    assert (row.metadata, sorted(row.tags), row.name) == ({"a": "1", "b": "2"}, ["blue", "green"], "db-0")
    wrong = ana.post("/server/do/tags", {"item": item, "tags": "a/b"})
    assert wrong.status_code == 400
    assert 'value="a/b"' in text(wrong)


def test_readers_get_no_forms(ana: Client, people: Any) -> None:
    server = factories.instance(people.ana.context(), "web-0")
    rea = Client()
    rea.post("/sign-in", {"username": "rea", "password": PASSWORD})
    assert "/server/do/" not in text(rea.get(f"/servers/{server.uuid}/volumes"))
    assert "read-only" in text(rea.get(f"/servers/{server.uuid}/danger"))
    assert ["data-pick" in text(who.get("/servers")) for who in (ana, rea)] == [True, False]
    assert rea.post("/server/do/rename", {"item": str(server.uuid), "name": "x", "description": ""}).status_code == 403
    assert Instance.objects.using("cell1").get(uuid=server.uuid).name == "web-0"


def test_readers_cannot_launch_or_delete(ana: Client, people: Any) -> None:
    """Neither is offered anywhere, and the pages refuse what the API refuses."""
    server = factories.instance(people.ana.context(), "web-0")
    one = f"/servers/{server.uuid}"
    rea = Client()
    rea.post("/sign-in", {"username": "rea", "password": PASSWORD})
    for address, way in (
        ("/", "/servers/launch"),
        ("/servers", "/servers/launch"),
        ("/servers", "/servers/do/stop"),
        ("/workflows", "/servers/launch"),
        (one, "/servers/launch"),
        (one, "/servers/delete?"),
        (f"{one}/danger", "/servers/delete?"),
        ("/search?q=launch", "/servers/launch"),
    ):
        assert way in text(ana.get(address)), address
        assert way not in text(rea.get(address)), address
    for way in ("/servers/launch", f"/servers/delete?server={server.uuid}"):
        assert ana.get(way).status_code == 200
        assert rea.get(way).status_code == 403
        assert rea.post(way, {"name": "rea-1", "server": str(server.uuid)}).status_code == 403
    assert not BuildRequest.objects.exists()
    assert not WorkflowRun.objects.exists()


def test_a_long_list_costs_as_much_as_a_short_one(ana: Client, people: Any) -> None:
    factories.instance(people.ana.context(), "web-0")
    counts = []
    for _ in range(2):
        with Captured(connections["default"]) as api, Captured(connections["cell1"]) as cell:
            assert ana.get("/servers").status_code == 200
        counts.append((len(api), len(cell)))
        for number in range(8):
            factories.instance(people.ana.context(), f"more-{number}")
    assert counts[0] == counts[1]


def test_all_that_match_are_picked_at_once_and_refusals_tried_again(
    ana: Client, people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet(people)
    monkeypatch.setattr("portal.pages.server_queries.PAGE_SIZE", 2)
    assert 'name="everything"' in text(ana.get("/servers"))
    requested = text(ana.get("/servers/do/lock", {"everything": "1", "query": "name=web&sort=name:asc"}))
    assert requested.count('name="server"') == 3
    assert "Lock: 3 servers?" in requested
    monkeypatch.setattr("portal.pages.server_queries.MOST_BY_QUERY", 2)
    part = text(ana.get("/servers/do/lock", {"everything": "1", "query": "name=web&sort=name:asc"}))
    assert (part.count('name="server"'), "This page shows the first 2." in part) == (2, True)
    assert "Select servers first." in text(ana.get("/servers/do/lock?everything=1&query=name=nothing", follow=True))
    uuids = re.findall(r'name="server" value="([^"]+)"', requested)
    too_many = ana.post("/servers/do/lock", {"server": uuids}, follow=True)
    assert "Select at most 2 servers at a time." in text(too_many)
    assert not Instance.objects.using("cell1").exclude(locked_by="").exists()
    monkeypatch.setattr("portal.pages.server_queries.MOST_BY_QUERY", 500)
    locking.lock(people.admin.context(), uuids[1], None)
    done = text(ana.post("/servers/do/unlock", {"server": uuids}))
    assert "1 refused" in done
    assert re.findall(r'<input type="hidden" name="server" value="([^"]+)">', done) == [uuids[1]]


def test_a_page_has_as_many_rows_as_one_chooses(ana: Client, people: Any) -> None:
    fleet(people)
    page = text(ana.get("/servers?rows=200&name=web"))
    assert '<a class="segment" href="/servers?name=web&rows=200" aria-current="true">200</a>' in page
    assert '<input type="hidden" name="rows" value="200">' in page
    window = text(ana.get("/servers?rows=10000"))
    assert 'data-window="10000"' in window
    assert 'href="/servers?rows=10000" aria-current="true"' in window
    odd = text(ana.get("/servers?rows=100000"))
    assert 'href="/servers?rows=50" aria-current="true">50</a>' in odd


def test_the_resize_form_begins_without_a_size_and_refuses_the_servers_own(ana: Client, people: Any) -> None:
    flavors.seed()
    server = factories.instance(people.ana.context(), "web-0")
    item, own = str(server.uuid), server.flavor["flavor_id"]
    form = text(ana.get(f"/server/do/resize?item={item}"))
    assert '<option value="">Select a different flavor</option>' in form
    assert "selected" not in form[form.index("ask-flavor") : form.index("</select>", form.index("ask-flavor"))]
    for given, reported in (("", "Size is required."), (own, "must change flavor")):
        answer = ana.post("/server/do/resize", {"item": item, "flavor": given})
        assert (answer.status_code, reported in text(answer).partition('id="wrong-flavor">')[2][:80]) == (400, True)
