"""Filter by a JSON query of the request."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import Any

import numpy as np

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable, Mask
from conductor.core.messages import message
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.hints import word_of, words_of
from conductor.core.scheduling.host_attributes import attribute
from conductor.core.verdict import PASS, Verdict, reject, unreadable

HINT = "query"
VARIABLE = "$"
LONGEST_SHOWN = 200
FAULTS = (ValueError, TypeError, KeyError, AttributeError, LookupError, RecursionError)
Arguments = list[Any]


@dataclass(frozen=True)
class Operand:
    """A host value that is neither number nor text: equal to itself only, without an order, false where empty."""

    name: str
    size: int = 1

    def __bool__(self) -> bool:
        return self.size > 0


def _things(name: str, count: int) -> list[Operand]:
    return [Operand(f"{name} {index}") for index in range(count)]


def _address(host: HostState) -> Any:
    """Return an address object: no text is equal to it, before it or after it."""
    try:
        return ip_address(host.host_ip) if host.host_ip else None
    except ValueError:
        return Operand(host.host_ip)


# Names that stand for objects here, and for texts or for nothing in extra specs.
OBJECTS: Mapping[str, Callable[[HostState], Any]] = {
    "host_ip": _address,
    "aggregates": lambda host: _things("aggregate", len(host.aggregates)),
    "instances": lambda host: dict(enumerate(_things("instance", host.num_instances))),
    "allocation_candidates": lambda host: _things("candidate", 1),
    "metrics": lambda host: Operand("metrics", len(host.metrics)),
    "numa_topology": lambda host: Operand("topology") if host.topology else None,
    "pci_stats": lambda host: Operand("devices"),
}


def _each(compare: Callable[[Any, Any], bool]) -> Callable[[Arguments], bool]:
    """Return a check that compares the first argument with every other one; a single argument is never true.

    All are compared, even after a mismatch: an argument that cannot be compared makes the whole query invalid.
    """
    return lambda arguments: len(arguments) > 1 and all(list(map(partial(compare, arguments[0]), arguments[1:])))


COMMANDS: Mapping[str, Callable[[Arguments], Any]] = {
    "=": _each(operator.eq),
    "<": _each(operator.lt),
    ">": _each(operator.gt),
    "<=": _each(operator.le),
    ">=": _each(operator.ge),
    "in": lambda arguments: len(arguments) > 1 and arguments[0] in arguments[1:],
    "not": lambda arguments: [not argument for argument in arguments],  # one result for each of them
    "or": any,
    "and": all,
}


class JsonFilter(Filter):
    """With the hint query, keep hosts that match the JSON query, e.g. [">=", "$free_ram_mb", 1024].

    A query is a list of a command and its arguments, which may be queries. `$name` stands for the host's value of that
    name, `$name.key` for a value inside it; arguments without a value are left out.
    """

    name = "JsonFilter"
    is_on_by_default = False

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return self.mask_among(hosts, spec, hosts.everyone)

    def mask_among(self, hosts: HostTable, spec: RequestSpec, passing: Mask) -> Mask:
        if not words_of(spec, HINT):
            return hosts.everyone
        mask, known = np.zeros(len(hosts), np.bool_), dict[Hashable, bool]()
        try:
            query = _query(spec)
            names = sorted(set(_variables(query)))
        except FAULTS:
            return mask
        for row in np.flatnonzero(passing).tolist():
            mask[row] = _holds_once(query, names, hosts.states[row], known)
        return mask

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if not words_of(spec, HINT):
            return PASS
        shown = " ".join(words_of(spec, HINT))[:LONGEST_SHOWN]
        try:
            query = _query(spec)
            names = sorted(set(_variables(query)))
            if _holds(query, host):
                return PASS
        except FAULTS as error:
            return unreadable(f"the hint {HINT} cannot be answered: {_explained(error)}", need=shown)
        have = ", ".join(f"{name} {_value(name, host)}" for name in names)
        return reject(message("reject.query", hint=HINT), need=shown, have=have)


def _query(spec: RequestSpec) -> Any:
    """Return the query. Raises ValueError for invalid JSON."""
    word = word_of(spec, HINT)
    if word is None:
        raise ValueError("one text is expected, not a list")
    return json.loads(word)


def _variables(query: Any) -> Iterator[str]:
    """Yield the variables in a query. One that is not in a list is left to the caller."""
    for part in query if isinstance(query, list) else ():
        if isinstance(part, list):
            yield from _variables(part)
        elif isinstance(part, str) and part.startswith(VARIABLE):
            yield part


def _holds_once(query: Any, names: list[str], host: HostState, known: dict[Hashable, bool]) -> bool:
    """Whether the query holds, evaluated once for all hosts with the same values."""
    try:
        key = repr([_value(name, host) for name in names])
        if key not in known:
            known[key] = _holds(query, host)
        return known[key]
    except FAULTS:
        return False


def _holds(query: Any, host: HostState) -> bool:
    answer = _answer(query, host)
    return any(answer) if isinstance(answer, list) else bool(answer)


def _answer(query: Any, host: HostState) -> Any:
    """Evaluate a query. Raises the errors of commands whose arguments cannot be compared."""
    if not query:
        return True
    command = COMMANDS[query[0]]
    values = (_argument(part, host) for part in query[1:])
    return command([value for value in values if value is not None])


def _argument(part: Any, host: HostState) -> Any:
    if isinstance(part, list):
        return _answer(part, host)
    if isinstance(part, str):
        return _value(part, host) if part.startswith(VARIABLE) else part or None
    return part


def _value(variable: str, host: HostState) -> Any:
    """Return the host's value of `$name` or, in a mapping, of `$name.key`. Raises AttributeError in other values."""
    name, *path = variable[len(VARIABLE) :].split(".")
    value = OBJECTS[name](host) if name in OBJECTS else attribute(host, name)
    for key in path:
        if value is None:
            return None
        value = value.get(key)
    return value


def _explained(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return "it is no JSON"
    if isinstance(error, KeyError):
        return f"there is no command {error}"[:LONGEST_SHOWN]
    if isinstance(error, RecursionError):
        return "it is too deep"
    if isinstance(error, AttributeError):
        return "it asks for the inside of what has none"
    return "it compares what cannot be compared"
