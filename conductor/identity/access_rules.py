"""Whether a request is one that an application credential may make."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from conductor.identity.models import AccessRule

# What stands for what in the path of a rule: `**` any rest, `*` and `{name}` one part.
_WILD = re.compile(r"\*\*|\*|\{[^/{}]*\}")


@lru_cache(maxsize=1024)
def _pattern(path: str) -> re.Pattern[str]:
    text, last = "", 0
    for wild in _WILD.finditer(path):
        text += re.escape(path[last : wild.start()]) + (".*" if wild.group() == "**" else "[^/]+")
        last = wild.end()
    return re.compile(text + re.escape(path[last:]))


def allow(rules: Sequence[AccessRule] | None, services: frozenset[str], method: str, path: str) -> bool:
    """`services` are the names under which the asked service is known; `path` begins below its root."""
    if rules is None:
        return True
    return any(
        rule.service in services and rule.method == method and _pattern(rule.path).fullmatch(path) for rule in rules
    )
