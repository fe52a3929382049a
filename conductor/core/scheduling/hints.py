"""What a request's scheduler hints say: each is a list of words, which stands for its one word where it has one."""

from __future__ import annotations

from collections.abc import Sequence

from conductor.core.request_spec import RequestSpec


def words_of(spec: RequestSpec, name: str) -> Sequence[str]:
    """The words of a hint; none where it is missing, empty, or one empty word."""
    words = spec.scheduler_hints.get(name, ())
    return () if list(words) == [""] else words


def word_of(spec: RequestSpec, name: str, default: str = "") -> str | None:
    """The one word of a hint, `default` where there is no such hint; None for a list of none or several."""
    words = spec.scheduler_hints.get(name)
    if words is None:
        return default
    return words[0] if len(words) == 1 else None
