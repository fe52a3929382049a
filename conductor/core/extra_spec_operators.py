"""Operators of extra specs: does a host's value meet a requirement such as `>= 4` or `<or> a <or> b`?"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

Numeric = Callable[[float, float], bool]
Textual = Callable[[str, str], bool]

NUMERIC: dict[str, Numeric] = {
    "=": operator.ge,  # at least, as in Nova, whatever it looks like
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
TEXTUAL: dict[str, Textual] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s>=": operator.ge,
    "s>": operator.gt,
    "s<=": operator.le,
    "s<": operator.lt,
    "<in>": lambda value, operand: operand in value,
}
ALL_IN = "<all-in>"
OR = "<or>"


class UnreadableError(ValueError):
    """Value and requirement cannot be compared: a word where a number belongs, or an operator without an operand."""


def meets(value: str, requirement: str) -> bool:
    """Whether `value` meets `requirement`. A requirement without an operator means equality.

    Only the first operand counts, except for operators that take several. An operator without an operand is never met.
    Raises UnreadableError.
    """
    symbol, *operands = requirement.split() or [""]
    if symbol in NUMERIC:
        return bool(operands) and _compare(NUMERIC[symbol], value, operands[0])
    if symbol in TEXTUAL:
        return bool(operands) and TEXTUAL[symbol](value, operands[0])
    if symbol == ALL_IN:
        return bool(operands) and all(operand in value for operand in operands)
    if symbol == OR:
        return value in _choices(operands)
    return value == requirement


def match(value: str, requirement: str) -> bool:
    """Whether `value` meets `requirement`; false where one of them cannot be read."""
    try:
        return meets(value, requirement)
    except UnreadableError:
        return False


def fault_of(requirement: str) -> str:
    """Return what is wrong with a requirement, independent of hosts. Empty for a valid one."""
    symbol, *operands = requirement.split() or [""]
    if symbol in (*NUMERIC, *TEXTUAL, ALL_IN, OR) and not operands:
        return f"the operator {symbol} has no operand"
    if symbol in NUMERIC and not _is_number(operands[0]):
        return f"the operator {symbol} compares numbers, and {operands[0][:60]} is none"
    return ""


def _compare(compare: Numeric, value: str, operand: str) -> bool:
    for text in (value, operand):
        if not _is_number(text):
            raise UnreadableError(f"{text[:60]} is no number")
    return compare(float(value), float(operand))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _choices(words: Sequence[str]) -> Sequence[str]:
    """Return every second word of `a <or> b <or> c`."""
    if not words:
        raise UnreadableError(f"the operator {OR} has no operand")
    return words[::2]
