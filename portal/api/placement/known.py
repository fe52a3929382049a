"""Names that must exist before anything is looked for: a mistyped one would find nothing, and nobody would know why."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from conductor.core.errors import Invalid
from conductor.placement import resource_classes, traits


def refuse_unknown_traits(names: Iterable[str], key: str) -> None:
    """Raises Invalid naming the traits that do not exist, and the key that they stand in."""
    _refuse(traits.refuse_unknown, names, key)


def refuse_unknown_classes(names: Iterable[str], key: str) -> None:
    """Raises Invalid naming the resource classes that do not exist, and the key that they stand in."""
    _refuse(resource_classes.refuse_unknown, names, key)


def _refuse(refuse: Callable[[list[str]], None], names: Iterable[str], key: str) -> None:
    try:
        refuse(list(names))
    except Invalid as error:
        raise Invalid(f"{key}: {error.message}", field=key) from None
