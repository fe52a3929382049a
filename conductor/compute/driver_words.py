"""What drivers give back is foreign: it is looked at here, before anybody else has to do with it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from jsonschema import Draft202012Validator

from conductor.core.compute_driver import GuestInfo, NodeReport
from conductor.core.errors import DriverError
from conductor.core.identifiers import uuid_or_none
from conductor.core.states import PowerState

# What foreign code may raise that would end a thread of ours without a word.
ENDS_THREADS = (SystemExit, KeyboardInterrupt)
LONGEST_WORDS = 100
MOST = 2**31 - 1


def _text(longest: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": longest}


_POWER_STATES = frozenset(PowerState)
_NAME = {"type": "string", "pattern": "^[A-Z0-9_]+$", "maxLength": 255}
_WHOLE = {"type": "integer", "minimum": 0, "maximum": MOST}
_RATIO = {"type": "number", "exclusiveMinimum": 0, "maximum": MOST}
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
            "disk_available_least_gb": {"type": ["integer", "null"], "minimum": -MOST, "maximum": MOST},
            "host_ip": _text(64),
            "numa_cells": _OBJECTS,
            "pci_devices": _OBJECTS,
            "metrics": {"type": "object", "additionalProperties": {"type": "number"}},
        },
    }
)


@contextmanager
def staying() -> Iterator[None]:
    """What would end the thread is an error of the driver's."""
    try:
        yield
    except ENDS_THREADS as error:
        raise DriverError(f"The driver failed unexpectedly ({type(error).__name__}).") from error


def usable_report(report: Any, known: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """A driver's report as JSON; what is equal to the `known` one was looked at before.

    Raises DriverError naming what in it cannot be used.
    """
    if not isinstance(report, NodeReport):
        raise DriverError(f"The driver's report is a {type(report).__name__} and no NodeReport.")
    try:
        # As it arrives: tuples are lists, and what is no JSON is found out.
        told = json.loads(json.dumps(report.to_json(), allow_nan=False))
    except (TypeError, ValueError, AttributeError) as error:
        raise DriverError(f"The driver's report cannot be told: {str(error)[:LONGEST_WORDS]}.") from error
    if told == known:
        return dict(told)
    wrong = next(iter(_REPORT.iter_errors(told)), None)
    if wrong is not None:
        where = ".".join(map(str, wrong.absolute_path)) or "what it tells"
        raise DriverError(f"The driver's report cannot be used: {where}: {wrong.message[:LONGEST_WORDS]}.")
    return dict(told)


def usable_guests(guests: Any) -> tuple[GuestInfo, ...]:
    """Those that a driver lists. Raises DriverError for what is no guest."""
    if not isinstance(guests, Collection) or isinstance(guests, str | bytes | Mapping):
        raise DriverError(f"The driver lists its guests as a {type(guests).__name__} and no list.")
    for guest in guests:
        if not isinstance(guest, GuestInfo):
            raise DriverError(f"The driver lists a {type(guest).__name__} among its guests, and no GuestInfo.")
        if not isinstance(guest.instance_uuid, str) or guest.power_state not in _POWER_STATES:
            raise DriverError(
                f"The driver lists a guest in the power state {str(guest.power_state)[:LONGEST_WORDS]!r}."
            )
    return tuple(guests)


def usable_kept(kept: Any) -> list[str]:
    """Uuids that a driver lists of what it keeps. Raises DriverError for anything else."""
    if not isinstance(kept, Collection) or isinstance(kept, str | bytes | Mapping):
        raise DriverError(f"The driver lists what it keeps as a {type(kept).__name__} and no list.")
    if not all(isinstance(uuid, str) and uuid_or_none(uuid) for uuid in kept):
        raise DriverError("The driver lists something that it keeps by no uuid.")
    return sorted(kept)


def usable_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """What is told of a command that went well. Raises DriverError for what is no JSON: it could not be kept."""
    try:
        return dict(json.loads(json.dumps(dict(result), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise DriverError(f"The driver's answer cannot be told: {str(error)[:LONGEST_WORDS]}.") from error
