"""Filters and sort keys of instance lists, each for rows of a cell and for build requests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import CharField, F, Q, QuerySet, TextField, Value
from django.db.models.expressions import Combinable
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast, Coalesce, StrIndex, TruncSecond
from django.db.models.lookups import GreaterThan

from conductor.cell_db.models import Instance
from conductor.core.errors import Invalid
from conductor.core.identifiers import uuid_or_none
from conductor.core.states import STATUS, STATUS_BY_TASK, VmState
from conductor.services.servers import name_search
from conductor.services.servers.name_search import NamePattern
from conductor.services.servers.types import InstanceData, InstanceQuery

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOTHING = Q(pk__in=[])
LONGEST_ADDRESS = 45
ROOT_DEVICE_NAME = "/dev/vda"  # of every instance that is on a host
EQUAL = (
    "project_id",
    "user_id",
    "host",
    "node",
    "vm_state",
    "task_state",
    "power_state",
    "key_name",
    "availability_zone",
    "pinned_availability_zone",
    "reservation_id",
    "hostname",
    "is_locked",
    "locked_by",
    "config_drive",
    "description",
    "launch_index",
    "access_ip_v4",
    "access_ip_v6",
    "disk_config",
)
TIMES = ("created_at", "launched_at", "terminated_at")


@dataclass(frozen=True)
class ServerFilter:
    """A filter: `in_cell` restricts rows, to which `of_rows` has added texts. `fits` does the same for a view."""

    in_cell: Callable[[Any], Q]
    fits: Callable[[InstanceData, Any], bool]


def _has_address(part: str, characters: str) -> Q:
    """Return a regular expression around the caller's text, which may only contain characters of addresses."""
    if not 0 < len(part) <= LONGEST_ADDRESS or not set(part) <= set(characters):
        return NOTHING
    return Q(addresses_text__regex=f'"ip_address": "[{characters}]*{re.escape(part)}')


def _has_tags(tags: Sequence[str]) -> list[Q]:
    return [
        _has_text("tags_text", json.dumps(tag)) | _has_text("tags_text", json.dumps(tag, ensure_ascii=False))
        for tag in tags
    ]


def _has_text(column: str, text: str) -> Q:
    """Match a text in a JSON column: SQLite stores letters outside ASCII escaped, PostgreSQL plain."""
    return Q(GreaterThan(StrIndex(F(column), Value(text)), 0))


def _all_of(conditions: Sequence[Q]) -> Q:
    result = Q()
    for condition in conditions:
        result &= condition
    return result


def _any_of(conditions: Sequence[Q]) -> Q:
    result = NOTHING
    for condition in conditions:
        result |= condition
    return result


def _is_equal(name: str) -> ServerFilter:
    return ServerFilter(lambda value: Q(**{name: value}), lambda view, value: bool(getattr(view, name) == value))


def _is_at(name: str) -> ServerFilter:
    """Return a filter for a time; times have a resolution of one second."""
    second = timedelta(seconds=1)
    return ServerFilter(
        lambda time: Q(**{f"{name}__gte": time, f"{name}__lt": time + second}),
        lambda view, time: time <= (getattr(view, name) or EPOCH) < time + second,
    )


def _is_image_property(name: str) -> ServerFilter:
    return ServerFilter(
        lambda value: Q(**{f"image__properties__{name}": value}),
        lambda view, value: bool(view.image.properties.get(name) == value),
    )


def _is_uuid(text: Any) -> Q:
    wanted = uuid_or_none(text)
    return Q(uuid=wanted) if wanted else NOTHING


