"""Tags of networks, ports and other resources, and lists filtered by them.

A row stores its tags in one text with a separator around each, so that every database can match a tag exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.db.models import Q, Value
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.db.transactions import write_tx
from conductor.network.errors import InvalidInput, TagNotFound
from conductor.network.models import Tagged
from conductor.network.revisions import touch

SEPARATOR = "\x1f"
MAX_TAGS = 50


def packed(tags: Iterable[str]) -> str:
    """Return each tag once, sorted. Raises InvalidInput when they are too many."""
    each = sorted(set(tags))
    if len(each) > MAX_TAGS:
        raise InvalidInput(f"Invalid input for tags. At most {MAX_TAGS} tags are allowed.")
    return SEPARATOR + SEPARATOR.join(each) + SEPARATOR if each else ""


def unpacked(text: str) -> list[str]:
    return text.strip(SEPARATOR).split(SEPARATOR) if text else []


def replace(context: RequestContext, row: Tagged, tags: Sequence[str]) -> list[str]:
    """Replace the tags. Return the row's new tags."""
    return _change(context, row, lambda held: list(tags))


def add(context: RequestContext, row: Tagged, *added: str) -> list[str]:
    return _change(context, row, lambda held: [*held, *added])


def remove(context: RequestContext, row: Tagged, tag: str) -> None:
    """Remove a tag. Raises TagNotFound."""

    def without(held: list[str]) -> list[str]:
        _require(held, tag)
        return [other for other in held if other != tag]

    _change(context, row, without)


def require(row: Tagged, tag: str) -> None:
    """Raise TagNotFound when the row has no such tag."""
    _require(unpacked(row.tag_text), tag)


def has_all(values: Sequence[str]) -> Q:
    """Return the condition of `tags=red,blue`: rows with all of them."""
    condition = Q()
    for tag in _words(values):
        condition &= _has(tag)
    return condition


def has_any(values: Sequence[str]) -> Q:
    condition = Q(pk__in=[])
    for tag in _words(values):
        condition |= _has(tag)
    return condition


def has_not_all(values: Sequence[str]) -> Q:
    return ~has_all(values)


def has_none(values: Sequence[str]) -> Q:
    return ~has_any(values)


CONDITIONS: dict[str, Callable[[Sequence[str]], Q]] = {
    "tags": has_all,
    "tags-any": has_any,
    "not-tags": has_not_all,
    "not-tags-any": has_none,
}


def _has(tag: str) -> Q:
    wanted = Value(f"{SEPARATOR}{tag}{SEPARATOR}")
    return Q(GreaterThan(StrIndex("tag_text", wanted), 0))


def _words(values: Sequence[str]) -> list[str]:
    return [word for value in values for word in value.split(",") if word]


def _require(held: Sequence[str], tag: str) -> None:
    if tag not in held:
        raise TagNotFound(f"Tag {tag} could not be found.")


def _change(context: RequestContext, row: Any, change: Callable[[list[str]], list[str]]) -> list[str]:
    if not context.may_see_project(row.project_id):
        raise Forbidden("What belongs to another project cannot be tagged.", type="PolicyNotAuthorized")
    model = type(row)
    with write_tx():
        held = unpacked(model.objects.select_for_update().get(pk=row.pk).tag_text)
        wanted = packed(change(held))
        if wanted != packed(held):
            touch(model.objects.filter(pk=row.pk), tag_text=wanted)
    return unpacked(wanted)
