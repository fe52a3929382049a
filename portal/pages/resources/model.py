"""Model of a kind of resource, described as data. The shared pages render lists, details and actions from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.page import Page
from portal.pages.status_badges import StatusBadge

Item = Mapping[str, Any]
Values = Mapping[str, str]
Names = Mapping[str, Mapping[str, str]]  # by resource: id → name
Query = Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """The API request that does the same as a form; pages show it, and it names the entry in the audit log.

    `secrets` are names of values in the body that pages hide. `reason` goes to the audit log.
    """

    method: str
    path: str
    body: Any = None
    secrets: frozenset[str] = frozenset()
    reason: str = ""

    @property
    def body_text(self) -> str:
        """Return the body for display, without its secrets."""
        return "" if self.body is None else json.dumps(_without(self.body, self.secrets), indent=2, ensure_ascii=False)


def _without(body: Any, secrets: frozenset[str]) -> Any:
    if isinstance(body, Mapping):
        return {name: "…" if name in secrets and value else _without(value, secrets) for name, value in body.items()}
    return [_without(one, secrets) for one in body] if isinstance(body, list) else body


@dataclass(frozen=True)
class ActionResult:
    """The result of an action. `message` and `field` describe the error; both are empty on success."""

    status: int
    body: Any = field(default=None, repr=False)
    message: str = ""
    field: str = ""
    error: Exception | None = None

    @property
    def is_good(self) -> bool:
        return self.status < 400


@dataclass(frozen=True)
class ItemReader:
    """Reads resources of a kind through its service.

    `list_` takes a page's query by the names of the API's parameters. `get` returns one by its id; raises NotFound.
    """

    list_: Callable[[RequestContext, Query], Page[Item]]
    get: Callable[[RequestContext, str], Item]
    get_rule: str = ""  # if it is not that of the list


@dataclass(frozen=True)
class Cell:
    """The value of a cell; `kind` selects its format: text, word, mono, number, state, age, time, link or lines."""

    kind: str
    text: str = ""
    url: str = ""
    badge: StatusBadge | None = None
    moment: Any = None
    lines: tuple[Cell, ...] = ()


@dataclass(frozen=True)
class Column:
    """A column of the list and a line of the page. `sort` is the API's name of the order; empty for none."""

    title: str
    show: Callable[[Item, Names], Cell]
    is_number: bool = False
    sort: str = ""
    is_in_list: bool = True


@dataclass(frozen=True)
class FieldOption:
    """An option of a field."""

    value: str
    words: str


@dataclass(frozen=True)
class ItemOptions:
    """Options from a list of a service, read as by an `ItemReader`. `words` returns the name of each."""

    service: str
    rule: str
    list_: Callable[[RequestContext, Query], Page[Item]]
    words: Callable[[Item], str]
    value: Callable[[Item], str] = lambda item: str(item["id"])
    wanted: Callable[[Item], bool] = lambda item: True


@dataclass(frozen=True)
class Field:
    """A field of a form. `also` are other names by which the API's errors refer to it."""

    name: str
    label: str
    kind: str = "text"  # text, number, choice, area, check, secret, time, file
    help: str = ""
    is_required: bool = False
    start: str | Callable[[Item], str] = ""
    choices: Sequence[FieldOption] | ItemOptions | Callable[[Item], Sequence[FieldOption]] = ()
    nothing: str = ""  # label of the empty choice, if it is allowed
    also: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    fault: Callable[[str], str] = lambda typed: ""  # the error in the typed value, checked before the API is called

    def begins_as(self, item: Item) -> str:
        return self.start(item) if callable(self.start) else self.start


@dataclass(frozen=True)
class SubmittedForm:
    """A submitted form: its resource (empty for a creation), and its values.

    `body` is the body of the call, once it was checked.
    """

    item: Item
    values: Values
    user_id: str = ""
    file: Any = None
    body: Any = None


Execute = Callable[[RequestContext, SubmittedForm], Item | None]


@dataclass(frozen=True)
class FollowUp:
    """A further change after an action, with its own policy and audit record."""

    call: Call
    rule: str
    execute: Callable[[RequestContext], Item | None]
    service: str = ""  # the service of the policy, if it is not the action's


def never_refused(item: Item) -> str:
    return ""


