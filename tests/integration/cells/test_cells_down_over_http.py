"""Unresponsive cells in the Compute API: answers contain the known fields, and no guesses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests import factories
from tests.compute_rows import Cloud, make_cloud, make_instance
from tests.fixtures.unresponsive_cells import silence
from tests.integration.page_clients import signed_in
from tests.people import People

pytestmark = pytest.mark.usefixtures("databases")
SERVERS = "/compute/v2.1/servers"
START = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def lost(people: People, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Two servers of an unresponsive cell, the newer ones, and one of another cell; yields the newest lost one."""
    cloud: Cloud = make_cloud(people)
    ana = cloud.people.ana.context()
    make_instance(ana, "cell1", "there", created_at=START)
    for number in (1, 2):
        row = make_instance(ana, "cell2", f"lost-{number}", created_at=START + timedelta(seconds=number))
    with monkeypatch.context() as patched:
        silence(patched, "cell2")
        yield str(row.uuid)


def ask(api_client: Any, path: str, version: str) -> Any:
    return api_client("ana").get(path, headers={"OpenStack-API-Version": f"compute {version}"})


def test_pages_before_partial_servers_hold_those_that_answer(api_client: Any, lost: str) -> None:
    old = ask(api_client, f"{SERVERS}?limit=1", "2.68").json()
    assert [server["name"] for server in old["servers"]] == ["there"]
    new = ask(api_client, f"{SERVERS}/detail?limit=1", "2.69").json()
    assert [(server["id"], server["status"]) for server in new["servers"]] == [(lost, "UNKNOWN")]
    assert "servers_links" in new


@pytest.mark.parametrize("path", ["/metadata", "/metadata/a", "/tags", "/ips"])
def test_attachments_of_an_unreadable_server_are_not_shown_as_empty(api_client: Any, lost: str, path: str) -> None:
    assert ask(api_client, f"{SERVERS}/{lost}", "2.104").json()["server"]["status"] == "UNKNOWN"
    answer = ask(api_client, f"{SERVERS}/{lost}{path}", "2.104")
    assert (answer.status_code, list(answer.json())) == (503, ["serviceUnavailable"])


def test_an_operator_may_want_whole_lists_or_none(api_client: Any, lost: str, settings: Any) -> None:
    settings.NOVELLA_LISTS_SKIP_UNRESPONSIVE_CELLS = False
    answer = ask(api_client, SERVERS, "2.68")
    assert answer.status_code == 503
    assert "cell2" in answer.json()["serviceUnavailable"]["message"]
    assert ask(api_client, f"{SERVERS}?name=there", "2.69").status_code == 503
    assert len(ask(api_client, SERVERS, "2.69").json()["servers"]) == 3


def test_the_reason_of_an_unreachable_cell_is_shown_to_operators_only(
    api_client: Any, people: People, lost: str
) -> None:
    parent = factories.run(people.ana.context(), state="done")
    for path, part in (("/api/workflows", None), (f"/api/workflows/{parent.uuid}", "workflow")):
        for name, why in (("ana", "did not answer"), ("admin", "DatabaseError: the cell is down")):
            body = api_client(name).get(path).json()
            assert (body[part] if part else body)["missing_cells"] == {"cell2": why}
    page = signed_in("ana").get(f"/workflows/{parent.uuid}").content.decode()
    assert "This workflow is incomplete" in page
    assert "unknown" in page


def test_the_page_of_a_server_in_an_unreachable_cell_shows_only_known_data(people: People, lost: str) -> None:
    page = signed_in("ana").get(f"/servers/{lost}").content.decode()
    for words in (f'<h1 class="break">{lost[:8]}</h1>', "cell2 doesn't respond", "Not available while"):
        assert words in page
    assert "has no network" not in page