FILTERS: Mapping[str, ServerFilter] = {
    **{name: _is_equal(name) for name in EQUAL},
    **{name: _is_at(name) for name in TIMES},
    "uuid": ServerFilter(_is_uuid, lambda view, text: view.uuid == str(uuid_or_none(text))),
    "name": ServerFilter(
        lambda pattern: pattern.in_sql,  # and `name_patterns.narrow`, where that is not enough
        lambda view, pattern: pattern.is_found_in(view.name),
    ),
    "flavor_id": ServerFilter(lambda ref: Q(flavor__flavor_id=ref), lambda view, ref: view.flavor.flavor_id == ref),
    "image_id": ServerFilter(lambda ref: Q(image__image_id=ref), lambda view, ref: view.image.image_id == ref),
    "kernel_id": _is_image_property("kernel_id"),
    "ramdisk_id": _is_image_property("ramdisk_id"),
    "root_device_name": ServerFilter(
        lambda name: Q(host__isnull=False) if name == ROOT_DEVICE_NAME else NOTHING,
        lambda view, name: bool(view.host) and name == ROOT_DEVICE_NAME,
    ),
    # No progress is recorded: every instance has 0.
    "progress": ServerFilter(lambda percent: NOTHING if percent else Q(), lambda view, percent: not percent),
    "ip": ServerFilter(
        lambda part: _has_address(part, "0123456789."),
        lambda view, part: any("." in port["ip_address"] and part in port["ip_address"] for port in view.addresses),
    ),
    "ip6": ServerFilter(
        lambda part: _has_address(part.lower(), "0123456789abcdef:"),
        lambda view, part: any(":" in p["ip_address"] and part.lower() in p["ip_address"] for p in view.addresses),
    ),
    "tags": ServerFilter(lambda tags: _all_of(_has_tags(tags)), lambda view, tags: set(tags) <= set(view.tags)),
    "tags_any": ServerFilter(
        lambda tags: _any_of(_has_tags(tags)), lambda view, tags: bool(set(tags) & set(view.tags))
    ),
    "not_tags": ServerFilter(
        lambda tags: ~_all_of(_has_tags(tags)), lambda view, tags: not set(tags) <= set(view.tags)
    ),
    "not_tags_any": ServerFilter(
        lambda tags: ~_any_of(_has_tags(tags)), lambda view, tags: not set(tags) & set(view.tags)
    ),
}


@dataclass(frozen=True)
class SortKey:
    """Sort key, never null: a column or an expression of it, and the same value of a view."""

    column: str
    value: Callable[[InstanceData], Any]
    expression: Combinable | None = None


def _text(name: str) -> SortKey:
    never_null = Coalesce(F(name), Value(""), output_field=CharField())
    return SortKey(name, lambda view: getattr(view, name) or "", never_null)


def _within(column: str, *path: str) -> SortKey:
    """Return the sort key of a text in a JSON column, which views have as an object with mappings in it."""

    def value(view: InstanceData) -> str:
        found: Any = getattr(view, column)
        for part in path:
            found = found.get(part) if isinstance(found, Mapping) else getattr(found, part)
        return found or ""

    inner: Any = column
    for part in path[:-1]:
        inner = KeyTransform(part, inner)
    never_null = Coalesce(KeyTextTransform(path[-1], inner), Value(""), output_field=CharField())
    return SortKey(column, value, never_null)


def _number(name: str) -> SortKey:
    return SortKey(name, lambda view: int(getattr(view, name)))


def _time(name: str) -> SortKey:
    # To the second, as databases and callers write fractions in different ways.
    to_the_second = TruncSecond(Coalesce(F(name), Value(EPOCH)))
    return SortKey(name, lambda view: (getattr(view, name) or EPOCH).replace(microsecond=0), to_the_second)


SORT_KEYS: Mapping[str, SortKey] = {
    # An instance's build request and row have the same creation time: it is compared exactly, with an index.
    "created_at": SortKey("created_at", lambda view: view.created_at),
    "uuid": SortKey("uuid", lambda view: view.uuid),
    **{
        name: _text(name)
        for name in (
            "name",
            "vm_state",
            "task_state",
            "host",
            "node",
            "hostname",
            "key_name",
            "availability_zone",
            "project_id",
            "user_id",
            "description",
            "config_drive",
            "access_ip_v4",
            "access_ip_v6",
            "disk_config",
            "locked_by",
        )
    },
    "image_id": _within("image", "image_id"),
    "kernel_id": _within("image", "properties", "kernel_id"),
    "ramdisk_id": _within("image", "properties", "ramdisk_id"),
    "flavor_id": _within("flavor", "flavor_id"),
    **{name: _number(name) for name in ("power_state", "launch_index", "is_locked")},
    **{name: _time(name) for name in ("updated_at", "launched_at", "terminated_at")},
}


