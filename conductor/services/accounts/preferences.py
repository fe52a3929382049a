"""Portal preferences of users: time zone, language, density, announced state changes, columns and saved views."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo, available_timezones

from django.contrib.auth import get_user_model
from django.db.models import QuerySet

from conductor.api_db.models import SavedView
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.core.names import has_control
from conductor.core.phrases import phrase
from conductor.db.transactions import database_now, write_tx

DENSITIES = ("comfortable", "compact")
ANNOUNCED, MUTED = "announced", "muted"
STATE_CHANGES = (ANNOUNCED, MUTED)  # whether screen readers announce state changes
LANGUAGES = ("", "en", "de")  # empty: the language that the browser requests
UTC_NAME = "UTC"
CHANGEABLE = ("time_zone", "language", "density", "state_changes")
SERVER_COLUMNS = ("addresses", "flavor", "image", "key", "zone", "host", "age")
DEFAULT_COLUMNS = ("addresses", "flavor", "zone", "age")
MOST_VIEWS = 20
LONGEST_NAME = 60
LONGEST_QUERY = 500

Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Preferences:
    """A user's preferences. `views` are saved queries of the server list by name."""

    time_zone: str = UTC_NAME
    language: str = LANGUAGES[0]
    density: str = DENSITIES[0]
    state_changes: str = ANNOUNCED
    server_columns: tuple[str, ...] = DEFAULT_COLUMNS
    views: Mapping[str, str] = field(default_factory=dict)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.time_zone)


def read(kept: Mapping[str, Any] | None) -> Preferences:
    """Return preferences from their stored form. Values that are no longer known get their defaults."""
    given = kept or {}
    columns = [name for name in given.get("server_columns", DEFAULT_COLUMNS) if name in SERVER_COLUMNS]
    zone = given.get("time_zone", UTC_NAME)
    density = given.get("density", DENSITIES[0])
    language = given.get("language", LANGUAGES[0])
    state_changes = given.get("state_changes", ANNOUNCED)
    return Preferences(
        time_zone=zone if zone in time_zones() else UTC_NAME,
        language=language if language in LANGUAGES else LANGUAGES[0],
        density=density if density in DENSITIES else DENSITIES[0],
        state_changes=state_changes if state_changes in STATE_CHANGES else ANNOUNCED,
        server_columns=tuple(columns),
        views=dict(given.get("views", {})),
    )


def of(user_id: str) -> Preferences:
    """Return the preferences of a user."""
    return read(get_user_model().objects.filter(pk=user_id).values_list("preferences", flat=True).first())


def of_many(user_ids: Collection[str]) -> dict[str, Preferences]:
    """Return the preferences of users by id; an unknown user is left out."""
    rows = get_user_model().objects.filter(pk__in=user_ids).values_list("pk", "preferences")
    return {user_id: read(kept) for user_id, kept in rows}


def time_zones() -> list[str]:
    """Return the time zones that can be chosen."""
    return _ZONES


def change(user_id: str, values: Mapping[str, str]) -> Preferences:
    """Change the preferences that are in CHANGEABLE. Raises Invalid naming the field."""
    if values.get("time_zone", UTC_NAME) not in time_zones():
        raise Invalid(phrase("Select a time zone from the list."), field="time_zone")
    if values.get("density", DENSITIES[0]) not in DENSITIES:
        raise Invalid(phrase("Select a density: %(choices)s.", choices=", ".join(DENSITIES)), field="density")
    if values.get("state_changes", ANNOUNCED) not in STATE_CHANGES:
        raise Invalid(
            phrase("Select how to announce updates: %(choices)s.", choices=" or ".join(STATE_CHANGES)),
            field="state_changes",
        )
    if values.get("language", LANGUAGES[0]) not in LANGUAGES:
        raise Invalid(
            phrase("Select a language: %(choices)s.", choices=", ".join(filter(None, LANGUAGES))), field="language"
        )
    return _keep(user_id, {name: values[name] for name in CHANGEABLE if name in values})


def choose_columns(user_id: str, names: list[str]) -> Preferences:
    """Choose the columns of the server list. Raises Invalid for an unknown one."""
    unknown = [name for name in names if name not in SERVER_COLUMNS]
    if unknown:
        raise Invalid(phrase("There is no column %(name)s.", name=unknown[0][:LONGEST_NAME]), field="columns")
    return _keep(user_id, {"server_columns": [name for name in SERVER_COLUMNS if name in names]})


