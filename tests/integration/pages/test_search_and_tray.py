"""The search over everything, and the tray and bell at the top of every page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from conductor.identity.models import User
from conductor.services.servers import queries
from conductor.services.workflows import lists
from portal.pages import search
from tests import factories
from tests.integration import page_clients
from tests.integration.page_clients import signed_in

SCRIPT = {"HX-Request": "true"}


@pytest.fixture
def ana(people: Any) -> Client:
    factories.cells()
    return signed_in("ana")


def text(answer: Any) -> str:
    assert answer.status_code == 200
    return page_clients.text(answer)


def find(client: Client, words: str) -> str:
    return text(client.get("/search", {"q": words}, headers=SCRIPT))


def test_servers_workflows_and_resources_are_found_by_a_part_of_the_name(ana: Client, people: Any) -> None:
    server = factories.instance(people.ana.context(), "web-front-1")
    run = factories.run(people.ana.context(), "cell1", instance_name="web-front-1")
    factories.network("web-net", people.ana.context())
    ana.post("/volumes/do/create", {"name": "web-data", "size": "1"})
    page = find(ana, "web")
    assert f'href="/servers/{server.uuid}"' in page
    assert f'href="/workflows/{run.uuid}"' in page
    for name in ("web-front-1", "web-net", "web-data"):
        assert name in page
    assert 'role="option"' in page
    assert 'role="option"' not in text(ana.get("/search", {"q": "web"}))  # the page has links, and no list box


def test_ids_are_found_as_a_whole(ana: Client, people: Any) -> None:
    server = factories.instance(people.ana.context(), "db-1")
    run = factories.run(people.ana.context(), "cell1", instance_name="db-1")
    assert f'href="/servers/{server.uuid}"' in find(ana, str(server.uuid))
    assert f'href="/workflows/{run.uuid}"' in find(ana, str(run.uuid).upper())


def test_nothing_of_another_project_is_found(ana: Client, people: Any) -> None:
    theirs = factories.instance(people.chi.context(), "secret-7")
    run = factories.run(people.chi.context(), "cell1", instance_name="secret-7")
    for words in ("secret", str(theirs.uuid), str(run.uuid)):
        assert f"No results for “{words}”" in find(ana, words)


def test_places_and_actions_are_offered_by_right(ana: Client, people: Any) -> None:
    everything = find(ana, "")
    assert 'href="/servers/launch"' in everything
    assert 'href="/volumes/do/create"' in everything
    assert "/hosts" not in everything
    assert 'href="/hosts"' in find(signed_in("admin"), "hos")
    assert 'href="/volumes/do/create"' not in find(signed_in("rea"), "")


def test_search_text_is_not_a_pattern(ana: Client, people: Any) -> None:
    factories.instance(people.ana.context(), "web-1")
    for words in (".*", "%", "<b>", "a\x00", "(", "x" * 5000):
        answer = ana.get("/search", {"q": words}, headers=SCRIPT)
        assert answer.status_code == 200
        assert b"web-1" not in answer.content
        assert b"<b>" not in answer.content


def test_kinds_that_were_not_searched_in_time_are_named(ana: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SECONDS", -1.0)
    page = find(ana, "web")
    assert "Not searched" in page
    assert 'href="/volumes?q=web"' in page


def test_a_cell_that_does_not_answer_is_named(ana: Client, people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    requested = queries.list_page

    def list_page(*args: Any, **more: Any) -> Any:
        return replace(requested(*args, **more), missing_cells={"cell2": "no route"})

    monkeypatch.setattr(queries, "list_page", list_page)
    page = ana.get("/search", {"q": "web"}).content.decode()
    assert "This list is incomplete" in page
    assert "cell2" in page


def test_hosts_are_found_by_operators_alone(ana: Client, people: Any) -> None:
    factories.host("rack-7-host")
    assert "rack-7-host" not in find(ana, "rack-7")
    assert 'href="/hosts#host-rack-7-host"' in find(signed_in("admin"), "rack-7")


def test_the_tray_shows_what_is_mine_and_runs(ana: Client, people: Any) -> None:
    mine = factories.run(people.ana.context(), "cell1", state="running", instance_name="web-1")
    factories.run(people.bo.context(), "cell1", state="running", instance_name="web-2")
    page = text(ana.get("/notifications", headers=SCRIPT))
    assert 'aria-label="1 of your workflows is running"' in page
    assert f'href="/workflows/{mine.uuid}"' in page
    assert "web-2" not in page


def test_the_bell_counts_what_has_ended_until_it_is_cleared(ana: Client, people: Any) -> None:
    caller = people.ana.context()
    done = factories.run(caller, "cell1", state="done", instance_name="web-1", finished_at=factories.ago(60))
    bad = factories.run(
        caller,
        state="failed (undone)",
        instance_name="web-2",
        finished_at=factories.ago(30),
        error={"message": "No room"},
    )
    factories.run(caller, "cell1", state="done", instance_name="ancient-9", finished_at=factories.ago(8 * 86400))
    page = text(ana.get("/notifications"))
    assert "web-1" in page
    assert "No room" in page
    assert "ancient-9" not in page
    assert 'aria-label="2 notifications"' in text(ana.get("/notifications", headers=SCRIPT))

    assert ana.post("/notifications/clear", {"run": str(done.uuid)}, headers=SCRIPT).status_code == 204
    page = text(ana.get("/notifications", headers=SCRIPT))
    assert 'aria-label="1 notification"' in page
    assert str(done.uuid) not in page
    assert str(bad.uuid) in page
    assert ana.post("/notifications/clear", {"next": "/notifications"}).headers["Location"] == "/notifications"
    assert 'aria-label="0 notifications"' in text(ana.get("/notifications", headers=SCRIPT))
    assert ana.get(f"/workflows/{bad.uuid}").status_code == 200  # cleared from the menu, not from the cloud


def test_clearing_nonsense_changes_nothing(ana: Client, people: Any) -> None:
    factories.run(people.ana.context(), "cell1", state="done", finished_at=factories.ago(60))
    assert ana.post("/notifications/clear", {"run": "no-such"}, headers=SCRIPT).status_code == 204
    assert lists.of(people.ana.context()).ended_count == 1
    assert ana.get("/notifications/clear").status_code == 405
    assert Client().post("/notifications/clear").status_code == 302


def test_clearing_keeps_the_other_requests(ana: Client, people: Any) -> None:
    User.objects.filter(pk=people.ana.user.pk).update(preferences={"density": "compact"})
    lists.clear(people.ana.context())
    assert User.objects.get(pk=people.ana.user.pk).preferences["density"] == "compact"


def test_workflows_started_by_this_browser_are_marked(ana: Client, people: Any) -> None:
    """Another browser of the same user shows no toast: it has started nothing."""
    caller = people.ana.context()
    answer = ana.post("/theme", {"theme": "dark"}, headers=SCRIPT)
    assert answer.status_code == 204
    ana.post("/servers/columns", {"column": "age", "query": ""})
    begun = ana.session["started"][-1]
    factories.run(replace(caller, request_id=begun), "cell1", state="done", finished_at=factories.ago(1))
    assert "data-started-here" in text(ana.get("/notifications", headers=SCRIPT))
    assert "data-started-here" not in text(signed_in("ana").get("/notifications", headers=SCRIPT))


def test_only_the_newest_requests_of_a_session_are_kept(ana: Client) -> None:
    for _ in range(25):
        ana.post("/servers/columns", {"column": "age", "query": ""})
    assert len(ana.session["started"]) == 20