def checked(query: InstanceQuery) -> InstanceQuery:
    """Return the query with its name filter parsed. Raises Invalid naming an unknown or wrong filter or sort key."""
    for name in query.filters:
        if name not in FILTERS:
            raise Invalid(f"Servers cannot be filtered by {name}.", field=name)
    for name, _ in query.sort:
        if name not in SORT_KEYS:
            raise Invalid(f"Servers cannot be sorted by {name}.", field="sort_key")
    if "name" not in query.filters:
        return query
    filters = {**query.filters, "name": name_search.parse(query.filters["name"])}
    return InstanceQuery(**{**vars(query), "filters": filters})


def of_rows(rows: QuerySet[Instance], query: InstanceQuery) -> QuerySet[Instance]:
    """Return the rows of one cell that match the query; the caller sets order and page."""
    if "ip" in query.filters or "ip6" in query.filters:
        rows = rows.annotate(addresses_text=Cast("addresses", TextField()))
    if any("tags" in name for name in query.filters):
        rows = rows.annotate(tags_text=Cast("tags", TextField()))
    condition = _all_of([FILTERS[name].in_cell(value) for name, value in query.filters.items()])
    if query.statuses:
        condition &= _any_of([_has_status(status) for status in query.statuses])
    if query.changes_since:
        condition &= Q(updated_at__gte=query.changes_since)
    if query.changes_before:
        condition &= Q(updated_at__lte=query.changes_before)
    return rows.filter(condition & _is_there(query))


def pattern_beside_sql(query: InstanceQuery) -> NamePattern | None:
    """Return the name filter of a checked query, if `of_rows` matches more rows than the filter."""
    pattern: NamePattern | None = query.filters.get("name")
    return None if pattern is None or pattern.is_plain else pattern


def _is_there(query: InstanceQuery) -> Q:
    """Return the condition for deleted and soft-deleted instances."""
    is_soft = Q(vm_state=VmState.SOFT_DELETED)
    if query.is_deleted:
        is_gone = Q(deleted_at__isnull=False)
        return is_gone | is_soft if query.with_soft_deleted else is_gone
    if query.is_deleted is None and (query.changes_since or query.changes_before):
        return Q()
    is_alive = Q(deleted_at__isnull=True)
    return is_alive if query.with_soft_deleted else is_alive & ~is_soft


def fits(view: InstanceData, query: InstanceQuery) -> bool:
    """Whether a build request's view matches the query."""
    if query.is_deleted or (query.statuses and view.status not in query.statuses):
        return False
    if query.changes_since and view.updated_at < query.changes_since:
        return False
    if query.changes_before and view.updated_at > query.changes_before:
        return False
    return all(FILTERS[name].fits(view, value) for name, value in query.filters.items())


def is_plain(query: InstanceQuery) -> bool:
    """Whether a query only pages through all instances in the order of creation."""
    narrows = query.filters or query.statuses or query.changes_since or query.changes_before or query.is_deleted
    return not narrows and [name for name, _ in query.sort] == ["created_at"]


def in_order(views: Sequence[InstanceData], query: InstanceQuery) -> list[InstanceData]:
    """Return views of all sources in the order of the query, ties by uuid."""
    ordered = sorted(views, key=SORT_KEYS["uuid"].value)
    for name, is_descending in reversed(query.sort):  # sorting is stable
        ordered.sort(key=SORT_KEYS[name].value, reverse=is_descending)
    return ordered


def _has_status(status: str) -> Q:
    """Match a status, also for rows that show another one while a task is under way."""
    condition = Q(vm_state__in=[vm_state for vm_state, shown in STATUS.items() if shown == status])
    for vm_state, by_task in STATUS_BY_TASK.items():
        tasks = [task for task, shown in by_task.items() if shown == status]
        if tasks:
            condition |= Q(vm_state=vm_state, task_state__in=tasks)
    return condition