@dataclass(frozen=True)
class ResourceAction:
    """An action: a form, the function of a service that carries it out, and the equivalent API call and command.

    `execute` returns the created or changed item, if there is one. The body of the call is checked by `schema` before,
    as the API checks it, unless the service does.
    `why_not` returns why the resource's state forbids it. `reveals` names values of the response that are shown only
    once. `then` is the next page: the list, or that of the created or changed resource.
    """

    id: str
    title: str
    does: str
    rule: str
    call: Callable[[SubmittedForm], Call]
    execute: Execute
    cli: Callable[[SubmittedForm], Sequence[str]]
    fields: tuple[Field, ...] = ()
    is_danger: bool = False
    is_creation: bool = False
    is_bulk: bool = False
    icon: str = ""
    why_not: Callable[[Item], str] = never_refused
    reveals: str = ""
    reveal_name: str = ""
    tab: str = ""  # of the page to return to
    flow: str = ""  # the workflow that it starts: until the state shows it, the action counts as requested
    guide: tuple[tuple[str, str], ...] = ()  # values that may be typed, with their meaning
    follow_ups: Callable[[SubmittedForm, Any], Iterable[FollowUp]] = lambda form, made: ()
    # fields for some callers or items only
    fields_for: Callable[[RequestContext, Sequence[Item]], tuple[Field, ...]] = lambda caller, items: ()
    service: str = ""  # the service of the policy, if it is not the resource's
    schema: Mapping[str, Any] | None = None
    refused_as: str = ""  # an action of servers: the name under which the audit log has its refusals

    def for_caller(self, caller: RequestContext, items: Sequence[Item]) -> ResourceAction:
        """Return the action with the fields for this caller and these items."""
        more = self.fields_for(caller, items)
        return replace(self, fields=(*self.fields, *more)) if more else self


@dataclass(frozen=True)
class RelatedTable:
    """A table on a resource's page with related resources. `query` is that of their list.

    `create` is the action that adds one. Its form begins with the resource in `create_field`, or with `create_values`;
    without values it is not offered.
    """

    title: str
    resource: str
    query: Callable[[Item], Mapping[str, str]]
    create: str = ""
    create_field: str = ""
    create_values: Callable[[Item], Mapping[str, str]] | None = None


@dataclass(frozen=True)
class RelatedRequest:
    """More about a resource, stored in the item under `name`: what `read` returns of its id."""

    name: str
    rule: str
    read: Callable[[RequestContext, str], Any]
    service: str = ""  # the service of the policy, if it is not the resource's


@dataclass(frozen=True)
class Resource:
    """A kind of resource. `one` is the name of a resource in the responses that the audit log reads."""

    id: str
    noun: str
    title: str
    icon: str
    service: str
    one: str
    empty: str
    rule: str
    reader: ItemReader
    columns: tuple[Column, ...]
    actions: tuple[ResourceAction, ...] = ()
    filters: tuple[Field, ...] = ()
    search: str = ""  # the API's filter by a part of the name; without it the page filters its own rows
    sorting: str = ""  # the API's form of an order: "sort" for sort=name:asc, "sort_key" for the pair
    parts: tuple[RelatedTable, ...] = ()
    names: tuple[str, ...] = ()  # the kinds whose names the columns show instead of ids
    id_of: Callable[[Item], str] = lambda item: str(item["id"])
    name_of: Callable[[Item], str] = lambda item: str(item.get("name") or "")
    is_paged: bool = True
    list_route: str = ""  # its own pages instead of the shared ones
    page_route: str = ""
    tool: tuple[str, str] = ("", "")  # an additional page beside the list: (route name, title)
    is_for_operators: bool = False  # other callers do not see the kind
    is_only_listed: bool = False  # the API has no request for one resource, only the list
    more: tuple[RelatedRequest, ...] = ()
    notice: Callable[[], str] = lambda: ""  # a notice above the list and on each page
    lock: str = ""  # the resource type of workflow locks: its page shows the workflow that holds one
    # The kind that it is a part of, and the item's field with the id: forms return there. Empty for none.
    whole: tuple[str, str] = ("", "")

    @property
    def creation(self) -> ResourceAction | None:
        return next((action for action in self.actions if action.is_creation), None)

    def action(self, action_id: str) -> ResourceAction | None:
        return next((action for action in self.actions if action.id == action_id), None)
