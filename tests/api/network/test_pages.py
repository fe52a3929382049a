"""Pages of network lists, in both directions."""

from __future__ import annotations

from itertools import chain
from typing import Any
from urllib.parse import urlsplit

import pytest

GROUPS = "/network/v2.0/security-groups"
NAMES = ["a", "b", "c", "d", "default"]


@pytest.fixture
def ids(api_client: Any) -> dict[str, str]:
    """Ids of ana's groups by name."""
    ana = api_client("ana")
    for name in NAMES[:-1]:
        assert ana.post(GROUPS, {"security_group": {"name": name}}).status_code == 201
    return {group["name"]: group["id"] for group in ana.get(GROUPS).json()["security_groups"]}


def links(body: dict[str, Any]) -> dict[str, str]:
    return {link["rel"]: link["href"] for link in body.get("security_groups_links", [])}


def names(body: dict[str, Any]) -> list[str]:
    return [group["name"] for group in body["security_groups"]]


def test_the_page_before_a_marker_links_in_both_directions(ids: dict[str, str], api_client: Any) -> None:
    ana = api_client("ana")
    page = ana.get(f"{GROUPS}?sort_key=name&limit=1&marker={ids['c']}&page_reverse=True").json()
    assert (names(page), set(links(page))) == (["b"], {"next", "previous"})
    assert names(get(ana, links(page)["next"])) == ["c"]
    assert names(get(ana, links(page)["previous"])) == ["a"]


def get(client: Any, href: str) -> dict[str, Any]:
    address = urlsplit(href)
    body: dict[str, Any] = client.get(f"{address.path}?{address.query}").json()
    return body


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize(("reverse", "rel"), [("", "next"), ("&page_reverse=true", "previous")])
def test_paging_in_either_direction_returns_all_once(
    ids: dict[str, str], api_client: Any, limit: int, direction: str, reverse: str, rel: str
) -> None:
    ana, pages = api_client("ana"), []
    page = ana.get(f"{GROUPS}?sort_key=name&sort_dir={direction}&limit={limit}{reverse}").json()
    while True:
        pages.append(names(page))
        if rel not in links(page):
            break
        page = get(ana, links(page)[rel])
    whole = sorted(NAMES, reverse=direction == "desc")
    assert list(chain.from_iterable(pages if rel == "next" else pages[::-1])) == whole
    assert [len(names) for names in pages[:-1]] == [limit] * (len(pages) - 1)


def test_a_direction_that_is_neither_true_nor_false_is_named(ids: dict[str, str], api_client: Any) -> None:
    answer = api_client("ana").get(f"{GROUPS}?page_reverse=perhaps")
    assert (answer.status_code, "page_reverse" in answer.content.decode()) == (400, True)
