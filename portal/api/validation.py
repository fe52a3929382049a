"""Request bodies against JSON schemas: 400 with the field's path, what was sent and what it may be.

    body = validate(request.data, CREATE_SCHEMA)

Schemas are plain dicts in the `schemas/` folder of each API; objects say `"additionalProperties": False`, so that an
unknown field is refused by name. `portal/api/schema_parts.py` has names, uuids, booleans. A schema may carry
`"x-fix": "must be …"` where the generated sentence would not help.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.exceptions import best_match

from conductor.core.errors import Invalid

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


def validate(body: Any, schema: Mapping[str, Any]) -> Any:
    """The body itself when it fits; raises Invalid naming the first field that does not."""
    error = first_error(body, schema)
    if error is not None:
        raise Invalid(sentence_of(error), field=path_of(error))
    return body


def one_action(body: Any, known: Mapping[str, Any]) -> str:
    """The name of the action that a body holds; raises Invalid when it holds none that is known, or several."""
    if not isinstance(body, dict) or len(body) != 1 or next(iter(body)) not in known:
        raise Invalid(f"The request body must hold one action: {', '.join(known)}.")
    return str(next(iter(body)))


def first_error(body: Any, schema: Mapping[str, Any]) -> ValidationError | None:
    """What is told first of all that does not fit; None where everything does."""
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
    # An unknown or missing field is told before what is wrong inside of the known ones.
    return -len(error.path), error.validator not in ("anyOf", "oneOf")


def path_of(error: ValidationError) -> str:
    """`server.networks[0].uuid`; empty for the body itself."""
    path = ""
    for part in error.absolute_path:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path[:200]


def sentence_of(error: ValidationError) -> str:
    """What is wrong with which field, and what it may be."""
    path = path_of(error)
    where = f"field/attribute {path}" if path else "the request body"
    return f"Invalid input for {where}.{_echo(error)} {_fix(error)}"


def _echo(error: ValidationError) -> str:
    """The value as it was sent, unless it is a secret or may hold one."""
    names = {str(part).lower() for part in error.absolute_path}
    if isinstance(error.instance, (dict, list)) or names & SECRET_NAMES:
        return ""
    text = str(error.instance) if isinstance(error.instance, str) else json.dumps(error.instance)
    if len(text) > _LONGEST_ECHO:
        text = text[:_LONGEST_ECHO] + "…"
    return f" Value: '{text}'."


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(repr(value) if isinstance(value, str) else json.dumps(value) for value in values)


def _types(wanted: Any) -> str:
    words = {"null": "null", "object": "an object", "array": "a list", "integer": "an integer"}
    kinds = [wanted] if isinstance(wanted, str) else list(wanted)
    return " or ".join(words.get(kind, f"a {kind}") for kind in kinds)


def _unexpected(error: ValidationError) -> str:
    schema: Any = error.schema
    sent: Any = error.instance
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    extra = [name for name in sent if name not in known and not any(re.search(p, name) for p in patterns)]
    names = _listed(name[:_LONGEST_ECHO] for name in sorted(extra))
    return f"Additional properties are not allowed ({names} {'was' if len(extra) == 1 else 'were'} unexpected)."


def _missing(error: ValidationError) -> str:
    wanted: Any = error.validator_value
    sent: Any = error.instance
    absent = [name for name in wanted if name not in sent]
    return f"{_listed(absent[:1])} is a required property."


_FIXES: dict[str, Callable[[ValidationError], str]] = {
    "type": lambda e: f"It must be {_types(e.validator_value)}.",
    "minLength": lambda e: f"It is too short: at least {e.validator_value} characters are needed.",
    "maxLength": lambda e: f"It is too long: at most {e.validator_value} characters are allowed.",
    "minimum": lambda e: f"It must be at least {e.validator_value}.",
    "maximum": lambda e: f"It must be at most {e.validator_value}.",
    "enum": lambda e: f"It must be one of {_listed(cast(list[Any], e.validator_value))}.",
    "const": lambda e: f"It must be {_listed([e.validator_value])}.",
    "pattern": lambda e: f"It does not match {e.validator_value}.",
    "format": lambda e: f"It is not a valid {e.validator_value}.",
    "additionalProperties": _unexpected,
    "required": _missing,
    "minItems": lambda e: f"At least {e.validator_value} items are needed.",
    "maxItems": lambda e: f"At most {e.validator_value} items are allowed.",
    "minProperties": lambda e: f"At least {e.validator_value} properties are needed.",
    "maxProperties": lambda e: f"At most {e.validator_value} properties are allowed.",
    "uniqueItems": lambda e: "Items must not repeat.",
}


def _fix(error: ValidationError) -> str:
    said = error.schema.get("x-fix") if isinstance(error.schema, Mapping) else None
    if said and error.validator not in ("additionalProperties", "required"):
        return str(said)
    fix = _FIXES.get(str(error.validator))
    return fix(error) if fix else "It has none of the allowed forms."


def as_boolean(value: Any, name: str) -> bool:
    """`True`, `"true"`, `"0"`, …: the ways in which clients spell booleans. Raises Invalid naming the field."""
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
