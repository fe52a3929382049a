"""Fields of request bodies: strict about JSON's types, with messages that list the accepted values.

Each message is the second half of a sentence of `portal.api.validation`. A field with a `message` of its own uses it
for all of its rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.core.validators import MaxLengthValidator, MinLengthValidator, RegexValidator
from drf_spectacular.drainage import set_override
from rest_framework import serializers
from rest_framework.fields import empty

from portal.api.schema_parts import BOOLEAN, NON_NEGATIVE_INTEGER, POSITIVE_INTEGER
from portal.api.validation import as_boolean, formats, listed

BOUNDS: dict[str, Any] = {
    "max_value": "It must be at most {max_value}.",
    "min_value": "It must be at least {min_value}.",
}
TOO_LONG = "It is too long: at most {max_length} characters are allowed."
TOO_SHORT = "It is too short: at least {min_length} characters are needed."


def described_as(field: serializers.Field[Any, Any, Any, Any], schema: Mapping[str, Any]) -> None:
    """Set the JSON schema of a field that drf-spectacular cannot derive; patterns end as in JavaScript."""
    shown = {name: value.replace(r"\Z", "$") if name == "pattern" else value for name, value in schema.items()}
    set_override(field, "field", shown)


def _messages(kinds: str, message: str, nullable: bool, *codes: str) -> dict[str, Any]:
    """Return the messages for all codes that mean a wrong type."""
    text = message or f"It must be {kinds}{' or null' if nullable else ''}."
    return dict.fromkeys((*codes, "null"), text)


class TextField(serializers.CharField):
    """A string, kept as it was sent."""

    def __init__(self, *, pattern: str = "", message: str = "", **kwargs: Any) -> None:
        texts: dict[str, Any] = {"max_length": message or TOO_LONG, "min_length": message or TOO_SHORT}
        kinds = _messages("a string", message, kwargs.get("allow_null", False), "invalid")
        super().__init__(trim_whitespace=False, error_messages=texts | kinds, **kwargs)
        self.own_words = bool(message)
        if pattern:
            self.validators.append(RegexValidator(pattern, message or f"It does not match {pattern}."))

    def run_validation(self, data: Any = empty) -> Any:
        return serializers.Field.run_validation(self, data)  # the rules decide whether it may be empty

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return str(data)


class NameField(TextField):
    """1 to 255 characters."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"min_length": 1, "max_length": 255, **kwargs})


class ReasonField(NameField):
    """A reason for the audit log."""

    def __init__(self, **kwargs: Any) -> None:
        text = "Say why, in at most 255 characters: it is kept in the audit log."
        super().__init__(pattern=r"\S", message=text, **kwargs)


class UuidField(TextField):
    """A UUID, with or without hyphens."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        described_as(self, {"type": "string", "format": "uuid"})

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        if not formats.conforms(text, "uuid"):
            raise serializers.ValidationError("It is not a valid uuid.", code="format")
        return text


def _is_whole(value: Any) -> bool:
    """Whether JSON calls a value an integer; 2.0 is one."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())


class IntegerField(serializers.IntegerField):
    """A whole number, written as a number."""

    def __init__(self, **kwargs: Any) -> None:
        kinds = _messages("an integer", "", kwargs.get("allow_null", False), "invalid")
        super().__init__(error_messages=BOUNDS | kinds, **kwargs)

    def to_internal_value(self, data: Any) -> int:
        if not _is_whole(data):
            self.fail("invalid")
        return int(data)


class CountField(serializers.IntegerField):
    """A whole number from 0 or 1 on; it may be sent as text."""

    def __init__(self, *, min_value: int = 0, **kwargs: Any) -> None:
        codes = ("invalid", "null", "max_string_length")
        kinds: dict[str, Any] = dict.fromkeys(codes, "It must be an integer or a string.")
        super().__init__(min_value=min_value, max_value=2**31 - 1, error_messages=BOUNDS | kinds, **kwargs)
        described_as(self, POSITIVE_INTEGER if min_value else NON_NEGATIVE_INTEGER)

    def to_internal_value(self, data: Any) -> int:
        is_digits = isinstance(data, str) and data.isascii() and data.isdigit() and len(data) <= 10
        if not (is_digits or _is_whole(data)):
            self.fail("invalid")
        return int(data)


