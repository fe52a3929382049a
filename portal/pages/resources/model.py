"""How a kind of resource is described: once, as data. The shared pages draw all that there is to see and to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conductor.core.context import RequestContext
from portal.pages.api_calls import Call
from portal.pages.faces import Face

Item = Mapping[str, Any]
Values = Mapping[str, str]
Names = Mapping[str, Mapping[str, str]]  # by resource: id → name


@dataclass(frozen=True)
class Cell:
    """What one field of a row shows; `kind` picks how: text, word, mono, number, state, age, time, link or lines."""

    kind: str
    text: str = ""
    url: str = ""
    face: Face | None = None
    moment: Any = None
    lines: tuple[Cell, ...] = ()


@dataclass(frozen=True)
class Column:
    """A column of the list and a line of the page. `sort` is the API's name of the order; empty where it has none."""

    title: str
    show: Callable[[Item, Names], Cell]
    is_number: bool = False
    sort: str = ""
    is_in_list: bool = True


@dataclass(frozen=True)
class Choice:
    """One option of a field."""

    value: str
    words: str


@dataclass(frozen=True)
class Source:
    """Options that an API lists. `words` says what each is called; `wanted` leaves some out."""

    path: str
    key: str
    words: Callable[[Item], str]
    value: Callable[[Item], str] = lambda item: str(item["id"])
    wanted: Callable[[Item], bool] = lambda item: True
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Field:
    """One question of a form. `also` are other names by which an API complains about it."""

    name: str
    label: str
    kind: str = "text"  # text, number, choice, area, check, secret, time, file
    help: str = ""
    is_required: bool = False
    start: str | Callable[[Item], str] = ""
    choices: Sequence[Choice] | Source | Callable[[Item], Sequence[Choice]] = ()
    nothing: str = ""  # the words for choosing nothing, where that may be
    also: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    fault: Callable[[str], str] = lambda typed: ""  # what is wrong with what was typed, before the API is asked

    def begins_as(self, item: Item) -> str:
        return self.start(item) if callable(self.start) else self.start


@dataclass(frozen=True)
class Asked:
    """What a form was sent for: the resource that it is about (empty when one is made), and what was typed."""

    item: Item
    values: Values
    user_id: str = ""
    project_id: str = ""
    file: Any = None


def never_refused(item: Item) -> str:
    return ""


@dataclass(frozen=True)
class Deed:
    """Something to do: a form, the API call that it makes and the command that does the same.

    `why_not` tells in words what the resource's state forbids. `reveals` names what the answer tells this once.
    `then` is where to go: to the list, or to the page of what was made or changed.
    """

    id: str
    title: str
    does: str
    rule: str
    call: Callable[[Asked], Call]
    cli: Callable[[Asked], Sequence[str]]
    fields: tuple[Field, ...] = ()
    is_danger: bool = False
    is_creation: bool = False
    is_bulk: bool = False
    icon: str = ""
    why_not: Callable[[Item], str] = never_refused
    reveals: str = ""
    reveal_name: str = ""
    tab: str = ""  # of the page to which it leads back
    flow: str = ""  # the workflow that it begins: until that shows in the state, it was requested
    guide: tuple[tuple[str, str], ...] = ()  # what may be typed, with what it means
    also_calls: Callable[[Asked, Any], Iterable[Call]] = lambda asked, made: ()
    fields_for: Callable[[RequestContext, Sequence[Item]], tuple[Field, ...]] = lambda asker, items: ()  # of some only
    service: str = ""  # whose rule it is, where it is not the resource's

    def for_asker(self, asker: RequestContext, items: Sequence[Item]) -> Deed:
        """With the fields that only this person is asked, about these items."""
        more = self.fields_for(asker, items)
        return replace(self, fields=(*self.fields, *more)) if more else self


@dataclass(frozen=True)
class Part:
    """A table below a resource's page: what belongs to it. `filter` is the query that asks the list for it."""

    title: str
    resource: str
    query: Callable[[Item], Mapping[str, str]]
    create: str = ""
    create_field: str = ""


@dataclass(frozen=True)
class More:
    """What another request tells of one of them; it stands in the item under `name`. `{id}` in `path` is its id."""

    name: str
    path: str
    key: str
    rule: str
    service: str = ""  # whose rule it is, where it is not the resource's


@dataclass(frozen=True)
class Resource:
    """A kind of resource. `path` is its list; one of them stands at `path_of` or at the path with its id behind."""

    id: str
    noun: str
    title: str
    icon: str
    service: str
    path: str
    key: str
    one: str
    empty: str
    rule: str
    columns: tuple[Column, ...]
    deeds: tuple[Deed, ...] = ()
    filters: tuple[Field, ...] = ()
    search: str = ""  # the API's own filter by a part of the name; without one the page narrows what it was given
    sorting: str = ""  # how the API is asked for an order: "sort" for sort=name:asc, "sort_key" for the pair
    parts: tuple[Part, ...] = ()
    names: tuple[str, ...] = ()  # the resources whose names the columns show instead of ids
    query: Mapping[str, str] = field(default_factory=dict)
    id_of: Callable[[Item], str] = lambda item: str(item["id"])
    name_of: Callable[[Item], str] = lambda item: str(item.get("name") or "")
    unwrap: Callable[[Any], Any] = lambda item: item
    path_of: str = ""
    is_paged: bool = True
    is_whole: bool = False  # one of them is answered without a wrapping name
    docs: str = ""
    list_route: str = ""  # pages of their own in place of the shared ones
    page_route: str = ""
    tool: tuple[str, str] = ("", "")  # a page of its own beside the list: route name, words
    is_for_operators: bool = False  # to others there is no such kind
    is_only_listed: bool = False  # its API tells of one of them in the list alone
    more: tuple[More, ...] = ()
    notice: Callable[[], str] = lambda: ""  # what holds for all of them now, shown above the list and on each page
    lock: str = ""  # what workflows lock one of them as: its page then shows the one that is at work on it

    @property
    def creation(self) -> Deed | None:
        return next((deed for deed in self.deeds if deed.is_creation), None)

    def deed(self, deed_id: str) -> Deed | None:
        return next((deed for deed in self.deeds if deed.id == deed_id), None)
