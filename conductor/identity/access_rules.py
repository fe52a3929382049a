"""Whether a request is one that an application credential may make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conductor.core import patterns
from conductor.identity.models import AccessRule

# What stands for what in the path of a rule: `**` any rest, `*` and `{name}` one part.
WILDCARDS: Mapping[str, str] = {"**": ".*", "*": "[^/]+", "{}": "[^/]+"}


def allow(rules: Sequence[AccessRule] | None, services: frozenset[str], method: str, path: str) -> bool:
    """`services` are the names under which the asked service is known; `path` begins below its root."""
    if rules is None:
        return True
    return any(
        rule.service in services and rule.method == method and patterns.glob(rule.path, WILDCARDS).fits(path)
        for rule in rules
    )
