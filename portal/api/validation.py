"""Validates request bodies against JSON schemas: 400 with the field's path, the sent value and the accepted values.

    body = validate(request.data, CREATE_SCHEMA)

Schemas are plain dicts in the `schemas/` folder of each API. Their objects have `"additionalProperties": False`, so
that an unknown field is refused by name. `portal/api/schema_parts.py` has names, uuids, booleans. A schema may carry
`"x-fix": "must be …"` where the generated sentence would not help.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, cast

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.exceptions import best_match

from conductor.core import names
from conductor.core.errors import Invalid
from conductor.core.messages import Message, message, word

SECRET_NAMES = frozenset(
    {
        "adminpass",
        "admin_pass",
        "password",
        "original_password",
        "secret",
        "user_data",
        "contents",
        "token",
        "private_key",
    }
)
_LONGEST_ECHO = 60
_TRUE = frozenset({"true", "1", "t", "yes", "y", "on"})
_FALSE = frozenset({"false", "0", "f", "no", "n", "off"})
_UUID = re.compile(r"\A[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}\Z", re.IGNORECASE)
formats = FormatChecker(formats=())


@formats.checks("uuid")
def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or bool(_UUID.match(value))


@formats.checks("ipv4", raises=ValueError)
def _is_ipv4(value: object) -> bool:
    return not isinstance(value, str) or bool(ipaddress.IPv4Address(value))


@formats.checks("ipv6", raises=ValueError)
def _is_ipv6(value: object) -> bool:
    return not isinstance(value, str) or bool(ipaddress.IPv6Address(value))


@formats.checks("ip", raises=ValueError)
def _is_ip(value: object) -> bool:
    return not isinstance(value, str) or bool(ipaddress.ip_address(value))


@formats.checks("cidr", raises=ValueError)
def _is_cidr(value: object) -> bool:
    return not isinstance(value, str) or bool(ipaddress.ip_network(value, strict=False))


@formats.checks("name")
def _is_name(value: object) -> bool:
    return not isinstance(value, str) or not names.has_control(value)


def validate(body: Any, schema: Mapping[str, Any]) -> Any:
    """Return the body if it fits the schema; raises Invalid naming the first field that does not."""
    error = first_error(body, schema)
    if error is not None:
        raise Invalid(sentence_of(error), field=path_of(error))
    return body


def one_action(body: Any, known: Mapping[str, Any]) -> str:
    """Return the name of the body's only action; raises Invalid for several, or for an unknown one."""
    if not isinstance(body, dict) or len(body) != 1 or next(iter(body)) not in known:
        raise Invalid(f"The request body must hold one action: {', '.join(known)}.")
    return str(next(iter(body)))


def first_error(body: Any, schema: Mapping[str, Any]) -> ValidationError | None:
    """Return the error to report first; None for a valid body."""
    found: ValidationError | None = best_match(_validator(schema).iter_errors(body), key=_depth_first)
    return found


_validators: dict[int, tuple[Mapping[str, Any], Draft202012Validator]] = {}


def _validator(schema: Mapping[str, Any]) -> Draft202012Validator:
    # Keyed by identity: schemas are module constants. The schema is kept too, so that its id is never reused.
    found = _validators.get(id(schema))
    if found is None:
        found = (schema, Draft202012Validator(schema, format_checker=formats))
        _validators[id(schema)] = found
    return found[1]


def _depth_first(error: ValidationError) -> tuple[int, bool]:
    # Unknown and missing fields are reported before errors inside of known ones.
    return -len(error.path), error.validator not in ("anyOf", "oneOf")


def path_of(error: ValidationError) -> str:
    """Return the field's path, such as `server.networks[0].uuid`; empty for the body itself."""
    return path_text(error.absolute_path)


