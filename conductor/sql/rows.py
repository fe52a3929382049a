"""Single rows by hand: what the ORM would read and write by one column, without composing its query each time.

For the rows that every step of every run touches. Values pass through their fields both ways, as the ORM has them do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, Model
from django.db.models.functions import Now

from conductor.sql.dialect import NOW, Later, names, run, update

M = TypeVar("M", bound=Model)
Converters = tuple[Callable[..., Any], ...]


class Rows(Generic[M]):
    """Rows of one model, found by the value of one column; it is unique, except for `all`."""

    def __init__(self, model: type[M], key: str) -> None:
        self._model = model
        self._key = key
        self._converters: dict[str, tuple[tuple[Field[Any, Any], Converters], ...]] = {}

    def find(self, connection: BaseDatabaseWrapper, value: Any) -> M | None:
        """The row whose key has this value."""
        return next(iter(self.all(connection, value)), None)

    def all(self, connection: BaseDatabaseWrapper, value: Any) -> list[M]:
        """All rows whose key has this value, in no order."""
        found = run(connection, self._select, (self._as_param(connection, self._key, value),))
        return [self._as_object(connection, row) for row in found]

    def get(self, connection: BaseDatabaseWrapper, value: Any) -> M:
        """The same; raises the model's DoesNotExist."""
        row = self.find(connection, value)
        if row is None:
            raise self._model.DoesNotExist(  # type: ignore[attr-defined]
                f"{self._model.__name__} {value} does not exist."
            )
        return row

    def update(self, connection: BaseDatabaseWrapper, value: Any, **changes: Any) -> None:
        """Write these fields of the row; times may be `Later`, or what `database_now()` gives."""
        columns = [
            (str(self._field(name).column), self._as_param(connection, name, change))
            for name, change in changes.items()
        ]
        text, params = update(self._model._meta.db_table, columns, f"{self._key} = %s")
        run(connection, text, [*params, self._as_param(connection, self._key, value)])

    @cached_property
    def _names(self) -> list[str]:
        return [str(field.attname) for field in self._model._meta.concrete_fields]

    @cached_property
    def _select(self) -> str:
        meta = self._model._meta
        columns = names(field.column for field in meta.concrete_fields)
        return f"SELECT {columns} FROM {meta.db_table} WHERE {self._key} = %s"

    def _as_param(self, connection: BaseDatabaseWrapper, name: str, value: Any) -> Any:
        if isinstance(value, (Later, Now)):
            return NOW if isinstance(value, Now) else value
        return self._field(name).get_db_prep_save(value, connection)

    def _field(self, name: str) -> Field[Any, Any]:
        return cast("Field[Any, Any]", self._model._meta.get_field(name))

    def _as_object(self, connection: BaseDatabaseWrapper, row: Iterable[Any]) -> M:
        values = []
        for (field, converters), value in zip(self._fields(connection), row, strict=True):
            for convert in converters:
                value = convert(value, field.cached_col, connection)
            values.append(value)
        return self._model.from_db(connection.alias, self._names, values)

    def _fields(self, connection: BaseDatabaseWrapper) -> tuple[tuple[Field[Any, Any], Converters], ...]:
        """The model's fields, each with what makes a value of its column one of Python."""
        if connection.vendor not in self._converters:
            fields = self._model._meta.concrete_fields
            self._converters[connection.vendor] = tuple(
                (
                    field,
                    (
                        *connection.ops.get_db_converters(field.cached_col),
                        *field.cached_col.get_db_converters(connection),
                    ),
                )
                for field in fields
            )
        return self._converters[connection.vendor]
