"""Which scheduler hints can be read: what the filters that ask for them would refuse on every host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conductor.core.errors import Invalid
from conductor.core.scheduling.hints import (
    ADDRESS_HINT,
    DEFAULT_LENGTH,
    LENGTH_HINT,
    QUERY_HINT,
    network_of,
    query_fault,
)


def check(hints: Mapping[str, Sequence[str]]) -> None:
    """Raises Invalid naming the hint."""
    for name in (QUERY_HINT, ADDRESS_HINT, LENGTH_HINT):
        if len(hints.get(name, ())) > 1:
            raise _refused(name, "it is one text, not a list of several")
    fault = query_fault("".join(hints.get(QUERY_HINT, ())))
    if fault:
        raise _refused(QUERY_HINT, fault)
    address, length = "".join(hints.get(ADDRESS_HINT, ())), "".join(hints.get(LENGTH_HINT, [DEFAULT_LENGTH]))
    if address and network_of(address, "") is None:
        raise _refused(ADDRESS_HINT, f"{address[:60]} is no address")
    if address and network_of(address, length) is None:
        raise _refused(LENGTH_HINT, f"{address[:60]}{length[:60]} is no network; write the length as /24")


def _refused(name: str, fault: str) -> Invalid:
    where = f"os:scheduler_hints.{name}"
    return Invalid(f"Invalid input for field/attribute {where}: {fault}.", field=where)