class NumberField(serializers.FloatField):
    """A number; `above` is a limit that it may not be."""

    def __init__(self, *, above: float | None = None, message: str = "", **kwargs: Any) -> None:
        bounds = dict.fromkeys(BOUNDS, message) if message else BOUNDS
        kinds = _messages("a number", message, kwargs.get("allow_null", False), "invalid")
        super().__init__(error_messages=bounds | kinds, **kwargs)
        self.above, self.own_words = above, bool(message) or above is not None
        if above is not None:
            described_as(self, {"type": "number", "exclusiveMinimum": above, "maximum": self.max_value})

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, (int, float)):
            self.fail("invalid")
        if self.above is not None and data <= self.above:
            self.fail("min_value", min_value=self.above)
        return data


class FlagField(serializers.BooleanField):
    """True or false, in JSON's own spelling."""

    def __init__(self, **kwargs: Any) -> None:
        kinds = _messages("a boolean", "", kwargs.get("allow_null", False), "invalid")
        super().__init__(error_messages=kinds, **kwargs)

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid")
        return bool(data)


class LooseFlagField(serializers.BooleanField):
    """True or false, also in the words of older clients."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(error_messages=dict.fromkeys(("invalid", "null"), str(BOOLEAN["x-fix"])), **kwargs)
        described_as(self, BOOLEAN)

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, (bool, str)) or data not in BOOLEAN["enum"]:
            self.fail("invalid")
        return as_boolean(data, self.field_name or "")


class ChoiceField(serializers.ChoiceField):
    """One of some values, of their own type."""

    def __init__(self, choices: Collection[Any], **kwargs: Any) -> None:
        text = f"It must be one of {listed(choices)}."
        super().__init__(list(choices), error_messages=dict.fromkeys(("invalid_choice", "null"), text), **kwargs)

    def to_internal_value(self, data: Any) -> Any:
        known = next((one for one in self.choices if one == data and type(one) is type(data)), None)
        if known is None:
            self.fail("invalid_choice", input=data)
        return known


class ListField(serializers.ListField):
    """A list of values of one kind."""

    def __init__(self, child: serializers.Field[Any, Any, Any, Any], **kwargs: Any) -> None:
        sizes: dict[str, Any] = {
            "min_length": "At least {min_length} items are needed.",
            "max_length": "At most {max_length} items are allowed.",
        }
        kinds = _messages("a list", "", kwargs.get("allow_null", False), "not_a_list")
        super().__init__(child=child, error_messages=sizes | kinds, **kwargs)


class MapField(serializers.DictField):
    """An object whose names the caller chooses; `child` is None where its values are of any kind.

    Args:
        most, least: how many names there may be.
        longest_name: how many characters a name may have; None where the child's values decide.
    """

    def __init__(
        self,
        child: serializers.Field[Any, Any, Any, Any] | None = None,
        *,
        most: int,
        least: int = 0,
        longest_name: int | None = None,
        **kwargs: Any,
    ) -> None:
        kinds = _messages("an object", "", kwargs.get("allow_null", False), "not_a_dict")
        more: dict[str, Any] = {"child": child} if child else {}
        super().__init__(error_messages=kinds, **more, **kwargs)
        self.validators.append(MaxLengthValidator(most, f"At most {most} properties are allowed."))
        if least:
            self.validators.append(MinLengthValidator(least, f"At least {least} properties are needed."))
        self.most, self.least, self.longest_name = most, least, longest_name

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if (
            self.longest_name
            and isinstance(data, Mapping)
            and not all(1 <= len(one) <= self.longest_name for one in data)
        ):
            raise serializers.ValidationError(f"Its names have 1 to {self.longest_name} characters.")
        checked: dict[str, Any] = super().to_internal_value(data)
        return checked


class WordsField(serializers.Field[Any, Any, Any, Any]):
    """One string, or a list of them: always read as a list."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            error_messages=dict.fromkeys(("invalid", "null"), "It has none of the allowed forms."), **kwargs
        )
        text = {"type": "string", "minLength": 1, "maxLength": 255}
        described_as(self, {"anyOf": [text, {"type": "array", "items": text, "maxItems": 1000}]})

    def to_internal_value(self, data: Any) -> Sequence[str]:
        words = [data] if isinstance(data, str) else data
        if not isinstance(words, list) or len(words) > 1000:
            self.fail("invalid")
        if not all(isinstance(one, str) and 1 <= len(one) <= 255 for one in words):
            self.fail("invalid")
        return list(words)

    def to_representation(self, value: Any) -> Any:
        return value
