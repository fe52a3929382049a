"""Queries of pages of resources in the form of the services, and pages of their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from conductor.core.page import Page
from portal.pages.resources.model import Item, Query


def filters_of(query: Query, *names: str) -> dict[str, str]:
    """Return filters by name; `name~` matches a part, and is returned as `~` before the value."""
    found = {name: query[name] for name in names if name in query}
    return found | {name: f"~{query[f'{name}~']}" for name in names if f"{name}~" in query}


def page_of(query: Query) -> dict[str, Any]:
    """Return the fields of the page of a service's query, which reads one row more than is shown."""
    key, _, direction = query.get("sort", "").partition(":")
    order = {"sort": [(key, direction != "asc")]} if key else {}
    return {"limit": query["limit"] + 1, "marker": query.get("marker", ""), **order}


def page_items(rows: Sequence[Any], query: Query, item: Callable[[Any], Item]) -> Page[Item]:
    """Return a page of the rows that were read for it."""
    limit = query["limit"]
    return Page([item(row) for row in rows[:limit]], len(rows) > limit)
