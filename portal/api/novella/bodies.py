"""Serializers of request bodies.

class SnoozeBody(BodySerializer):
    key = NameField(max_length=300)
    reason = ReasonField()

body = SnoozeBody.parse(request.data)  # raises Invalid: 400 with the field's path, what was sent and what it may be
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail
from rest_framework.settings import api_settings

from conductor.core.errors import Invalid
from conductor.core.messages import message, word
from portal.api.novella.prototypes import prototype
from portal.api.validation import listed, missing, path_text, sentence, unexpected

SHAPES: Sequence[tuple[type, str]] = (
    (serializers.CharField, "text"),
    (serializers.ChoiceField, "choice"),
    (serializers.IntegerField, "number"),
    (serializers.FloatField, "number"),
    (serializers.ListField, "list"),
    (serializers.DictField, "map"),
    (serializers.Serializer, "object"),
)
# Messages that say which values a field accepts, by the field's type and the code of DRF's error.
FIXES: Mapping[tuple[str, str], Callable[[Any], str]] = {
    ("text", "max_length"): lambda field: message("invalid.too_long", most=field.max_length),
    ("text", "min_length"): lambda field: message("invalid.too_short", least=field.min_length),
    ("choice", "invalid_choice"): lambda field: message("invalid.one_of", values=listed(field.choices)),
    ("number", "max_value"): lambda field: message("invalid.most", most=field.max_value),
    ("number", "min_value"): lambda field: message("invalid.least", least=field.min_value),
    ("list", "max_length"): lambda field: message("invalid.most_items", most=field.max_length),
    ("list", "min_length"): lambda field: message("invalid.fewest_items", least=field.min_length),
    ("map", "max_length"): lambda field: message("invalid.most_properties", most=field.most),
    ("map", "min_length"): lambda field: message("invalid.fewest_properties", least=field.least),
    ("object", "fewest"): lambda field: message("invalid.fewest_properties", least=1),
    ("object", "invalid"): lambda field: message("invalid.type", types=word("an object")),
}
SELF = api_settings.NON_FIELD_ERRORS_KEY


class BodySerializer(serializers.Serializer[Any]):
    """A request body, or an object in one; unknown fields are refused by name."""

    needs_a_field: ClassVar[bool] = False
    schema_rules: ClassVar[Mapping[str, Any]] = {}  # JSON schema keywords of this object besides its fields

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("error_messages", dict.fromkeys(("invalid", "null"), "It must be an object."))
        super().__init__(*args, **kwargs)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if isinstance(data, Mapping):
            unknown = sorted(set(data) - set(self.fields))
            if unknown:
                raise serializers.ValidationError({SELF: [ErrorDetail(unexpected(unknown), code="unexpected")]})
            if self.needs_a_field and not data:
                raise serializers.ValidationError({SELF: [ErrorDetail("", code="fewest")]})
        checked: dict[str, Any] = super().to_internal_value(data)
        return checked

    @classmethod
    def parse(cls, data: Any) -> dict[str, Any]:
        """Return the checked values of `data`; raises Invalid naming the first field that does not fit."""
        try:
            checked: dict[str, Any] = prototype(cls).run_validation(data)
        except serializers.ValidationError as refused:
            path, detail = min(_errors(refused.detail, ()), key=lambda one: len(one[0]))
            fix = fix_of(detail, _field_at(path, prototype(cls)), path, data)
            if detail.code == "required":
                path = path[:-1]
            raise Invalid(sentence(path, _at(path, data), fix), field=path_text(path)) from None
        return checked


def fix_of(detail: ErrorDetail, field: Any, path: Sequence[str | int], data: Any) -> str:
    """Return which values the field accepts: a message with its bounds, or the field's own message."""
    if detail.code == "unexpected":
        return unexpected(sorted(set(_at(path, data)) - set(field.fields)))
    if detail.code == "required":
        return missing(str(path[-1]))
    make = FIXES.get((_shape_of(field), detail.code or ""))
    return str(detail) if make is None or getattr(field, "own_words", False) else make(field)


def _shape_of(field: Any) -> str:
    return next((shape for kind, shape in SHAPES if isinstance(field, kind)), "")


def _field_at(path: Sequence[str | int], field: Any) -> Any:
    """Return the field at a path, below the serializer of a body."""
    for part in path:
        inner = (
            field.fields.get(str(part)) if isinstance(field, serializers.Serializer) else getattr(field, "child", None)
        )
        if inner is None:
            break
        field = inner
    return field


def _errors(detail: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], ErrorDetail]]:
    """Yield the path of each error, and the error."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            yield from _errors(inner, path if name == SELF else (*path, name))
        return
    for number, one in enumerate(detail):
        if not isinstance(one, ErrorDetail):
            yield from _errors(one, (*path, number))
        else:
            yield path, one


def _at(path: Sequence[str | int], data: Any) -> Any:
    """Return the value that was sent at a path."""
    for part in path:
        data = data[part] if isinstance(data, (dict, list)) else None  # type: ignore[index]  # a list has indexes
    return data


class EmptyBody(BodySerializer):
    """A body without fields; it may be left out."""
