"""What columns show: small functions from an API's item to a cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from portal.pages import amounts
from portal.pages.faces import Face
from portal.pages.resources.model import Cell, Item, Names

Show = Callable[[Item, Names], Cell]
NOTHING = Cell("text", "–")
SHOWN = {True: "yes", False: "no"}


def word(text: str) -> Cell:
    """One of our own words, which the page says in its language."""
    return Cell("word", text)


def state_word(item: Item, faces: Mapping[Any, Face]) -> str:
    """The state in the words of the page, or as the API calls it."""
    face = faces.get(item["status"])
    return face.word if face else str(item["status"])


def text(name: str, *, words: Mapping[Any, str] | None = None) -> Show:
    """The value as it is, or its word."""

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
    """Bytes in the unit that people use for images."""

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
    """A moment as a date with its time: for what may lie ahead."""

    def show(item: Item, names: Names) -> Cell:
        moment = moment_of(item.get(name))
        return Cell("time", moment=moment) if moment else NOTHING

    return show


def state(faces: Mapping[Any, Face], name: str = "status") -> Show:
    def show(item: Item, names: Names) -> Cell:
        value = item.get(name)
        return Cell("state", face=faces.get(value) or Face("none", str(value or "unknown").replace("_", " ")))

    return show


def link(name: str, resource: str) -> Show:
    """Another resource by its name, leading to its page."""

    def show(item: Item, names: Names) -> Cell:
        ident = item.get(name)
        return link_to(str(ident), resource, names) if ident else NOTHING

    return show


def link_to(ident: str, resource: str, names: Names) -> Cell:
    if resource == "projects" and resource not in names:
        return Cell("mono", ident[:8])  # a page for operators: whoever is not told the names would not find it
    known = names.get(resource, {}).get(ident)
    prefix = f"/{resource}/" if resource == "servers" else f"/{resource}/of/"
    return Cell("link", known or ident[:8], url=prefix + quote(ident, safe=""))


def links(name: str, resource: str) -> Show:
    """Several of them."""

    def show(item: Item, names: Names) -> Cell:
        found = tuple(link_to(str(ident), resource, names) for ident in item.get(name) or ())
        return Cell("lines", lines=found) if found else NOTHING

    return show


def lines(name: str, show_one: Callable[[Any, Names], Cell]) -> Show:
    """Each entry of a list on a line."""

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
    """A time as any of the APIs spells it."""
    if not value:
        return None
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
