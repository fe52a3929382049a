"""Every documented query parameter of every list filters the list or is refused; none is ignored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.api.lists.table import APIS, ListRow, lists_of
from tests.api.rights.scene import NOTHING, make_scene
from tests.api_client import ApiClient
from tests.people import People

REFUSED = (400, 404)
# Invalid values of the parameters for paging and sorting.
IMPOSSIBLE = {
    "limit": ("x", "-1"),
    "marker": (NOTHING,),
    "offset": ("x", "-1"),
    "sort": ("shoe_size:asc", "name:up"),
    "sort_key": ("shoe_size",),
    "sort_dir": ("up",),
    "page_reverse": ("perhaps",),
}


class Lister:
    """Requests one list of the table."""

    def __init__(self, people: People, row: ListRow) -> None:
        self.row = row
        self._client = ApiClient(people[row.caller].token())
        self._headers = {"OpenStack-API-Version": row.version} if row.version else {}

    def ask(self, *query: tuple[str, str]) -> Any:
        return self._client.get(f"{self.row.path}?{urlencode([*self.row.always, *query])}", headers=self._headers)

    def is_listed(self, *query: tuple[str, str]) -> bool | int:
        """Whether the item of the scene is in the list; the status of a refusal."""
        answer = self.ask(*query)
        if answer.status_code != 200:
            return int(answer.status_code)
        items = next(value for value in answer.json().values() if isinstance(value, list))
        return self.row.row in [_id_of(item, self.row.item_id.split(".")) for item in items]


def _id_of(item: Any, steps: Sequence[str]) -> str:
    for step in steps:
        item = item.get(step, {}) if isinstance(item, dict) else item
    return str(item)


def wrong_of(lister: Lister) -> Iterator[str]:
    """Yield the differences between a list and its row in the table."""
    if lister.is_listed() is not True:
        yield "the item is not listed without a filter"
    yield from _wrong_values(lister)
    yield from _wrong_pairs(lister)
    for name in lister.row.paging:
        for value in IMPOSSIBLE[name]:
            if (found := lister.is_listed((name, value))) not in REFUSED:
                yield f"{name}={value} is not refused: {found}"


def _wrong_values(lister: Lister) -> Iterator[str]:
    for name, value in lister.row.find.items():
        if (found := lister.is_listed((name, value))) is not True:
            yield f"{name}={value} does not list the item: {found}"
    for name, value in lister.row.missing_values():
        if (found := lister.is_listed((name, value))) not in (False, *REFUSED):
            yield f"{name}={value} lists the item: {found}"


def _wrong_pairs(lister: Lister) -> Iterator[str]:
    for name, value in lister.row.missing_values():
        if (known := lister.row.find.get(name)) is None:
            continue
        pairs = [((name, value), (name, known)), ((name, known), (name, value))]
        found = tuple(lister.is_listed(*pair) for pair in pairs)
        if found.count(True) + found.count(False) == len(found) and found != (wanted := lister.row.listed_twice(name)):
            yield f"{name} twice, {value} and {known}, is {found}, not {wanted}"


@pytest.mark.parametrize("api", APIS)
def test_no_documented_parameter_is_ignored(api: str, people: People, settings: Any, tmp_path: Path) -> None:
    settings.NOVELLA_DATA = tmp_path
    settings.NOVELLA_OVN_NORTHBOUND = "unix:/none.sock"  # load balancers are only created with OVN
    settings.NOVELLA_HOST_DOWN_SECONDS = 3600.0  # the hosts of the scene report once, and the test takes long
    names = make_scene(api, people)
    wrong = [f"{row.path}: {problem}" for row in lists_of(api, names) for problem in wrong_of(Lister(people, row))]
    assert not wrong, "\n".join(wrong)
