"""Reads and writes of single rows by raw SQL, without the cost of composing an ORM query each time.

They are for the rows that every step of every run uses. Values are converted by their fields both ways, as the ORM
does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import AutoField, BooleanField, CharField, Field, IntegerField, Model, TextField
from django.db.models.base import ModelState
from django.db.models.functions import Now

from conductor.db.dialect import (
    NOW,
    SecondsFromNow,
    UnlessConstant,
    names,
    padded,
    places,
    run,
    run_each,
    run_many,
    update,
)

M = TypeVar("M", bound=Model)
Converters = tuple[Callable[..., Any], ...]
TOGETHER = 100  # rows in one statement: databases limit its parameters


def loaded(model: type[M], alias: str, values: Mapping[str, Any]) -> M:
    """Return the object that `from_db` would make, without setting single attributes. Omitted fields are deferred."""
    made = model.__new__(model)
    state = made._state = ModelState()
    state.adding, state.db = False, alias
    made.__dict__.update(values)
    return made


class Rows(Generic[M]):
    """Rows of one model, found by the values of some columns. These are unique, except for `all`.

    `end` is the end of the statements that find them: an order, or a limit.
    """

    def __init__(self, model: type[M], *keys: str, end: str = "") -> None:
        self._model = model
        self._keys = keys
        self._end = end
        self._converters: dict[str, tuple[tuple[str, Any, Converters], ...]] = {}

    def find(self, connection: BaseDatabaseWrapper, *values: Any) -> M | None:
        """Return the row whose keys have these values, if there is one."""
        return next(iter(self.all(connection, *values)), None)

    def all(self, connection: BaseDatabaseWrapper, *values: Any) -> list[M]:
        """Return all rows whose keys have these values, in no order."""
        found = run(connection, self._select, self._as_keys(connection, values))
        return [self._as_object(connection, row) for row in found]

    def among(self, connection: BaseDatabaseWrapper, values: Sequence[Any]) -> list[M]:
        """Return all rows whose only key has one of these values, in no order. For few values."""
        (key,) = self._keys
        requested = [self._as_param(connection, key, value) for value in padded(values)]
        found = run(connection, self._selects(len(requested)), requested) if requested else []
        return [self._as_object(connection, row) for row in found]

    def get(self, connection: BaseDatabaseWrapper, *values: Any) -> M:
        """Return the row. Raises the model's DoesNotExist."""
        row = self.find(connection, *values)
        if row is None:
            raise self._model.DoesNotExist(  # type: ignore[attr-defined]
                f"{self._model.__name__} {', '.join(map(str, values))} does not exist."
            )
        return row

    def insert(self, connection: BaseDatabaseWrapper, made: M, *, unless: str = "") -> bool:
        """Insert a row. False when there already is one with its values of `unless`.

        `unless` names the columns of a constraint. A conflict undoes nothing, so no savepoint is needed.
        """
        params = [self._as_param(connection, name, getattr(made, name)) for name in self._given]
        found = run(connection, self._inserts(unless), params)
        if found:
            ((made.pk,),) = found
            made._state.adding, made._state.db = False, connection.alias
        return bool(found)

    def insert_all(self, connection: BaseDatabaseWrapper, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert a row for each of these values by field, all of the same fields. Other fields get their default.

        It is for hundreds of rows, without the objects of `bulk_create`, and without a statement whose length grows
        with them.
        """
        if rows:
            head, one, params = self._many(connection, rows)
            run_many(connection, f"{head} VALUES {one}", params)

    def insert_together(self, connection: BaseDatabaseWrapper, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert as `insert_all` does, by one statement for each hundred rows: for few rows that come often."""
        for begin in range(0, len(rows), TOGETHER):
            head, one, params = self._many(connection, rows[begin : begin + TOGETHER])
            values = ", ".join([one] * len(params))
            run(connection, f"{head} VALUES {values}", [param for row in params for param in row])

    def _many(
        self, connection: BaseDatabaseWrapper, rows: Sequence[Mapping[str, Any]]
    ) -> tuple[str, str, list[list[Any]]]:
        """Return the head of an insert, the placeholders of one row, and the parameters of each."""
        fields = {name: self._field(name) for name in self._given}
        fields = {name: field for name, field in fields.items() if name in rows[0] or not field.has_db_default()}
        head = f"INSERT INTO {self._model._meta.db_table} ({names(field.column for field in fields.values())})"
        default = {name: field.get_default for name, field in fields.items() if name not in rows[0]}
        params = [
            [self._as_param(connection, name, default[name]() if name in default else row[name]) for name in fields]
            for row in rows
        ]
        return head, f"({places(fields)})", params

    def update(self, connection: BaseDatabaseWrapper, value: Any, **changes: Any) -> None:
        """Update these fields of the row; times may be `SecondsFromNow`, or the result of `database_now()`."""
        run(connection, *self._change(connection, value, changes))

    def update_each(self, connection: BaseDatabaseWrapper, changes: Mapping[Any, Mapping[str, Any]]) -> None:
        """Update rows by the values of their key, without composing one long statement."""
        run_each(connection, [self._change(connection, value, fields) for value, fields in changes.items()])

    def _change(self, connection: BaseDatabaseWrapper, value: Any, changes: Mapping[str, Any]) -> tuple[str, list[Any]]:
        columns = [
            (str(self._field(name).column), self._as_param(connection, name, change))
            for name, change in changes.items()
        ]
        text, params = update(self._model._meta.db_table, columns, self._where)
        return text, [*params, *self._as_keys(connection, (value,))]

    @cached_property
    def _names(self) -> list[str]:
        return [str(field.attname) for field in self._model._meta.concrete_fields]

    @cached_property
    def _select(self) -> str:
        meta = self._model._meta
        columns = names(field.column for field in meta.concrete_fields)
        return f"SELECT {columns} FROM {meta.db_table} WHERE {self._where} {self._end}".rstrip()

    @cache  # noqa: B019 - rows live as long as their module
    def _selects(self, count: int) -> str:
        return self._select.removesuffix("= %s") + f"IN ({', '.join(['%s'] * count)})"

    @cached_property
    def _where(self) -> str:
        return " AND ".join(f'"{self._field(key).column}" = %s' for key in self._keys)

    @cached_property
    def _given(self) -> list[str]:
        """Return the fields of a new row: all except the number that the table assigns."""
        return [str(field.attname) for field in self._model._meta.concrete_fields if not isinstance(field, AutoField)]

    @cache  # noqa: B019 - rows live as long as their module
    def _inserts(self, unless: str) -> str:
        columns = names(self._field(name).column for name in self._given)
        end = f"ON CONFLICT ({unless}) DO NOTHING RETURNING id" if unless else "RETURNING id"
        return f"INSERT INTO {self._model._meta.db_table} ({columns}) VALUES ({places(self._given)}) {end}"

    def _as_keys(self, connection: BaseDatabaseWrapper, values: Sequence[Any]) -> list[Any]:
        return [self._as_param(connection, key, value) for key, value in zip(self._keys, values, strict=True)]

    def _as_param(self, connection: BaseDatabaseWrapper, name: str, value: Any) -> Any:
        if isinstance(value, (SecondsFromNow, UnlessConstant, Now)):
            return NOW if isinstance(value, Now) else value
        if value is None or name in self._taken_as_they_are.get(type(value), ()):
            return value
        return value.hex if type(value) is UUID else self._field(name).get_db_prep_save(value, connection)

    @cached_property
    def _taken_as_they_are(self) -> dict[type[Any], frozenset[str]]:
        """Return, for types of values, the fields whose columns take them without conversion."""
        fields = self._model._meta.concrete_fields
        texts = frozenset(str(field.attname) for field in fields if type(field) in (CharField, TextField))
        numbers = frozenset(str(field.attname) for field in fields if isinstance(field, (IntegerField, BooleanField)))
        return {str: texts, int: numbers, bool: numbers}

    def _field(self, name: str) -> Field[Any, Any]:
        return cast("Field[Any, Any]", self._model._meta.get_field(name))

    def _as_object(self, connection: BaseDatabaseWrapper, row: Iterable[Any]) -> M:
        values = dict(zip(self._names, row, strict=True))
        for name, column, converters in self._converted(connection):
            if values[name] is not None:
                for convert in converters:
                    values[name] = convert(values[name], column, connection)
        return loaded(self._model, connection.alias, values)

    def _converted(self, connection: BaseDatabaseWrapper) -> tuple[tuple[str, Any, Converters], ...]:
        """Return the fields whose values differ from the column's, with the converters to Python."""
        if connection.vendor not in self._converters:
            found = []
            for field in self._model._meta.concrete_fields:
                column = field.cached_col
                converters = (*connection.ops.get_db_converters(column), *column.get_db_converters(connection))
                if converters:
                    found.append((str(field.attname), column, converters))
            self._converters[connection.vendor] = tuple(found)
        return self._converters[connection.vendor]
