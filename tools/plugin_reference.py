"""The text of docs/reference/plugin-classes.md: every hook, and every class that plugins subclass."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator
from typing import Any

from conductor import hookspecs
from conductor.core.compute_driver import ComputeDriver

HEAD = """# Plugin classes

This page lists every hook and every class that plugins subclass. `make reference` writes it from the
code: change it there. [Plugin hooks](plugin-hooks.md) describes the contract, and the
[tutorials](../tutorials/index.md) show it step by step.
"""
WIDTH = 120
QUOTED = re.compile(r"(: |-> )'([^']*)'")  # unresolved annotations are strings


def page() -> str:
    return "\n".join([HEAD, *_contracts(), *(line for name, hook in hooks().items() for line in _hook(name, hook))])


def hooks() -> dict[str, Any]:
    """Return hooks with their specifications, in the order of the file."""
    return {name: value for name, value in vars(hookspecs).items() if hasattr(value, f"{hookspecs.PROJECT}_spec")}


def base_of(hook: Any) -> type[Any]:
    """Return the class whose subclasses the hook returns."""
    handed = typing.get_args(typing.get_type_hints(hook)["return"])[-1]
    kind: type[Any] = typing.get_args(handed)[0]
    return kind


def _contracts() -> Iterator[str]:
    yield "## Contracts\n"
    yield "| `novella_contract` | added |\n|---|---|"
    for number, brought in hookspecs.CONTRACTS.items():
        yield f"| {number} | {brought} |"
    for kind, attributes in hookspecs.DEPRECATED.items():
        for name, instead in attributes.items():
            yield f"\nDeprecated: `{kind}.{name}`: {instead}"
    yield ""


def _hook(name: str, hook: Any) -> Iterator[str]:
    kind = base_of(hook)
    yield f"## `{name}`\n"
    yield f"    def {name}(){_returns(hook)}\n"
    yield f"{_text(hook)}\n"
    yield f"### `{kind.__name__}`\n"
    yield f"    from {kind.__module__} import {kind.__name__}\n"
    if kind is ComputeDriver:
        yield "Its verbs and capabilities have [a page of their own](compute-drivers.md).\n"
        return
    yield f"{_text(kind)}\n"
    yield from _attributes(kind)
    yield from _methods(kind)


def _attributes(kind: type[Any]) -> Iterator[str]:
    found: dict[str, tuple[str, Any]] = {}
    for base in reversed(kind.__mro__[:-1]):
        for name, reported in vars(base).get("__annotations__", {}).items():
            if not name.startswith("_") and hasattr(kind, name):
                found[name] = (str(reported).removeprefix("ClassVar[").removesuffix("]"), getattr(kind, name))
    if not found:
        return
    yield "| attribute | type | default |\n|---|---|---|"
    for name, (reported, value) in found.items():
        yield f"| `{name}` | `{reported.replace('|', chr(92) + '|')}` | `{_shown(value)}` |"
    yield ""


def _shown(value: Any) -> str:
    if isinstance(value, frozenset):
        return "{" + ", ".join(repr(one) for one in sorted(value)) + "}"
    return repr(value)


def _methods(kind: type[Any]) -> Iterator[str]:
    names = dict.fromkeys(name for base in reversed(kind.__mro__[:-1]) for name in vars(base))
    for name in names:
        method = inspect.getattr_static(kind, name)
        if not name.startswith("_") and inspect.isfunction(method):
            for line in _wrapped(name + QUOTED.sub(r"\1\2", str(inspect.signature(method)))):
                yield f"    {line}"
            yield f"\n{_text(method)}\n"


def _wrapped(signature: str) -> list[str]:
    """Return a signature, with one parameter per line if it is too long."""
    if len(signature) <= WIDTH - 8:
        return [signature]
    inside, _, returned = signature.partition("(")[2].rpartition(")")
    name = signature.partition("(")[0]
    return [f"{name}(", *(f"    {part.strip()}," for part in _parted(inside)), f"){returned}"]


def _parted(text: str) -> Iterator[str]:
    """Yield the parameters; commas inside of brackets do not separate them."""
    part, depth = "", 0
    for letter in text:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and not depth:
            yield part
            part = ""
        else:
            part += letter
    yield part


def _returns(hook: Any) -> str:
    reported = inspect.signature(hook).return_annotation
    return f" -> {reported}" if isinstance(reported, str) else ""


def _text(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "")
