"""Options of resources: today `immutable`, which protects a project, domain or role from changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from conductor.core.errors import Forbidden


class HasOptions(Protocol):
    """A row with options."""

    id: Any
    options: Any


def merged(options: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options after a change: null removes one."""
    return {name: value for name, value in {**options, **given}.items() if value is not None}


def refuse_immutable(row: HasOptions, what: str, changes: Mapping[str, Any] | None = None) -> None:
    """Raise Forbidden for a change (None: the removal) of an immutable row; only its options may change."""
    is_release = changes is not None and changes.keys() <= {"options"}
    if row.options.get("immutable") and not is_release:
        verb = "delete" if changes is None else "update"
        raise Forbidden(
            f"Cannot {verb} immutable {what}: {row.id}. Set the option immutable to false first.", type="Immutable"
        )
