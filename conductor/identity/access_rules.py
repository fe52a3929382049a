"""Access rules: the requests that an application credential may make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conductor.core import patterns
from conductor.identity.models import AccessRule

# Wildcards in the path of a rule: `**` any rest, `*` and `{name}` one part.
WILDCARDS: Mapping[str, str] = {"**": ".*", "*": "[^/]+", "{}": "[^/]+"}


def allow(rules: Sequence[AccessRule] | None, services: frozenset[str], method: str, path: str) -> bool:
    """Whether a rule allows the request. `services` are names of the target service; `path` begins below its root."""
    if rules is None:
        return True
    return any(
        rule.service in services and rule.method == method and patterns.glob(rule.path, WILDCARDS).fits(path)
        for rule in rules
    )
