"""Regular expressions that people search names with: only such as cannot keep a database busy."""

from __future__ import annotations

import re
from re import _constants as opcodes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from conductor.core.errors import Invalid

LONGEST = 255
# Each open-ended repeat multiplies the work by the length of a name; two are cheap on any name.
MOST_REPEATS = 2
LEADING = re.compile(r"\A(\^?\.\*)+")
TRAILING = re.compile(r"((?<!\\)\.\*\$?)+\Z")


def checked(pattern: str) -> str:
    """The pattern without the parts that a search does not need. Raises Invalid for one that is wrong or costly."""
    if len(pattern) > LONGEST:
        raise Invalid(f"The name filter is longer than {LONGEST} characters.", field="name")
    slim = TRAILING.sub("", LEADING.sub("", pattern))
    try:
        tree = parser.parse(slim)
    except (re.error, RecursionError, OverflowError):
        raise Invalid("The name filter is not a valid regular expression.", field="name") from None
    if _repeats(tree, is_inside=False) > MOST_REPEATS:
        raise Invalid("The name filter is too costly: use fewer repeats.", field="name")
    return slim


def _repeats(tree: Any, *, is_inside: bool) -> int:
    """How many repeats a parsed pattern has; one inside of another, and looking around or back, count as too many."""
    total = 0
    for opcode, argument in tree:
        if opcode in (opcodes.GROUPREF, opcodes.GROUPREF_EXISTS, opcodes.ASSERT, opcodes.ASSERT_NOT):
            return MOST_REPEATS + 1
        if opcode in (opcodes.MAX_REPEAT, opcodes.MIN_REPEAT, opcodes.POSSESSIVE_REPEAT):
            if is_inside:
                return MOST_REPEATS + 1
            is_optional = argument[1] == 1
            total += 0 if is_optional else 1
            total += _repeats(argument[2], is_inside=not is_optional)
        elif opcode == opcodes.BRANCH:
            total += sum(_repeats(branch, is_inside=is_inside) for branch in argument[1])
        elif opcode == opcodes.SUBPATTERN:
            total += _repeats(argument[3], is_inside=is_inside)
        elif opcode == opcodes.ATOMIC_GROUP:
            total += _repeats(argument, is_inside=is_inside)
    return total
