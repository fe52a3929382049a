"""What people want of the portal: time zone, language, dense rows, spoken changes, columns and views of servers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.contrib.auth import get_user_model

from conductor.core.errors import Invalid
from conductor.transactions import write_tx

DENSITIES = ("comfortable", "compact")
SPOKEN, MUTED = "spoken", "muted"
STATE_CHANGES = (SPOKEN, MUTED)  # whether screen readers are told of them
LANGUAGES = ("", "en", "de")  # empty: as the browser asks
UTC_NAME = "UTC"
CHANGEABLE = ("time_zone", "language", "density", "state_changes")
SERVER_COLUMNS = ("addresses", "flavor", "image", "key", "zone", "host", "age")
USUAL_COLUMNS = ("addresses", "flavor", "zone", "age")
MOST_VIEWS = 20
LONGEST_NAME = 60
LONGEST_QUERY = 500

Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Preferences:
    """A person's wishes; `views` are saved queries of the server list by name."""

    time_zone: str = UTC_NAME
    language: str = LANGUAGES[0]
    density: str = DENSITIES[0]
    state_changes: str = SPOKEN
    server_columns: tuple[str, ...] = USUAL_COLUMNS
    views: Mapping[str, str] = field(default_factory=dict)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.time_zone)


def read(kept: Mapping[str, Any] | None) -> Preferences:
    """The wishes as they are kept with a person; what is unknown by now counts as not said."""
    given = kept or {}
    columns = [name for name in given.get("server_columns", USUAL_COLUMNS) if name in SERVER_COLUMNS]
    zone = given.get("time_zone", UTC_NAME)
    density = given.get("density", DENSITIES[0])
    language = given.get("language", LANGUAGES[0])
    state_changes = given.get("state_changes", SPOKEN)
    return Preferences(
        time_zone=zone if zone in time_zones() else UTC_NAME,
        language=language if language in LANGUAGES else LANGUAGES[0],
        density=density if density in DENSITIES else DENSITIES[0],
        state_changes=state_changes if state_changes in STATE_CHANGES else SPOKEN,
        server_columns=tuple(columns),
        views=dict(given.get("views", {})),
    )


def of(user_id: str) -> Preferences:
    """A person's wishes."""
    return read(get_user_model().objects.filter(pk=user_id).values_list("preferences", flat=True).first())


def of_many(user_ids: Collection[str]) -> dict[str, Preferences]:
    """The wishes of people by id; whoever is not there has none."""
    rows = get_user_model().objects.filter(pk__in=user_ids).values_list("pk", "preferences")
    return {user_id: read(kept) for user_id, kept in rows}


def time_zones() -> list[str]:
    """The zones that can be chosen."""
    return _ZONES


def change(user_id: str, values: Mapping[str, str]) -> Preferences:
    """Change what CHANGEABLE names. Raises Invalid naming the field."""
    if values.get("time_zone", UTC_NAME) not in time_zones():
        raise Invalid("Choose a time zone of the list.", field="time_zone")
    if values.get("density", DENSITIES[0]) not in DENSITIES:
        raise Invalid(f"The density is one of {', '.join(DENSITIES)}.", field="density")
    if values.get("state_changes", SPOKEN) not in STATE_CHANGES:
        raise Invalid(f"State changes are {' or '.join(STATE_CHANGES)}.", field="state_changes")
    if values.get("language", LANGUAGES[0]) not in LANGUAGES:
        raise Invalid(f"The language is one of {', '.join(filter(None, LANGUAGES))}.", field="language")
    return _keep(user_id, {name: values[name] for name in CHANGEABLE if name in values})


def choose_columns(user_id: str, names: list[str]) -> Preferences:
    """Choose the columns of the server list. Raises Invalid for one that there is not."""
    unknown = [name for name in names if name not in SERVER_COLUMNS]
    if unknown:
        raise Invalid(f"There is no column {unknown[0][:LONGEST_NAME]}.", field="columns")
    return _keep(user_id, {"server_columns": [name for name in SERVER_COLUMNS if name in names]})


def save_view(user_id: str, name: str, query: str) -> Preferences:
    """Keep a query of the server list under a name; one of the same name is replaced. Raises Invalid."""
    name = name.strip()
    if not 1 <= len(name) <= LONGEST_NAME:
        raise Invalid(f"Give the view a name of 1 to {LONGEST_NAME} characters.", field="view")
    if len(query) > LONGEST_QUERY:
        raise Invalid("This filter is too long to be kept.", field="view")

    def add(views: Mapping[str, str]) -> Mapping[str, Any]:
        if name not in views and len(views) >= MOST_VIEWS:
            raise Invalid(f"There are {MOST_VIEWS} views already: delete one first.", field="view")
        return {**views, name: query}

    return _change_views(user_id, add)


def delete_view(user_id: str, name: str) -> Preferences:
    """Forget a view; one that is not there is forgotten already."""
    return _change_views(user_id, lambda views: {key: query for key, query in views.items() if key != name})


def _change_views(user_id: str, change: Change) -> Preferences:
    return _changed(user_id, lambda kept: {"views": change(kept.get("views", {}))})


def _keep(user_id: str, values: Mapping[str, Any]) -> Preferences:
    return _changed(user_id, lambda kept: values)


def _changed(user_id: str, change: Change) -> Preferences:
    """With what `change` makes of the wishes, which are read under the row's lock: of two writers none is lost."""
    people = get_user_model().objects
    with write_tx():
        kept = people.select_for_update().filter(pk=user_id).values_list("preferences", flat=True).first() or {}
        people.filter(pk=user_id).update(preferences={**kept, **change(kept)})
    return of(user_id)


_ZONES = sorted(name for name in available_timezones() if "/" in name and not name.startswith(("Etc/", "SystemV/")))
_ZONES.insert(0, UTC_NAME)
