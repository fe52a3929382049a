"""Columns: small functions from an API's item to a cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from django.utils.translation import gettext

from portal.pages import amounts
from portal.pages.resources.model import Cell, Item, Names
from portal.pages.status_badges import StatusBadge

Show = Callable[[Item, Names], Cell]
NOTHING = Cell("text", "–")
SHOWN = {True: "yes", False: "no"}


def word(text: str) -> Cell:
    """Return a cell with one of our own words, which the page translates."""
    return Cell("word", text)


def state_word(item: Item, badges: Mapping[Any, StatusBadge]) -> str:
    """Return the state in the page's words, or as the API calls it."""
    badge = badges.get(item["status"])
    return badge.word if badge else str(item["status"])


def state_refusal(item: Item, badges: Mapping[Any, StatusBadge]) -> str:
    """Return why an action is not available in the resource's state."""
    return gettext("Not available in this state: %(state)s.") % {"state": gettext(state_word(item, badges))}


def text(name: str, *, words: Mapping[Any, str] | None = None) -> Show:
    """Show the value, or its word."""

    def show(item: Item, names: Names) -> Cell:
        value = item.get(name)
        if words is not None:
            return word(words[value]) if value in words else Cell("text", str(value))
        return Cell("text", str(value)) if value not in (None, "", [], {}) else NOTHING

    return show


def mono(name: str) -> Show:
    def show(item: Item, names: Names) -> Cell:
        value = item.get(name)
        return Cell("mono", str(value)) if value not in (None, "") else NOTHING

    return show


def number(name: str, unit: str = "") -> Show:
    def show(item: Item, names: Names) -> Cell:
        value = item.get(name)
        if value is None:
            return NOTHING
        words = amounts.whole(value) if isinstance(value, int) else str(value)
        return Cell("number", f"{words} {unit}".strip())

    return show


def size(name: str) -> Show:
    """Show bytes in the unit that is common for images."""

    def show(item: Item, names: Names) -> Cell:
        amount = item.get(name)
        if amount is None:
            return NOTHING
        return Cell("number", amounts.size(amount))

    return show


def age(name: str) -> Show:
    def show(item: Item, names: Names) -> Cell:
        moment = moment_of(item.get(name))
        return Cell("age", moment=moment) if moment else NOTHING

    return show


def time(name: str) -> Show:
    """Show a date with time, for times that may be in the future."""

    def show(item: Item, names: Names) -> Cell:
        moment = moment_of(item.get(name))
        return Cell("time", moment=moment) if moment else NOTHING

    return show


def state(badges: Mapping[Any, StatusBadge], name: str = "status") -> Show:
    def show(item: Item, names: Names) -> Cell:
        value = item.get(name)
        return Cell("state", badge=badges.get(value) or StatusBadge("none", str(value or "unknown").replace("_", " ")))

    return show


def link(name: str, resource: str) -> Show:
    """Show another resource by name, with a link to its page."""

    def show(item: Item, names: Names) -> Cell:
        ident = item.get(name)
        return link_to(str(ident), resource, names) if ident else NOTHING

    return show


def link_to(ident: str, resource: str, names: Names) -> Cell:
    if resource == "projects" and resource not in names:
        return Cell("mono", ident[:8])  # callers that cannot read the name cannot open the operators' page either
    known = names.get(resource, {}).get(ident)
    prefix = f"/{resource}/" if resource == "servers" else f"/{resource}/of/"
    return Cell("link", known or ident[:8], url=prefix + quote(ident, safe=""))


def links(name: str, resource: str) -> Show:
    """Show links to several of them."""

    def show(item: Item, names: Names) -> Cell:
        found = tuple(link_to(str(ident), resource, names) for ident in item.get(name) or ())
        return Cell("lines", lines=found) if found else NOTHING

    return show


def lines(name: str, show_one: Callable[[Any, Names], Cell]) -> Show:
    """Show each entry of a list on a line."""

    def show(item: Item, names: Names) -> Cell:
        found = tuple(show_one(one, names) for one in item.get(name) or ())
        return Cell("lines", lines=found) if found else NOTHING

    return show


def yes(name: str) -> Show:
    def show(item: Item, names: Names) -> Cell:
        return word(SHOWN[item.get(name) in (True, "true", "True")])

    return show


def pairs(name: str) -> Show:
    def show(item: Item, names: Names) -> Cell:
        found = tuple(Cell("mono", f"{key} = {value}") for key, value in sorted((item.get(name) or {}).items()))
        return Cell("lines", lines=found) if found else NOTHING

    return show


def moment_of(value: Any) -> datetime | None:
    """Parse a time in the format of any of the APIs."""
    if not value:
        return None
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
