"""Validates the options of a plugin against its schemas, by name."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conductor.core.errors import Invalid
from conductor.core.extensions import Extension
from conductor.core.filter import Filter
from conductor.core.notification_sink import NotificationSink
from conductor.core.scheduling.watching import describe
from conductor.core.weigher import Weigher

LONGEST_ECHO = 60
HIDDEN = "(hidden)"
Plugin = Filter | Weigher | NotificationSink | Extension


def require_options(plugin: Plugin, given: Mapping[str, Any], field: str) -> None:
    """Raise Invalid naming plugin, option and valid values. `field` is the request's field with the options."""
    for key, value in given.items():
        rule = plugin.options_schema.get(key)
        if rule is None:
            raise Invalid(f"{plugin.name} has no option {key[:LONGEST_ECHO]}. {_known(plugin, key)}", field=field)
        wrong = _wrong(plugin.name, key, rule, value)
        if wrong:
            raise Invalid(wrong, field=f"{field}.{key}")
    try:
        type(plugin)(dict(given))
    except Exception as error:  # a plugin may check in its constructor what a schema cannot express
        raise Invalid(f"{plugin.name} does not take these options ({describe(error)}).", field=field) from error


def plugin_of(known: Mapping[str, type[Any]], noun: str, name: str, options: Any, field: str) -> Any:
    """Return the plugin of that name with the operator's options from `field`. Raises Invalid."""
    place = f"{field}.{name}"
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise Invalid(f"No plugin brings a {noun} {name}. {nearest(name, known)}Known: {names}.", field=field)
    if not isinstance(options, Mapping):
        raise Invalid(f"The options of {name} are a mapping, not {type(options).__name__}.", field=place)
    try:
        plugin = known[name]()
    except Exception as error:
        raise Invalid(f"The {noun} {name} cannot be made ({describe(error)}).", field=place) from error
    require_options(plugin, options, place)
    return known[name](options)


def is_secret(rule: Mapping[str, Any]) -> bool:
    """Whether the option's value is never shown, because its schema says `writeOnly`."""
    return bool(rule.get("writeOnly"))


def shown(schema: Mapping[str, Mapping[str, Any]], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values as users may see them, without those that are secret."""
    return {key: HIDDEN if is_secret(schema.get(key, {})) else value for key, value in values.items()}


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the most similar name. Empty where none is similar."""
    found = nearest_name(name, known)
    return f"Did you mean {found}? " if found else ""


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the most similar name. Empty where none is similar."""
    by_case = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), by_case, 1)
    return by_case[found[0]] if found else ""


def _known(plugin: Plugin, key: str) -> str:
    names: Sequence[str] = sorted(plugin.options_schema)
    return nearest(key, names) + (f"It has {', '.join(names)}." if names else "It has none.")


def _wrong(plugin: str, key: str, rule: Mapping[str, Any], value: Any) -> str:
    """Return what is wrong with the value, and what is valid. Empty for a valid value."""
    # Most processes check no options, and importing the library takes a twentieth of their start.
    from jsonschema import Draft202012Validator, ValidationError
    from jsonschema.exceptions import best_match
    from referencing import Registry

    try:
        Draft202012Validator.check_schema(dict(rule))
        judge = Draft202012Validator(dict(rule), registry=Registry())  # empty: no references are fetched
        error: ValidationError | None = best_match(judge.iter_errors(value))
    except Exception as broken:  # a foreign schema may break in many ways
        why = type(broken).__name__
        return f"{plugin} declares its option {key} by a schema that is broken ({why}): ask its author."
    if error is None:
        return ""
    sent = "" if is_secret(rule) else f" Value: {_short(value)}."
    return f"The option {key} of {plugin} does not fit.{sent} It must have the form {_form(rule)}."


def _form(rule: Mapping[str, Any]) -> str:
    """Return the schema without its texts, as short JSON."""
    return json.dumps({name: part for name, part in rule.items() if name not in ("description", "title")}, default=str)


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= LONGEST_ECHO else text[:LONGEST_ECHO] + "…"
