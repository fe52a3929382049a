"""Database router: cell tables are in the targeted cell, all other tables in the API database."""

from __future__ import annotations

from typing import Any

from django.db.models import Model

from conductor.cells.targeting import current_cell

API_ALIAS = "default"
CELL_LABELS = frozenset({"cell_db"})
EVERYWHERE_LABELS = frozenset({"journal"})


class CellRouter:
    """Routes by app label. A query on a cell's table without a target raises an error."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        return self._alias(model, hints)

    def db_for_write(self, model: type[Model], **hints: Any) -> str | None:
        return self._alias(model, hints)

    def _alias(self, model: type[Model], hints: dict[str, Any]) -> str | None:
        instance = hints.get("instance")
        if instance is not None and instance._state.db:
            return str(instance._state.db)
        label = model._meta.app_label
        if label in CELL_LABELS:
            return current_cell()
        if label in EVERYWHERE_LABELS:
            return current_cell(default=API_ALIAS)
        return API_ALIAS

    def allow_relation(self, first: Model, second: Model, **hints: Any) -> bool | None:
        return first._state.db == second._state.db

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        if app_label in EVERYWHERE_LABELS:
            return True
        return (db != API_ALIAS) == (app_label in CELL_LABELS)
