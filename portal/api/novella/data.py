"""Serializers of responses: dataclasses of the services as JSON.

class LockSerializer(DataSerializer):
    class Meta:
        dataclass = LockView

LockSerializer(locks, many=True).data
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Union, get_args, get_origin, get_type_hints

from drf_spectacular.drainage import set_override
from rest_framework import serializers

from portal.api.novella.prototypes import prototype


class TimeField(serializers.DateTimeField):
    """A time with its offset from UTC, such as 2026-01-31T12:00:00.123000+00:00."""

    def to_representation(self, value: datetime) -> str:
        return value.isoformat()


class AmountField(serializers.Field[Any, Any, Any, Any]):
    """An amount of money as text, so that no digit is lost."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        set_override(self, "field", {"type": "string", "format": "decimal"})

    def to_representation(self, value: Decimal) -> str:
        return f"{value:f}"


class AnyField(serializers.JSONField):
    """A value of any kind, as it is."""


FIELDS: Mapping[Any, type[serializers.Field[Any, Any, Any, Any]]] = {
    str: serializers.CharField,
    bool: serializers.BooleanField,
    int: serializers.IntegerField,
    float: serializers.FloatField,
    datetime: TimeField,
    Decimal: AmountField,
    Any: AnyField,
    object: AnyField,
}
Field = serializers.Field[Any, Any, Any, Any]
AS_IT_IS = (serializers.CharField, serializers.BooleanField, serializers.IntegerField, serializers.FloatField, AnyField)
LISTS = (list, tuple, set, frozenset, Sequence, Collection)
Writer = Callable[["DataSerializer", Any], Any]


class DataSerializer(serializers.Serializer[Any]):
    """A dataclass as JSON.

    `Meta.dataclass` gives the fields by their annotations, without those in `Meta.exclude`. A declared field adds to
    them or replaces one; a method `represent_<field>` makes its value.
    """

    def get_fields(self) -> dict[str, Field]:
        declared: dict[str, Field] = super().get_fields()
        meta: Any = self.Meta  # type: ignore[attr-defined]
        hints = get_type_hints(meta.dataclass)
        names = [one.name for one in fields(meta.dataclass) if one.name not in getattr(meta, "exclude", ())]
        return {name: declared.pop(name) if name in declared else field_of(hints[name]) for name in names} | declared

    def to_representation(self, instance: Any) -> dict[str, Any]:
        body = {}
        for name, source, write in _writers(type(self)):
            value = getattr(instance, source) if source else instance
            body[name] = value if write is None or value is None else write(self, value)
        return body


def field_of(hint: Any) -> Field:
    """Return the field of an annotation; raises TypeError for an unsupported one."""
    kinds = [one for one in get_args(hint) if one is not type(None)]
    if get_origin(hint) in (Union, types.UnionType):
        if len(kinds) == 1:
            return _nullable(field_of(kinds[0]))
        return AnyField()
    if hint in FIELDS:
        return FIELDS[hint]()
    origin = get_origin(hint) or hint
    if origin in LISTS:
        child = field_of(kinds[0])
        return type(child)(many=True) if isinstance(child, DataSerializer) else serializers.ListField(child=child)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return serializers.DictField(child=field_of(kinds[1]))
    if isinstance(origin, type) and issubclass(origin, StrEnum):
        return serializers.ChoiceField([one.value for one in origin])
    if isinstance(origin, type) and is_dataclass(origin):
        return serializer_of(origin)()
    raise TypeError(f"no field for {hint!r}")


def _nullable(field: Field) -> Field:
    if not isinstance(field, AnyField):
        field.allow_null = True
    return field


@functools.cache
def serializer_of(kind: type) -> type[DataSerializer]:
    """Create the serializer of a dataclass that has none of its own."""
    text = " ".join((kind.__doc__ or "").strip().split("\n\n")[0].split())
    meta = type("Meta", (), {"dataclass": kind})
    name = kind.__name__.removesuffix("View").removesuffix("Data")
    return type(f"{name}Serializer", (DataSerializer,), {"Meta": meta, "__doc__": text})


@functools.cache
def _writers(kind: type[DataSerializer]) -> Sequence[tuple[str, str, Writer | None]]:
    """Return name, attribute and writer of each field; the attribute is empty where a method takes the whole object."""
    found: list[tuple[str, str, Writer | None]] = []
    for name, field in prototype(kind).fields.items():
        method = getattr(kind, f"represent_{name}", None)
        found.append((name, "", method) if method else (name, str(field.source), _writer(field)))
    return found


def _writer(field: Field) -> Writer | None:
    """Return the function that turns a value into JSON; None where it is JSON already."""
    if isinstance(field, AS_IT_IS):
        return None
    if isinstance(field, DataSerializer):
        kind = type(field)
        return lambda outer, value: kind(context=outer.context).to_representation(value)
    if isinstance(field, serializers.ListSerializer):
        one = _writer(field.child) if field.child else None
        return None if one is None else lambda outer, values: [one(outer, value) for value in values]
    if isinstance(field, serializers.ListField):
        each = _writer(field.child)
        return None if each is None else lambda outer, values: [each(outer, value) for value in values]
    if isinstance(field, serializers.DictField):
        inner = _writer(field.child)
        return None if inner is None else lambda outer, values: {key: inner(outer, one) for key, one in values.items()}
    represent = field.to_representation
    return lambda outer, value: represent(value)


class LinkSerializer(serializers.Serializer[Any]):
    """A link to a related resource."""

    rel = serializers.CharField()
    href = serializers.CharField()
    type = serializers.CharField(required=False)


class ResponseEnvelope(serializers.Serializer[Any]):
    """The object around a response's data. The OpenAPI document inlines it, without a name of its own."""


def envelope(**shown: Field | type[Field]) -> type[ResponseEnvelope]:
    """Return an envelope with these fields."""
    parts = {name: one() if isinstance(one, type) else one for name, one in shown.items()}
    return type("ResponseEnvelope", (ResponseEnvelope,), parts)


def page(name: str, row: type[serializers.Serializer[Any]] | None, **more: Field) -> type[ResponseEnvelope]:
    """Return the envelope of a paginated list: its rows, `more` fields, and a link to the next page.

    Without `row` the rows are part of another field.
    """
    rows = {name: row(many=True)} if row else {}
    return envelope(**rows, **more, **{f"{name}_links": LinkSerializer(many=True, required=False)})


def missing_cells() -> Field:
    """Return the field for the cells that did not answer, with the reason of each."""
    return serializers.DictField(child=serializers.CharField())


def strings() -> Field:
    """Return a field for an object whose values are strings."""
    return serializers.DictField(child=serializers.CharField())


def numbers() -> Field:
    """Return a field for an object whose values are whole numbers."""
    return serializers.DictField(child=serializers.IntegerField())


def objects() -> Field:
    """Return a field for a list of objects with any fields."""
    return serializers.ListField(child=serializers.DictField(child=AnyField()))
