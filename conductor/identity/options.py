"""Options of resources: today `immutable`, which holds a project, domain or role as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from conductor.core.errors import Forbidden


class HasOptions(Protocol):
    """A row with options."""

    id: Any
    options: Any


def merged(options: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Options as a change leaves them: null takes one away."""
    return {name: value for name, value in {**options, **given}.items() if value is not None}


def refuse_immutable(row: HasOptions, what: str, changes: Mapping[str, Any] | None = None) -> None:
    """Raises Forbidden for a change (None: the removal) of a row that is held; its options alone may change."""
    is_release = changes is not None and changes.keys() <= {"options"}
    if row.options.get("immutable") and not is_release:
        verb = "delete" if changes is None else "update"
        raise Forbidden(
            f"Cannot {verb} immutable {what}: {row.id}. Set the option immutable to false first.", type="Immutable"
        )
