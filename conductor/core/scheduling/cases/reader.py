"""Reads a file of cases: validates it against the schema, and resolves references by name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema

from conductor.core.errors import Invalid
from conductor.core.scheduling.cases import schema
from conductor.core.scheduling.cases.fleet import Fleet, fleet_of
from conductor.core.scheduling.cases.settings import Settings, settings_of


@dataclass(frozen=True, slots=True)
class Case:
    """One case: hosts, requests as they were written, and the operator's settings of the scheduler."""

    name: str
    fleet: Fleet
    requests: Sequence[Mapping[str, Any]]
    settings: Settings
    strange_keys: Sequence[str] = ()  # keys that the format does not have


def read(text: str) -> list[Case]:
    """Return all cases of a file. Raises Invalid that names case, key and fix."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise Invalid(f"The file is no JSON: {error}.") from None
    if not isinstance(data, dict) or data.get("format") != schema.FORMAT:
        raise Invalid(f'format: write "{schema.FORMAT}" there; it is the only format that is known.')
    cases = data.get("cases")
    if not isinstance(cases, list):
        raise Invalid("cases: a list of cases is needed.")
    found = [_case(number, case) for number, case in enumerate(cases)]
    twice = _first_twice(case.name for case in found)
    if twice is not None:
        raise Invalid(f'cases: two have the name "{twice}"; give each its own.')
    return found


def _case(number: int, data: Any) -> Case:
    name = data.get("name") if isinstance(data, dict) else None
    label = f'Case "{name}"' if isinstance(name, str) and name else f"Case number {number + 1}"
    _check(label, data)
    case = {key: value for key, value in data.items() if value is not None}
    for kind in ("hosts", "requests", "aggregates", "groups"):
        twice = _first_twice(one["name"] for one in case.get(kind, ()))
        if twice is not None:
            raise Invalid(f'{label}: {kind}: two have the name "{twice}"; give each its own.')
    _check_names(label, case)
    try:
        settings = settings_of(case)
    except Invalid as error:
        raise Invalid(f"{label}: {error.message}") from None
    return Case(case["name"], fleet_of(case), case["requests"], settings, _unknown_keys(case))


def _check(label: str, data: Any) -> None:
    validator = jsonschema.Draft202012Validator(schema.CASE)
    error = jsonschema.exceptions.best_match(validator.iter_errors(data))
    while error is not None and error.validator == "anyOf" and schema.NULL in error.validator_value:
        error = jsonschema.exceptions.best_match(one for one in error.context if one.schema_path[0] == 0)  # not of null
    if error is not None:
        where = _path(error.absolute_path)
        raise Invalid(f"{label}: {where + ': ' if where else ''}{error.message}.")


def _path(parts: Sequence[Any]) -> str:
    """Return a path such as "hosts[2].resources.PCPU"."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return text.lstrip(".")


def _check_names(label: str, case: Mapping[str, Any]) -> None:
    aggregates = {one["name"] for one in case.get("aggregates", ())}
    groups = {one["name"] for one in case.get("groups", ())}
    for number, host in enumerate(case["hosts"]):
        for name in host.get("aggregates") or ():
            if name not in aggregates:
                raise Invalid(
                    f'{label}: hosts[{number}].aggregates: there is no aggregate "{name}"; list it in aggregates.'
                )
    for number, request in enumerate(case["requests"]):
        group = request.get("group")
        if group and group not in groups:
            raise Invalid(f'{label}: requests[{number}].group: there is no group "{group}"; list it in groups.')


def _first_twice(names: Iterator[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _unknown_keys(case: Mapping[str, Any]) -> list[str]:
    """Return the paths of keys that the format does not have, such as hosts[2].resources.PCPU.speed.

    They are ignored, so the case's author is warned.
    """
    return [path.removeprefix(".") for path in _unknown(schema.CASE, case, "")]


def _unknown(rule: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    for choice in rule.get("anyOf", ()):
        yield from _unknown(choice, value, path)
    if isinstance(value, dict) and rule.get("type") == "object":
        properties, others = rule.get("properties"), rule.get("additionalProperties", {})
        for key, inner in value.items():
            if properties is not None and key not in properties:
                yield f"{path}.{key}"
            else:
                yield from _unknown((properties or {}).get(key, others), inner, f"{path}.{key}")
    if isinstance(value, list) and rule.get("type") == "array":
        for index, inner in enumerate(value):
            yield from _unknown(rule.get("items", {}), inner, f"{path}[{index}]")
