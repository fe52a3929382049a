"""Imports Django REST framework without the optional libraries that it uses if they are installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

UNUSED = frozenset({"django.contrib.postgres", "docutils", "inflection", "pygments", "requests", "yaml"})


def load_rest_framework() -> None:
    """Import Django REST framework; idempotent.

    A PostgreSQL driver, an HTTP client and a highlighter cost each process half a second and 20 MiB; code that needs
    one imports it.
    """
    with _without(UNUSED):
        import rest_framework.compat
        import rest_framework.schemas  # noqa: F401


class _Absent(MetaPathFinder):
    """Import finder that reports modules as not installed."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        if fullname in self._names:
            raise ModuleNotFoundError(f"{fullname} is not loaded here.", name=fullname)
        return None


@contextmanager
def _without(names: frozenset[str]) -> Iterator[None]:
    """Let imports of these modules fail in this context, unless they are already imported."""
    finder = _Absent(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
