"""The portal's pages, without a browser: visibility, refusals, and effects of forms."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test import Client

from conductor.api_db.models import BuildRequest, InstanceMapping
from conductor.journal.models import WorkflowRun
from conductor.services.servers import flavors
from tests import factories
from tests.counting import Captured
from tests.fleet import add_host
from tests.integration.page_clients import signed_in
from tests.people import PASSWORD


@pytest.fixture
def ana(people: Any) -> Client:
    factories.cells()
    return signed_in("ana")


@pytest.fixture
def wares(people: Any) -> dict[str, str]:
    """The data that the launch form needs: a flavor, an image and a network."""
    admin = people.admin.context()
    flavors.seed()
    image = factories.image("simulated-linux", admin, is_simulated=True)
    factories.image("kernel", admin, container_format="aki")
    network = factories.network("private", admin)
    return {"image": str(image.uuid), "flavor": "2", "network": str(network.uuid)}


NO_UUID = "00000000-0000-4000-8000-000000000000"
PAGES = ("/", "/servers", "/servers/launch", "/workflows", "/project")


@pytest.mark.parametrize("path", [*PAGES[:-1], "/hosts", f"/servers/{NO_UUID}", f"/workflows/{NO_UUID}/steps"])
def test_anonymous_users_are_sent_to_sign_in_and_back(databases: None, path: str) -> None:
    answer = Client().get(path)
    assert answer.status_code == 302
    assert answer["Location"] == f"/sign-in?next={path.replace('/', '%2F')}"


@pytest.mark.parametrize("path", PAGES)
def test_pages_hold_to_their_content_policy(ana: Client, path: str) -> None:
    answer = ana.get(path)
    assert answer.status_code == 200
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    html = answer.content.decode()
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:", html)
    assert not re.search(r"<script(?![^>]*\ssrc=)", html)
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", html)


def test_wrong_names_and_wrong_passwords_get_the_same_answer(people: Any) -> None:
    bodies = set()
    for name, password in (("ana", "wrong"), ("nobody", PASSWORD), ("", ""), ("an\x00a", PASSWORD)):
        answer = Client().post("/sign-in", {"username": name, "password": password})
        assert answer.status_code == 401
        text = re.sub(r'name="csrfmiddlewaretoken" value="[^"]*"', "", answer.content.decode())
        bodies.add(re.sub(r'value="[^"]*"| autofocus', "", text))
    assert len(bodies) == 1


@pytest.mark.parametrize("evil", ["//evil.test/x", "https://evil.test", "javascript:alert(1)", "/\\evil.test"])
def test_signing_in_redirects_to_pages_of_the_portal_only(people: Any, evil: str) -> None:
    answer = Client().post("/sign-in", {"username": "ana", "password": PASSWORD, "next": evil})
    assert answer["Location"] == "/"


def test_signing_in_redirects_to_the_requested_page(people: Any) -> None:
    answer = Client().post("/sign-in", {"username": "ana", "password": PASSWORD, "next": "/workflows?view=failed"})
    assert answer["Location"] == "/workflows?view=failed"


def test_a_form_without_its_token_is_refused(people: Any) -> None:
    answer = Client(enforce_csrf_checks=True).post("/sign-in", {"username": "ana", "password": PASSWORD})
    assert answer.status_code == 403
    assert "Form expired" in answer.content.decode()


def test_a_user_in_several_projects_chooses_one(people: Any) -> None:
    factories.user("ana", lab="reader")
    client = signed_in("ana")
    assert client.get("/servers").status_code == 302
    page = client.get("/project").content.decode()
    assert "shop" in page
    assert "lab" in page
    lab = factories.project("lab").pk
    assert client.post("/project", {"project_id": lab, "next": "/servers"})["Location"] == "/servers"
    assert "lab" in client.get("/servers").content.decode()
    assert client.post("/project", {"project_id": factories.project("admin").pk}).status_code == 404


def test_a_right_that_is_taken_away_is_gone_at_once(ana: Client, people: Any) -> None:
    people.ana.user.role_assignments.all().delete()
    assert ana.get("/servers").status_code == 302


def test_signing_out_ends_the_session(ana: Client) -> None:
    assert ana.get("/sign-out").status_code == 405
    assert ana.post("/sign-out").status_code == 302
    assert ana.get("/servers").status_code == 302


def test_the_theme_is_kept_with_the_person(ana: Client) -> None:
    assert 'data-theme="system"' in ana.get("/").content.decode()
    assert ana.post("/theme", {"theme": "dark"}).status_code == 302
    assert 'data-theme="dark"' in signed_in("ana").get("/").content.decode()
    assert ana.post("/theme", {"theme": "neon"}).status_code == 400
    assert 'data-theme="dark"' in ana.get("/").content.decode()


def test_resources_of_other_projects_are_not_found(ana: Client, people: Any) -> None:
    parent, child = factories.build(people.ana.context(), "secret-7")
    chi = signed_in("chi")
    paths = [f"/servers/{child.instance_uuid}{tab}" for tab in ("", "/console", "/activity")]
    paths += [f"/workflows/{run.uuid}{tab}" for run in (parent, child) for tab in ("", "/steps", "/events", "/locks")]
    paths += [f"/api/workflows/{child.uuid}", f"/api/workflows/{child.uuid}/events"]
    for path in paths:
        assert ana.get(path).status_code == 200, path
        assert chi.get(path).status_code == 404, path
    for path in ("/", "/servers", "/workflows", "/api/workflows"):
        assert b"secret-7" in ana.get(path).content
        assert b"secret-7" not in chi.get(path).content
    chi.post("/servers/delete", {"server": str(child.instance_uuid)})
    assert WorkflowRun.objects.using("cell1").filter(flow="delete_instance").count() == 0


def test_the_fleet_is_for_operators(ana: Client, people: Any) -> None:
    factories.host("sim-1")
    factories.host("sim-2", seen=3600)
    assert ana.get("/hosts").status_code == 404
    html = signed_in("admin").get("/hosts").content.decode()
    assert "2 hosts in 1 cell; 1 down; 2 simulated." in html
    assert html.count('<span class="tag">simulated</span>') == 2
    assert "down" in html


def test_a_large_fleet_comes_page_by_page_and_by_name(people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.pages.hosts.hosts.HOSTS_PER_PAGE", 2)
    factories.cells()
    for number in range(5):
        factories.host(f"rack-{number}", ("cell1", "cell2")[number % 2])
    admin = signed_in("admin")
    seen: list[str] = []
    url = "/hosts?q=ack"
    while url:
        html = admin.get(url).content.decode()
        seen += re.findall(r'<tr id="host-([^"]+)"', html)
        found = re.search(r'href="([^"]+)" rel="next"', html)
        url = unescape(found[1]) if found else ""
    assert sorted(seen) == [f"rack-{number}" for number in range(5)]
    assert "On this page: 1 host in 1 cell" in html
    assert "No hosts match this filter." in admin.get("/hosts?q=nothing").content.decode()
    assert admin.get("/hosts?marker=nobody").status_code == 404


@pytest.mark.parametrize("path", ["/nothing", "/servers/x", "/workflows/x", "/workflows?view=odd", "/servers/x/y"])
def test_an_unknown_address_shows_the_portals_404_page(ana: Client, path: str) -> None:
    answer = ana.get(path)
    assert answer.status_code == 404
    assert "Page not found" in answer.content.decode()
    assert answer["x-openstack-request-id"] in answer.content.decode()


def test_an_internal_error_shows_only_the_request_id_to_quote(ana: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("secret inner words")

    monkeypatch.setattr("conductor.services.workflows.lists.search", fail)
    ana.raise_request_exception = False
    answer = ana.get("/workflows?all=1")
    html = answer.content.decode()
    assert answer.status_code == 500
    assert "Something went wrong on our side" in html
    assert answer["x-openstack-request-id"] in html
    assert "secret" not in html
    assert 'href="/workflows?all=1">Retry' in html


def test_an_invalid_marker_is_reported_in_a_sentence(ana: Client) -> None:
    answer = ana.get("/workflows?marker=x")
    assert answer.status_code == 400
    assert "Marker x could not be found." in answer.content.decode()


def queries(client: Client, path: str) -> int:
    """Queries of a page that do not belong to the session. Every database counts."""
    client.get(path)
    captures = [Captured(connections[alias]) for alias in connections]
    for capture in captures:
        capture.__enter__()
    assert client.get(path).status_code == 200
    for capture in captures:
        capture.__exit__(None, None, None)
    return sum(len(capture) for capture in captures)


@pytest.mark.parametrize("path", ["/", "/servers", "/workflows"])
def test_pages_take_as_many_queries_for_many_rows_as_for_few(ana: Client, people: Any, path: str) -> None:
    caller = people.ana.context()
    factories.builds(caller, ["a-1", "a-2"])
    few = queries(ana, path)
    factories.builds(caller, [f"b-{number}" for number in range(20)])
    assert queries(ana, path) == few


def test_a_row_shows_what_is_under_way(ana: Client, people: Any) -> None:
    factories.build(people.ana.context(), "web-1")
    html = " ".join(ana.get("/servers").content.decode().split())
    assert "Spawn on host 3/4" in html
    assert '<span class="state-word">building</span>' in html


def test_the_filter_is_text_not_a_pattern(ana: Client, people: Any) -> None:
    for name in ("web.1", "webx1"):
        factories.instance(people.ana.context(), name)
    html = ana.get("/servers", {"name": "web.1"}).content.decode()
    assert "web.1</a>" in html
    assert "webx1" not in html
    assert "No servers match this filter." in ana.get("/servers", {"name": "(["}).content.decode()


def test_names_are_shown_as_text(ana: Client, people: Any) -> None:
    factories.instance(people.ana.context(), "<img src=x onerror=alert(1)>")
    html = ana.get("/servers").content.decode()
    assert "<img" not in html
    assert "&lt;img src=x" in html


def test_a_launch_redirects_to_its_workflow(ana: Client, wares: dict[str, str]) -> None:
    html = ana.get("/servers/launch").content.decode()
    assert "simulated-linux" in html
    assert "kernel" not in html
    once = re.search(r'name="once" value="([^"]+)"', html)[1]  # type: ignore[index]
    answer = ana.post("/servers/launch", {**wares, "name": "web", "count": "2", "once": once})
    assert answer["Location"] == f"/workflows/{once}"
    assert sorted(row.instance["name"] for row in BuildRequest.objects.all()) == ["web-1", "web-2"]
    assert ana.get(answer["Location"]).status_code == 200


def test_a_launch_that_fits_in_part_asks_first(ana: Client, wares: dict[str, str]) -> None:
    add_host("narrow", size=(8, 1024, 100))
    form = {**wares, "name": "web", "count": "5", "once": str(uuid4())}
    requested = ana.post("/servers/launch", form)
    html = requested.content.decode()
    assert requested.status_code == 409
    assert "Only 2 of 5 servers fit now" in html
    assert InstanceMapping.objects.count() == WorkflowRun.objects.count() == 0
    assert 'value="web"' in html
    assert ana.post("/servers/launch", {**form, "how": "2"})["Location"] == f"/workflows/{form['once']}"
    assert sorted(row.instance["name"] for row in BuildRequest.objects.all()) == ["web-1", "web-2"]


def test_a_launch_that_does_not_fit_continues_when_confirmed(ana: Client, wares: dict[str, str]) -> None:
    add_host("narrow", size=(8, 1024, 100))
    form = {**wares, "name": "web", "count": "5", "once": str(uuid4()), "how": "all"}
    assert ana.post("/servers/launch", form).status_code == 302
    assert InstanceMapping.objects.count() == 5


def test_a_form_that_is_sent_twice_launches_once(ana: Client, wares: dict[str, str]) -> None:
    form = {**wares, "name": "web", "count": "1", "once": str(uuid4())}
    places = {ana.post("/servers/launch", form)["Location"] for _ in range(3)}
    assert places == {f"/workflows/{form['once']}"}
    assert InstanceMapping.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"name": ""}, "name", "Enter a name for the server."),
        ({"name": "x" * 256}, "name", "at most 255 characters"),
        ({"count": "0"}, "count", "Enter a count from 1 to 100"),
        ({"count": "101"}, "count", "Enter a count from 1 to 100"),
        ({"count": "two"}, "count", "Enter a count from 1 to 100"),
        ({"image": ""}, "image", "Select an image."),
        ({"image": str(uuid4())}, "image", "Select an image."),
        ({"flavor": "99"}, "flavor", "Select a flavor."),
        ({"network": str(uuid4())}, "networks", "could not be found"),
        ({"zone": "moon"}, "zone", "moon"),
        ({"key": "nobodys"}, "key", "nobodys"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_launched(
    ana: Client, wares: dict[str, str], change: dict[str, str], field: str, words: str
) -> None:
    form = {"name": "web-1", "count": "1", **wares, **change}
    answer = ana.post("/servers/launch", form)
    html = answer.content.decode()
    assert answer.status_code == 400
    assert f'href="#field-{field}"' in html
    assert words in html
    assert BuildRequest.objects.count() == InstanceMapping.objects.count() == WorkflowRun.objects.count() == 0


def test_the_summary_shows_what_a_launch_takes(ana: Client, wares: dict[str, str]) -> None:
    html = ana.get("/servers/launch/summary", {**wares, "name": "we b", "count": "3"}).content.decode()
    assert "3 servers, each with 1 vCPU and 512 MB memory, from simulated-linux." in html
    assert "--min 3 --max 3" in html
    assert "&#x27;we b&#x27;" in html
    assert "Launch 3 servers" in html
    over = ana.get("/servers/launch/summary", {**wares, "flavor": "4", "count": "100"}).content.decode()
    assert "The launch will be refused" in over


def test_more_than_the_quota_is_refused_in_words(ana: Client, wares: dict[str, str]) -> None:
    answer = ana.post("/servers/launch", {**wares, "name": "big", "flavor": "4", "count": "100"})
    assert answer.status_code == 400
    assert "Quota exceeded" in answer.content.decode()
    assert InstanceMapping.objects.count() == 0


def test_deleting_asks_first_and_by_name(ana: Client, people: Any) -> None:
    one, other = (factories.instance(people.ana.context(), name) for name in ("web-1", "web-2"))
    requested = ana.get("/servers/delete", {"server": [str(one.uuid), str(other.uuid)]}).content.decode()
    assert "Delete 2 servers?" in requested
    assert WorkflowRun.objects.using("cell1").count() == 0
    answer = ana.post("/servers/delete", {"server": [str(one.uuid), str(other.uuid), str(uuid4())]})
    assert "3 completed" in answer.content.decode()
    assert "Already deleted." in answer.content.decode()
    assert WorkflowRun.objects.using("cell1").filter(flow="delete_instance").count() == 2


def test_our_api_answers_a_session_for_reading_only(ana: Client, people: Any) -> None:
    parent, _ = factories.build(people.ana.context(), "web-1")
    body = ana.get(f"/api/workflows/{parent.uuid}").json()["workflow"]
    assert [step["title"] for step in body["children"][0]["steps"]][2] == "Spawn on host"
    assert ana.post(f"/api/workflows/{parent.uuid}").status_code == 401
    assert Client().get(f"/api/workflows/{parent.uuid}").status_code == 401
    with_token = Client(headers={"X-Auth-Token": people.ana.token()})
    assert with_token.get(f"/api/workflows/{parent.uuid}").json()["workflow"]["uuid"] == str(parent.uuid)


def test_the_reference_of_our_api_stands_within_the_portal(ana: Client) -> None:
    assert '<a class="nav-link" href="/servers"' in ana.get("/api/docs").content.decode()
    assert 'href="/servers"' not in Client().get("/api/docs").content.decode()
    assert 'href="/api/docs"' in ana.get("/servers").content.decode()


def test_our_api_pages_and_filters(ana: Client, people: Any) -> None:
    for age in (3, 2, 1):
        factories.run(people.ana.context(), age=age)
    first = ana.get("/api/workflows?limit=2&state=running").json()
    assert len(first["workflows"]) == 2
    rest = ana.get(first["workflows_links"][0]["href"]).json()
    assert len(rest["workflows"]) == 1
    assert "workflows_links" not in rest
    assert ana.get("/api/workflows?state=odd").status_code == 400


def test_events_are_read_from_a_cursor(ana: Client, people: Any) -> None:
    run = factories.run(people.ana.context())
    factories.emit(run, "run.started")
    first = ana.get(f"/api/workflows/{run.uuid}/events").json()
    assert [event["kind"] for event in first["events"]] == ["run.started"]
    again = ana.get(f"/api/workflows/{run.uuid}/events", {"after": first["cursor"]}).json()
    assert again == {"events": [], "cursor": first["cursor"]}
    assert ana.get(f"/api/workflows/{run.uuid}/events", {"after": "default:x"}).status_code == 400