def save_view(user_id: str, name: str, query: str) -> Preferences:
    """Save a query of the server list under a name. A query of the same name is replaced. Raises Invalid."""
    name = name.strip()
    if not 1 <= len(name) <= LONGEST_NAME or has_control(name):
        raise Invalid(phrase("Enter a view name of 1 to %(longest)s characters.", longest=LONGEST_NAME), field="view")
    if len(query) > LONGEST_QUERY:
        raise Invalid(phrase("This filter is too long to save. Use fewer conditions."), field="view")

    def add(views: Mapping[str, str]) -> Mapping[str, Any]:
        if name not in views and len(views) >= MOST_VIEWS:
            raise Invalid(phrase("You already have %(most)s views. Delete one first.", most=MOST_VIEWS), field="view")
        return {**views, name: query}

    return _change_views(user_id, add)


def delete_view(user_id: str, name: str) -> Preferences:
    """Delete a saved view. Does nothing if there is none of this name."""
    return _change_views(user_id, lambda views: {key: query for key, query in views.items() if key != name})


def _change_views(user_id: str, change: Change) -> Preferences:
    return _changed(user_id, lambda kept: {"views": change(kept.get("views", {}))})


def _keep(user_id: str, values: Mapping[str, Any]) -> Preferences:
    return _changed(user_id, lambda kept: values)


def _changed(user_id: str, change: Change) -> Preferences:
    """Apply `change` to the stored preferences under the row's lock, so that concurrent writers lose no update."""
    people = get_user_model().objects
    with write_tx():
        kept = people.select_for_update().filter(pk=user_id).values_list("preferences", flat=True).first() or {}
        people.filter(pk=user_id).update(preferences={**kept, **change(kept)})
    return of(user_id)


_ZONES = sorted(name for name in available_timezones() if "/" in name and not name.startswith(("Etc/", "SystemV/")))
_ZONES.insert(0, UTC_NAME)


MOST = 30
LONGEST_VIEW_QUERY = 1000


@dataclass(frozen=True)
class SavedViewView:
    """A saved view. `query` goes behind the question mark of the list's address."""

    uuid: str
    name: str
    query: str


def list_of(context: RequestContext, page: str) -> list[SavedViewView]:
    """Return the caller's saved views of a page, by name."""
    return [SavedViewView(str(row.uuid), row.name, row.query) for row in _mine(context, page).order_by("name")]


def save(context: RequestContext, page: str, name: str, query: str) -> SavedViewView:
    """Save a view under a name. A view of the same name is replaced. Raises Invalid, or Conflict for too many views."""
    message = " ".join(name.split())
    if not message or len(message) > LONGEST_NAME or has_control(message):
        raise Invalid(phrase("Enter a name of 1 to %(longest)s characters.", longest=LONGEST_NAME), field="name")
    if len(query) > LONGEST_VIEW_QUERY:
        raise Invalid(
            phrase("query must have at most %(longest)s characters.", longest=LONGEST_VIEW_QUERY), field="query"
        )
    with write_tx():
        mine = _mine(context, page)
        if mine.exclude(name=message).count() >= MOST:
            raise Conflict(phrase("You already have %(most)s views. Delete one first.", most=MOST))
        row, _ = mine.update_or_create(
            page=page, user_id=context.user_id, project_id=context.project_id, name=message,
            defaults={"query": query}, create_defaults={"query": query, "created_at": database_now()},
        )  # fmt: skip
    return SavedViewView(str(row.uuid), row.name, row.query)


def delete(context: RequestContext, page: str, view_uuid: UUID | str) -> None:
    """Delete one of the caller's saved views. Raises NotFound."""
    known = uuid_or_none(str(view_uuid))
    with write_tx():
        gone, _ = _mine(context, page).filter(uuid=known).delete() if known else (0, {})
    if not gone:
        raise NotFound(phrase("There is no such view."))


def _mine(context: RequestContext, page: str) -> QuerySet[SavedView]:
    return SavedView.objects.filter(page=page, user_id=context.user_id, project_id=context.project_id)
