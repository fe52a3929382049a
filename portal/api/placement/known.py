"""Checks that names exist before a search, because a mistyped name would find nothing without an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from conductor.core.errors import Invalid
from conductor.placement import resource_classes, traits


def refuse_unknown_traits(names: Iterable[str], key: str) -> None:
    """Raises Invalid naming the traits that do not exist, and the key that holds them."""
    _refuse(traits.refuse_unknown, names, key)


def refuse_unknown_classes(names: Iterable[str], key: str) -> None:
    """Raises Invalid naming the resource classes that do not exist, and the key that holds them."""
    _refuse(resource_classes.refuse_unknown, names, key)


def _refuse(refuse: Callable[[list[str]], None], names: Iterable[str], key: str) -> None:
    try:
        refuse(list(names))
    except Invalid as error:
        raise Invalid(f"{key}: {error.message}", field=key) from None
