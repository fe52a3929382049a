"""Operators of extra specs: does a host's value meet a requirement such as `>= 4` or `<or> a <or> b`?"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

Numeric = Callable[[float, float], bool]
Textual = Callable[[str, str], bool]

NUMERIC: dict[str, Numeric] = {
    "=": operator.ge,  # at least: what it has always meant, whatever it looks like
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


def match(value: str, requirement: str) -> bool:
    """Whether `value` meets `requirement`; a requirement without an operator is plain equality.

    A number that cannot be read meets nothing. An operator without an operand meets nothing.
    """
    symbol, *operands = requirement.split() or [""]
    if symbol in NUMERIC:
        return bool(operands) and _compare(NUMERIC[symbol], value, operands[0])
    if symbol in TEXTUAL:
        return bool(operands) and TEXTUAL[symbol](value, operands[0])
    if symbol == "<all-in>":
        return bool(operands) and all(operand in value for operand in operands)
    if symbol == "<or>":
        return value in _choices(operands)
    return value == requirement


def _compare(compare: Numeric, value: str, operand: str) -> bool:
    try:
        return compare(float(value), float(operand))
    except ValueError:
        return False


def _choices(words: Sequence[str]) -> Sequence[str]:
    """Of `a <or> b <or> c`, every second word."""
    return words[::2]
