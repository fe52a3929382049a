"""Checks of a plugin's contract version and of the hooks that it implements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pluggy

from conductor.core.filter import Filter
from conductor.core.weigher import Weigher
from conductor.hookspecs import CONTRACTS, DEPRECATED
from conductor.plugins.registry import InvalidHookResult

DECLARED = "novella_contract"
OLDEST, NEWEST = min(CONTRACTS), max(CONTRACTS)


def require_contract(plugin: Any) -> None:
    """Raise InvalidHookResult if the plugin supports none of the supported contract versions.

    `novella_contract` is a number, or a pair of the first and the last version that the plugin supports. Without it,
    every version is supported.
    """
    declared = getattr(plugin, DECLARED, None)
    if declared is None:
        return
    first, last = _span(declared)
    if first > NEWEST:
        raise InvalidHookResult(f"it was made for contract {first}, and here is {NEWEST}: it needs a newer Novella")
    if last < OLDEST:
        raise InvalidHookResult(
            f"it was made for contract {last}, and the oldest here is {OLDEST}: it needs a newer version"
        )


def require_known_hooks(manager: pluggy.PluginManager, plugin: Any) -> None:
    """Raise InvalidHookResult for a hook that does not exist, unless the plugin marks it as optional."""
    for caller in manager.get_hookcallers(plugin) or ():
        needed = [one for one in caller.get_hookimpls() if one.plugin is plugin and not one.optionalhook]
        if needed and not caller.has_spec():
            raise InvalidHookResult(f"it has the hook {caller.name}, which is not known in contract {NEWEST}")


def warnings_about(kinds: Iterable[type[Any]]) -> list[str]:
    """Return one line for each deprecated attribute that a class of the plugin defines."""
    lines = []
    for kind in kinds:
        for base in kind.__mro__[1:]:
            for attribute, instead in DEPRECATED.get(base.__name__, {}).items():
                if attribute in vars(kind):
                    lines.append(f"{kind.__name__} defines {attribute}, which is deprecated: {instead}")
    return sorted(set(lines))


def troubles_of(plugins: Iterable[Filter | Weigher]) -> list[str]:
    """Return one line for each filter and weigher that declares why it will fail."""
    return [f"{one.name} fails whenever it is asked: {one.trouble}" for one in plugins if one.trouble]


def _span(declared: Any) -> tuple[int, int]:
    span = declared if isinstance(declared, tuple | list) else (declared, declared)
    if len(span) != 2 or not all(type(one) is int for one in span) or span[0] > span[1]:
        raise InvalidHookResult(f"{DECLARED} is to be a number, or a pair of the first and the last that will do")
    return span[0], span[1]
