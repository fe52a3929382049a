"""Tables of every list with the query parameters that its reference documents, one YAML file for each API.

Keys of a file, or of one list in it:

- `path`, `as` (the caller; ana without it), `version`, `always` (parameters of every request)
- `row`: the id of an item of the scene (tests/api/rights/scene.py); `id`: where an item has its id, dots lead into it
- `find`: values of parameters that list the item
- `miss`: values that do not, where they do not follow from those of `find`; `never`: the same for other parameters
- `only_find`: parameters of `find` without a value that excludes the item
- `twice`: what a repeated parameter means, `any` of its values or the `last` one; except for `together` and `either`
- `paging`: the paging words of the list
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.api.rights.scene import NOTHING, filled

APIS = ("network", "load-balancer", "volume", "image", "identity", "compute", "placement")
OPPOSITES = {"true": "false", "false": "true", "True": "False", "False": "True"}
IDENTIFIER = re.compile(r"\A[0-9a-f-]{32,36}\Z")


@dataclass(frozen=True)
class ListRow:
    """One list: how it is asked for, and what each of its parameters does."""

    path: str
    row: str
    caller: str
    item_id: str
    version: str
    twice: str
    together: tuple[str, ...]
    either: tuple[str, ...]
    always: tuple[tuple[str, str], ...]
    paging: tuple[str, ...]
    find: Mapping[str, str] = field(default_factory=dict)
    miss: Mapping[str, str] = field(default_factory=dict)
    only_find: tuple[str, ...] = ()

    def listed_twice(self, name: str) -> tuple[bool, bool]:
        """Whether the item is listed for a missing and a matching value of a parameter, and the other way round."""
        if name in self.together:
            return False, False
        return (True, True) if self.twice == "any" or name in self.either else (True, False)

    def missing_values(self) -> Iterator[tuple[str, str]]:
        """Return each parameter with a value that no item has, or that is impossible."""
        yield from self.miss.items()
        for name, value in self.find.items():
            if name not in self.miss and name not in self.only_find:
                yield name, opposite(value)


def opposite(value: str) -> str:
    """Return a value of the same kind that no item of the scene has."""
    if value in OPPOSITES:
        return OPPOSITES[value]
    if IDENTIFIER.match(value):
        return NOTHING
    return "999999" if value.isdigit() else "no-such-value"


def lists_of(api: str, names: Mapping[str, str]) -> list[ListRow]:
    """Return the rows of one API, with the names of the scene filled in."""
    table = yaml.load((Path(__file__).parent / f"{api}.yaml").read_text(), yaml.CSafeLoader)
    return [_row(table | row, names) for row in table["lists"]]


def _row(given: Mapping[str, Any], names: Mapping[str, str]) -> ListRow:
    values: dict[str, dict[str, str]] = {
        name: filled(given.get(name) or {}, names) for name in ("find", "miss", "never")
    }
    return ListRow(
        path=filled(given["path"], names),
        row=filled(given["row"], names),
        caller=given.get("as", "ana"),
        item_id=given.get("id", "id"),
        version=given.get("version", ""),
        twice=given["twice"],
        together=tuple(given.get("together", ())),
        either=tuple(given.get("either", ())),
        always=tuple(filled(given.get("always") or {}, names).items()),
        paging=tuple(given.get("paging", ())),
        find=values["find"],
        miss=values["miss"] | values["never"],
        only_find=tuple(given.get("only_find", ())),
    )