def path_text(parts: Iterable[str | int]) -> str:
    """Return a path as text: `server.networks[0].uuid`."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path[:200]


def sentence_of(error: ValidationError) -> Message:
    """Return a sentence with the field, its error, and the accepted values."""
    return sentence(error.absolute_path, error.instance, _fix(error))


def sentence(parts: Iterable[str | int], sent: Any, fix: str) -> Message:
    """Return a sentence about the field at a path, where `sent` was sent; `fix` says which values it accepts."""
    parts = list(parts)
    path, value = path_text(parts), _echo(parts, sent)
    if value is None:
        return message("invalid.field", path=path, fix=fix) if path else message("invalid.body", fix=fix)
    if not path:
        return message("invalid.body_value", value=value, fix=fix)
    return message("invalid.value", path=path, value=value, fix=fix)


def _echo(parts: Iterable[str | int], sent: Any) -> str | None:
    """Return the sent value; None for a secret, or for a value that may contain one."""
    names = {str(part).lower() for part in parts}
    if isinstance(sent, (dict, list)) or names & SECRET_NAMES:
        return None
    text = str(sent) if isinstance(sent, str) else json.dumps(sent)
    if len(text) > _LONGEST_ECHO:
        text = text[:_LONGEST_ECHO] + "…"
    return text


def listed(values: Iterable[Any]) -> str:
    """Return values as JSON, separated by commas."""
    return ", ".join(repr(value) if isinstance(value, str) else json.dumps(value) for value in values)


def _types(wanted: Any) -> str:
    words = {"null": "null", "object": "an object", "array": "a list", "integer": "an integer"}
    kinds = [wanted] if isinstance(wanted, str) else list(wanted)
    return " or ".join(words.get(kind, f"a {kind}") for kind in kinds)


def _unexpected(error: ValidationError) -> str:
    schema: Any = error.schema
    sent: Any = error.instance
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return unexpected([name for name in sent if name not in known and not any(re.search(p, name) for p in patterns)])


def unexpected(extra: Collection[str]) -> Message:
    """Return the message for fields that a body may not have."""
    names = listed(name[:_LONGEST_ECHO] for name in sorted(extra))
    return message("invalid.unexpected" if len(extra) == 1 else "invalid.all_unexpected", names=names)


def _missing(error: ValidationError) -> str:
    wanted: Any = error.validator_value
    sent: Any = error.instance
    return missing(next(name for name in wanted if name not in sent))


def missing(name: str) -> Message:
    """Return the message for a missing field."""
    return message("invalid.missing", name=listed([name]))


NO_CONTROL = "It must have no control characters and no line breaks."
_FIXES: dict[str, Callable[[ValidationError], str]] = {
    "type": lambda e: message("invalid.type", types=word(_types(e.validator_value))),
    "minLength": lambda e: message("invalid.too_short", least=e.validator_value),
    "maxLength": lambda e: message("invalid.too_long", most=e.validator_value),
    "minimum": lambda e: message("invalid.least", least=e.validator_value),
    "maximum": lambda e: message("invalid.most", most=e.validator_value),
    "enum": lambda e: message("invalid.one_of", values=listed(cast(list[Any], e.validator_value))),
    "const": lambda e: message("invalid.const", value=listed([e.validator_value])),
    "pattern": lambda e: message("invalid.pattern", pattern=str(e.validator_value)),
    "format": lambda e: message("invalid.format", format=str(e.validator_value)),
    "additionalProperties": _unexpected,
    "required": _missing,
    "minItems": lambda e: message("invalid.fewest_items", least=e.validator_value),
    "maxItems": lambda e: message("invalid.most_items", most=e.validator_value),
    "minProperties": lambda e: message("invalid.fewest_properties", least=e.validator_value),
    "maxProperties": lambda e: message("invalid.most_properties", most=e.validator_value),
    "uniqueItems": lambda e: message("invalid.repeated"),
}


def _fix(error: ValidationError) -> str:
    if (error.validator, error.validator_value) == ("format", "name"):
        return NO_CONTROL
    reported = error.schema.get("x-fix") if isinstance(error.schema, Mapping) else None
    if reported and error.validator not in ("additionalProperties", "required"):
        return str(reported)
    fix = _FIXES.get(str(error.validator))
    return fix(error) if fix else message("invalid.no_form")


def as_boolean(value: Any, name: str) -> bool:
    """Parse a boolean in the spellings of clients: `True`, `"true"`, `"0"`, …. Raises Invalid naming the field."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise Invalid(
        f"Invalid input for field/attribute {name}. Value: '{word[:_LONGEST_ECHO]}'. It must be true or false."
    )
