"""The project's own files, for the tests that read them."""

from __future__ import annotations

import ast
import gc
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PROJECT_DIR = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("portal", "conductor", "scheduler_plugins", "compute_drivers")
FOREIGN = frozenset({"node_modules", "var", "vendor", "build", "dist", "__pycache__"})


def own_files(*suffixes: str) -> Iterator[Path]:
    """Yield every file of the project, relative to its directory, in order; of any suffix when none is given.

    Environments, caches and what others wrote are left out.
    """
    for folder, folders, names in os.walk(PROJECT_DIR):
        folders[:] = sorted(
            name for name in folders if name not in FOREIGN and (not name.startswith(".") or name == ".ci")
        )
        for name in sorted(names):
            if not suffixes or name.endswith(suffixes):
                yield (Path(folder) / name).relative_to(PROJECT_DIR)


def read(path: Path | str) -> str:
    """Return the text of a file of the project."""
    return (PROJECT_DIR / path).read_text(encoding="utf-8")


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a module; parsed once. Trees hold no garbage, and looking for it takes most of the
    time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(read(path), filename=str(path))
    finally:
        if was_enabled:
            gc.enable()


def documentation() -> str:
    """Return all of `docs/` as one text."""
    return "\n".join(read(path) for path in own_files(".md") if path.parts[0] == "docs")
