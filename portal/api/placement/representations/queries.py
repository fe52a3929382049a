"""Parsers of placement's query parameters. Each raises Invalid naming the parameter that is wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from conductor.core.errors import Invalid
from portal.api.microversions import Microversion

FORBIDDEN_TRAITS = "1.22"
SEVERAL_MEMBER_OF = "1.24"
FORBIDDEN_AGGREGATES = "1.32"
ANY_TRAITS = "1.39"
_LONGEST_ECHO = 80
_PLAIN_NUMBER = re.compile("-?[0-9]{1,20}")  # without signs, blanks and non-ASCII digits, which int() would accept


@dataclass(frozen=True, slots=True)
class TraitQuery:
    """Required traits, as sets of which each needs one trait, and forbidden traits."""

    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        return self.forbidden.union(*self.required)


@dataclass(frozen=True, slots=True)
class AggregateQuery:
    """Required aggregates, as sets of which each needs one aggregate, and forbidden aggregates."""

    member_of: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()


def resources(text: str, key: str = "resources") -> dict[str, int]:
    """Parse `VCPU:2,MEMORY_MB:512` into amounts by resource class."""
    amounts: dict[str, int] = {}
    for part in text.split(","):
        name, colon, amount = part.partition(":")
        if not colon or ":" in amount:
            raise _invalid(key, "classes and amounts like VCPU:2,MEMORY_MB:1024", part)
        if not _PLAIN_NUMBER.fullmatch(amount):
            raise _invalid(key, f"a whole number of {_echo(name)}", amount)
        amounts[name] = int(amount)
        if amounts[name] < 1:
            raise _invalid(key, f"at least 1 of {_echo(name)}", amount)
    return amounts


def traits(values: Sequence[str], version: Microversion, key: str = "required") -> TraitQuery:
    """Parse `A,!B` and, from the version that has it, `in:C,D`.

    Repeated values add up; before that the last one counts.
    """
    required: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values if version.covers(ANY_TRAITS) else values[-1:]:
        if value.startswith("in:"):
            required.append(_any_traits(value, version, key))
            continue
        names = [part.strip() for part in value.split(",")]
        unwanted = {name.removeprefix("!") for name in names if name.startswith("!")}
        if unwanted and not version.covers(FORBIDDEN_TRAITS):
            raise _invalid(key, f"traits without ! before {FORBIDDEN_TRAITS}", value)
        if not all(names) or not all(unwanted) or any(name.startswith("!") for name in unwanted):
            raise _invalid(key, "traits like HW_CPU_X86_VMX,!CUSTOM_MAGIC, none of them empty", value)
        required += [frozenset({name}) for name in names if not name.startswith("!")]
        forbidden |= unwanted
    return TraitQuery(tuple(required), frozenset(forbidden))


def _any_traits(value: str, version: Microversion, key: str) -> frozenset[str]:
    if not version.covers(ANY_TRAITS):
        raise _invalid(key, f"traits without in: before {ANY_TRAITS}", value)
    names = frozenset(part.strip() for part in value.removeprefix("in:").split(","))
    if not all(names) or any(name.startswith("!") for name in names):
        raise _invalid(key, "traits like in:HW_CPU_X86_VMX,CUSTOM_MAGIC, none of them empty and none with !", value)
    return names


def aggregates(values: Sequence[str], version: Microversion, key: str = "member_of") -> AggregateQuery:
    """Parse `uuid`, `in:uuid,uuid`, and, from the version that has them, `!uuid` and `!in:uuid,uuid`.

    Repeated values add up.
    """
    if len(values) > 1 and not version.covers(SEVERAL_MEMBER_OF):
        raise Invalid(f"{key} can be given once only before {SEVERAL_MEMBER_OF}.", field=key)
    member_of: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values:
        is_forbidding, names = _aggregates(value, key)
        if not is_forbidding:
            member_of.append(names)
            continue
        if not version.covers(FORBIDDEN_AGGREGATES):
            raise _invalid(key, f"aggregates without ! before {FORBIDDEN_AGGREGATES}", value)
        forbidden |= names
    return AggregateQuery(tuple(member_of), frozenset(forbidden))


def _aggregates(value: str, key: str) -> tuple[bool, frozenset[str]]:
    is_forbidding = value.startswith("!")
    text = value.removeprefix("!")
    if "," in text and not text.startswith("in:"):
        raise _invalid(key, "in: or !in: before several aggregates", value)
    names = text.removeprefix("in:").split(",")
    return is_forbidding, frozenset(_uuid(name, key, "uuids of aggregates") for name in names)


def in_tree(value: str, key: str = "in_tree") -> str:
    """Return the uuid of any provider of the tree."""
    return _uuid(value.strip(), key, "the uuid of a provider")


def _uuid(text: str, key: str, wanted: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise _invalid(key, wanted, text) from None


def _echo(text: str) -> str:
    return text if len(text) <= _LONGEST_ECHO else text[:_LONGEST_ECHO] + "…"


def _invalid(key: str, wanted: str, got: str) -> Invalid:
    return Invalid(
        f"Invalid query string parameters: {key}: expected {wanted}. Got: {_echo(got) or 'empty string'}.", field=key
    )
