"""Lists with 500 rows on a page, and actions on 500 rows at once."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from conductor.api_db.models import KeyPair
from conductor.journal.models import AuditRecord
from portal.pages.page_lengths import LONG_PAGE
from tests import factories
from tests.fixtures.page_text import text
from tests.fleet import add_host
from tests.integration.page_clients import signed_in


@pytest.fixture(autouse=True)
def records(people: Any) -> None:
    """More than fit on a page, of everything that is listed here."""
    factories.cells()
    project_id = people.ana.project.pk
    AuditRecord.objects.bulk_create(
        AuditRecord(
            action="server.reboot", result="done", user_id="a", project_id=project_id, created_at=factories.ago(9)
        )
        for _ in range(120)
    )
    for number in range(60):
        add_host(f"sim-{number:02}")


@pytest.mark.parametrize(
    ("who", "path", "query", "default"),
    [
        ("admin", "/hosts", "q=sim", 50),
        ("admin", "/audit", "action=server.reboot", 100),
        ("ana", "/activity", "result=done", 50),
    ],
)
def test_a_list_is_lengthened_and_stays_narrowed(who: str, path: str, query: str, default: int) -> None:
    client, count = signed_in(who), 60 if path == "/hosts" else 120
    page = text(client.get(f"{path}?{query}"))
    assert (page.count("data-row>"), "Next page" in page) == (default, True)
    link = re.search(r'href="([^"]+)">500 per page<', page)
    assert link is not None
    assert query in link[1]
    page = text(client.get(unescape(link[1])))
    assert (page.count("data-row>"), "Next page" in page, f">{default} per page<" in page) == (count, False, True)
    assert '<input type="hidden" name="rows" value="500">' in page  # another filter keeps the length
    assert text(client.get(f"{path}?{query}&rows=1000000")).count("data-row>") == default


def test_all_that_match_are_deleted_with_an_answer_for_each(people: Any) -> None:
    now, user_id = factories.ago(0), people.ana.user.pk
    names = [f"key-{number:03}" for number in range(LONG_PAGE + 20)]
    KeyPair.objects.bulk_create(KeyPair(user_id=user_id, name=name, fingerprint=name, created_at=now) for name in names)
    client, action = signed_in("ana"), "/key-pairs/do/delete"
    assert "all matches, including other pages" in text(client.get("/key-pairs"))
    requested = text(client.get(action, {"everything": "1", "query": "rows=50&marker=key-100", "item": names[0]}))
    assert requested.count('<input type="hidden" name="item"') == LONG_PAGE
    done = text(client.post(action, {"item": [*names[:119], "moon"]}))
    assert ("Delete: 119 completed, 1 refused" in done, "It no longer exists." in done) == (True, True)
    assert KeyPair.objects.count() == LONG_PAGE + 20 - 119
    assert client.get(action, {"item": names}).status_code == 302  # too many
