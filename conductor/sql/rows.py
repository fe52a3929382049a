"""Single rows by hand: what the ORM would read and write by one column, without composing its query each time.

For the rows that every step of every run touches. Values pass through their fields both ways, as the ORM has them do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from typing import Any, Generic, TypeVar, cast

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import AutoField, Field, Model
from django.db.models.functions import Now

from conductor.sql.dialect import NOW, Later, names, run, update

M = TypeVar("M", bound=Model)
Converters = tuple[Callable[..., Any], ...]


class Rows(Generic[M]):
    """Rows of one model, found by the values of some columns, which are unique, except for `all`."""

    def __init__(self, model: type[M], *keys: str) -> None:
        self._model = model
        self._keys = keys
        self._converters: dict[str, tuple[tuple[Field[Any, Any], Converters], ...]] = {}

    def find(self, connection: BaseDatabaseWrapper, *values: Any) -> M | None:
        """The row whose keys have these values."""
        return next(iter(self.all(connection, *values)), None)

    def all(self, connection: BaseDatabaseWrapper, *values: Any) -> list[M]:
        """All rows whose keys have these values, in no order."""
        found = run(connection, self._select, self._as_keys(connection, values))
        return [self._as_object(connection, row) for row in found]

    def get(self, connection: BaseDatabaseWrapper, *values: Any) -> M:
        """The row; raises the model's DoesNotExist."""
        row = self.find(connection, *values)
        if row is None:
            raise self._model.DoesNotExist(  # type: ignore[attr-defined]
                f"{self._model.__name__} {', '.join(map(str, values))} does not exist."
            )
        return row

    def insert(self, connection: BaseDatabaseWrapper, made: M, *, unless: str = "") -> bool:
        """Insert a row as it was made; False when there is one already with its values of `unless`.

        `unless` names the columns of a constraint: nothing is undone when somebody was quicker, so no savepoint is due.
        """
        params = [self._as_param(connection, name, getattr(made, name)) for name in self._given]
        found = run(connection, self._inserts(unless), params)
        if found:
            ((made.pk,),) = found
            made._state.adding, made._state.db = False, connection.alias
        return bool(found)

    def update(self, connection: BaseDatabaseWrapper, value: Any, **changes: Any) -> None:
        """Write these fields of the row; times may be `Later`, or what `database_now()` gives."""
        columns = [
            (str(self._field(name).column), self._as_param(connection, name, change))
            for name, change in changes.items()
        ]
        text, params = update(self._model._meta.db_table, columns, self._where)
        run(connection, text, [*params, *self._as_keys(connection, (value,))])

    @cached_property
    def _names(self) -> list[str]:
        return [str(field.attname) for field in self._model._meta.concrete_fields]

    @cached_property
    def _select(self) -> str:
        meta = self._model._meta
        columns = names(field.column for field in meta.concrete_fields)
        return f"SELECT {columns} FROM {meta.db_table} WHERE {self._where}"

    @cached_property
    def _where(self) -> str:
        return " AND ".join(f'"{self._field(key).column}" = %s' for key in self._keys)

    @cached_property
    def _given(self) -> list[str]:
        """What a new row comes with: all but the number that the table gives it."""
        return [str(field.attname) for field in self._model._meta.concrete_fields if not isinstance(field, AutoField)]

    @cache  # noqa: B019 - rows live as long as their module
    def _inserts(self, unless: str) -> str:
        columns = names(self._field(name).column for name in self._given)
        places = ", ".join(["%s"] * len(self._given))
        end = f"ON CONFLICT ({unless}) DO NOTHING RETURNING id" if unless else "RETURNING id"
        return f"INSERT INTO {self._model._meta.db_table} ({columns}) VALUES ({places}) {end}"

    def _as_keys(self, connection: BaseDatabaseWrapper, values: Sequence[Any]) -> list[Any]:
        return [self._as_param(connection, key, value) for key, value in zip(self._keys, values, strict=True)]

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
