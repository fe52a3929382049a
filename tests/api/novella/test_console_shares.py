"""Console shares over HTTP: shown once, listed for their owner, revoked; and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from conductor.api_db.models import ConsoleShare
from conductor.compute.console_relay import ConsoleRelay, RelayAddress
from conductor.journal.models import AuditRecord
from conductor.rpc.messages import ConsolesOffered
from conductor.services.consoles import connections
from tests import factories
from tests.integration.page_clients import signed_in, text

REQUEST = {"kind": "serial", "minutes": 15}


@pytest.fixture
def path(people: Any) -> Iterator[str]:
    """The path of ana's server, on a host with a console port that is not used here."""
    relay = ConsoleRelay(RelayAddress("127.0.0.1", 0, "127.0.0.1"), lambda *_: pytest.fail("the console is not opened"))
    relay.start()
    factories.cells()
    factories.host("host-1")
    assert relay.announcement is not None
    connections.record("cell1", ConsolesOffered(host="host-1", **asdict(relay.announcement)))
    server = factories.instance(people.ana.context(), "web-1", host="host-1", node="host-1")
    yield f"/api/servers/{server.uuid}/console-shares"
    relay.stop()


def test_a_console_share_is_shown_once_listed_and_revoked(path: str, api_client: Any) -> None:
    ana = api_client("ana")
    answer = ana.post(path, REQUEST)
    assert (answer.status_code, answer["Cache-Control"]) == (201, "no-store")
    made = answer.json()["console_share"]
    assert 800 < made["seconds_left"] <= 900
    page = text(signed_in("rea").get(urlsplit(made["url"]).path))
    assert "You are watching: your input isn't sent" in page
    assert signed_in("chi").get(urlsplit(made["url"]).path).status_code == 404, "another project's"
    token = made["url"].rpartition("/")[2]
    listed = ana.get(path)
    assert token not in listed.content.decode()
    (shown,) = listed.json()["console_shares"]
    assert (shown["uuid"], shown["kind"], shown["user_name"]) == (made["uuid"], "serial", "ana")
    assert len(api_client("admin").get(path).json()["console_shares"]) == 1
    assert api_client("bo").get(path).json()["console_shares"] == [], "who made it may end it, and operators"
    assert api_client("bo").delete(f"{path}/{made['uuid']}").status_code == 404
    assert ana.delete(f"{path}/{made['uuid']}").status_code == 204
    assert ana.delete(f"{path}/{made['uuid']}").status_code == 404
    assert signed_in("rea").get(urlsplit(made["url"]).path).status_code == 404
    done = AuditRecord.objects.exclude(action="session.sign_in").order_by("pk").values_list("action", flat=True)
    assert list(done) == ["server.share_console", "server.unshare_console"]
    assert token not in str(list(AuditRecord.objects.values()))


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"kind": "serial"}, "minutes"),
        ({"kind": "telepathy", "minutes": 15}, "kind"),
        ({"kind": "vnc", "minutes": 7}, "minutes"),
        ({**REQUEST, "colour": "red"}, "colour"),
    ],
)
def test_what_cannot_be_is_refused_by_name(path: str, api_client: Any, body: dict[str, Any], named: str) -> None:
    answer = api_client("ana").post(path, body)
    assert (answer.status_code, named in answer.json()["error"]["message"]) == (400, True)


def test_roles_that_may_share_consoles(path: str, api_client: Any) -> None:
    assert api_client("rea").post(path, REQUEST).status_code == 403
    assert api_client("chi").post(path, REQUEST).status_code == 404
    assert api_client("chi").get(path).status_code == 404
    assert api_client("ana").get(f"/api/servers/{uuid4()}/console-shares").status_code == 404
    assert not ConsoleShare.objects.exists()
