"""Validates what drivers return: a driver may be a plugin, so its values are not trusted."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from jsonschema import Draft202012Validator

from conductor.compute.failures import THREAD_EXITS
from conductor.core.compute_driver import GuestInfo, NodeReport
from conductor.core.errors import DriverError
from conductor.core.identifiers import uuid_or_none
from conductor.core.states import PowerState

MAX_CAUSE_LENGTH = 100
MAX_INTEGER = 2**31 - 1


def _text(max_length: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": max_length}


_POWER_STATES = frozenset(PowerState)
_NAME = {"type": "string", "pattern": "^[A-Z0-9_]+$", "maxLength": 255}
_WHOLE = {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}
_RATIO = {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_INTEGER}
_AMOUNT = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("total", "reserved", "min_unit", "max_unit", "step_size"), _WHOLE),
        "allocation_ratio": _RATIO,
    },
}
_OBJECTS = {"type": "array", "items": {"type": "object"}}
_REPORT = Draft202012Validator(
    {
        "type": "object",
        "properties": {
            "node": {**_text(255), "minLength": 1},
            "hypervisor_type": _text(64),
            "hypervisor_version": _WHOLE,
            "inventory": {"type": "object", "propertyNames": _NAME, "additionalProperties": _AMOUNT},
            "traits": {"type": "array", "items": _NAME},
            "supported_instances": {
                "type": "array",
                "items": {"type": "array", "items": _text(255), "minItems": 3, "maxItems": 3},
            },
            "cpu_info": {"type": "object"},
            "capabilities": {"type": "object"},
            "disk_available_least_gb": {"type": ["integer", "null"], "minimum": -MAX_INTEGER, "maximum": MAX_INTEGER},
            "host_ip": _text(64),
            "numa_cells": _OBJECTS,
            "pci_devices": _OBJECTS,
            "metrics": {"type": "object", "additionalProperties": {"type": "number"}},
        },
    }
)


@contextmanager
def thread_exits_as_errors() -> Iterator[None]:
    """Raise DriverError where a driver would end the thread."""
    try:
        yield
    except THREAD_EXITS as error:
        raise DriverError(f"The driver failed unexpectedly ({type(error).__name__}).") from error


def validate_report(report: Any, known: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return a driver's report as JSON.

    Args:
        known: A report that was validated before; an equal one is not validated again.

    Raises:
        DriverError: A value is invalid; the message names it.
    """
    if not isinstance(report, NodeReport):
        raise DriverError(f"The driver's report is a {type(report).__name__} and no NodeReport.")
    try:
        values = report.to_json()
        if values == known:
            return dict(known)
        # As the conductor receives it: tuples become lists, and values that are no JSON raise.
        values = json.loads(json.dumps(values, allow_nan=False))
    except (TypeError, ValueError, AttributeError) as error:
        raise DriverError(f"The driver's report cannot be sent: {str(error)[:MAX_CAUSE_LENGTH]}.") from error
    if values == known:
        return dict(values)
    wrong = next(iter(_REPORT.iter_errors(values)), None)
    if wrong is not None:
        where = ".".join(map(str, wrong.absolute_path)) or "the report"
        raise DriverError(f"The driver's report cannot be used: {where}: {wrong.message[:MAX_CAUSE_LENGTH]}.")
    return dict(values)


def validate_guests(guests: Any) -> tuple[GuestInfo, ...]:
    """Return the guests that a driver lists. Raises DriverError for anything else."""
    if not isinstance(guests, Collection) or isinstance(guests, str | bytes | Mapping):
        raise DriverError(f"The driver lists its guests as a {type(guests).__name__} and no list.")
    for guest in guests:
        if not isinstance(guest, GuestInfo):
            raise DriverError(f"The driver lists a {type(guest).__name__} among its guests, and no GuestInfo.")
        if not isinstance(guest.instance_uuid, str) or guest.power_state not in _POWER_STATES:
            raise DriverError(
                f"The driver lists a guest in the power state {str(guest.power_state)[:MAX_CAUSE_LENGTH]!r}."
            )
    return tuple(guests)


def validate_kept(kept: Any) -> list[str]:
    """Return the uuids of retained guests that a driver lists, sorted. Raises DriverError for anything else."""
    if not isinstance(kept, Collection) or isinstance(kept, str | bytes | Mapping):
        raise DriverError(f"The driver lists what it keeps as a {type(kept).__name__} and no list.")
    if not all(isinstance(uuid, str) and uuid_or_none(uuid) for uuid in kept):
        raise DriverError("The driver lists something that it keeps by no uuid.")
    return sorted(kept)


def validate_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a driver method as JSON. Raises DriverError for values that are no JSON."""
    try:
        return dict(json.loads(json.dumps(dict(result), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise DriverError(f"The driver's answer cannot be sent: {str(error)[:MAX_CAUSE_LENGTH]}.") from error
