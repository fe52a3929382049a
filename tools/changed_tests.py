"""Finds the test modules that a change can break: those that import a changed module, directly or through others.

Only imports count, wherever they stand in a module. What Django finds by a string (a view, an app, a template) is found
by its place instead: see FOLLOWERS. The checks of the code itself are not among the results; they are always run.
"""

from __future__ import annotations

import ast
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOTS = ("portal", "conductor", "scheduler_plugins", "compute_drivers", "tools", "tests", "benchmarks")
# What a path means for tests that do not import it: the first part of the path, and globs of test modules.
FOLLOWERS = (
    ("portal/api/compute/", ("tests/api/compute/**/test_*.py",)),
    ("portal/api/identity/", ("tests/api/identity/**/test_*.py",)),
    ("portal/api/image/", ("tests/api/image/**/test_*.py",)),
    ("portal/api/network/", ("tests/api/network/**/test_*.py",)),
    ("portal/api/volume/", ("tests/api/volume/**/test_*.py",)),
    ("portal/api/placement/", ("tests/api/placement/**/test_*.py",)),
    ("portal/api/novella/", ("tests/api/novella/**/test_*.py",)),
    ("portal/pages/", ("tests/integration/pages/test_*.py", "tests/browser/test_*.py")),
    ("portal/static/", ("tests/browser/test_*.py",)),
    ("portal/live/", ("tests/integration/live/test_*.py", "tests/browser/test_*.py")),
    ("templates/", ("tests/integration/pages/test_*.py", "tests/browser/test_*.py")),
    ("compute_drivers/", ("tests/compute_drivers/test_*.py",)),
    ("scheduler_plugins/", ("tests/unit/scheduling/test_*.py",)),
)


def changed_paths(project_dir: Path, base: str) -> list[str]:
    """Return the paths that differ from the commit where this branch left `base`, also those not yet committed.

    Raises:
        subprocess.CalledProcessError: `base` is no commit.
    """
    fork = _git(project_dir, "merge-base", "HEAD", base)[0]
    return sorted({*_git(project_dir, "diff", "--name-only", fork), *_git(project_dir, *UNTRACKED)})


UNTRACKED = ("ls-files", "--others", "--exclude-standard")


def broken_by(project_dir: Path, changed: Iterable[str]) -> list[str]:
    """Return the paths of the test modules that a change of these paths can break, sorted."""
    paths = set(changed)
    reached = _importers(project_dir, paths)
    for prefix, globs in FOLLOWERS:
        if any(path.startswith(prefix) for path in paths):
            reached |= {str(found.relative_to(project_dir)) for glob in globs for found in project_dir.glob(glob)}
    return sorted(path for path in reached if _is_test(path) and (project_dir / path).exists())


def _is_test(path: str) -> bool:
    parts = Path(path).parts
    return parts[0] == "tests" and parts[1] != "architecture" and parts[-1].startswith("test_")


def _importers(project_dir: Path, changed: set[str]) -> set[str]:
    """Return the changed modules and all that import one of them, through any number of others."""
    importers: dict[str, set[str]] = defaultdict(set)
    for root in ROOTS:
        for path in (project_dir / root).rglob("*.py"):
            importer = str(path.relative_to(project_dir))
            for module in _imported(path):
                for imported in _files_of(project_dir, module):
                    importers[imported].add(importer)
    reached: set[str] = set()
    waiting = [path for path in changed if path.endswith(".py")]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += importers[name]
    return reached


def _imported(path: Path) -> set[str]:
    """Return the dotted names that a module may import; `from a import b` may mean the module a.b."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in found if name.split(".")[0] in ROOTS}


def _files_of(project_dir: Path, module: str) -> list[str]:
    path = module.replace(".", "/")
    return [file for file in (f"{path}.py", f"{path}/__init__.py") if (project_dir / file).exists()]


def _git(project_dir: Path, *words: str) -> list[str]:
    ended = subprocess.run(["git", *words], cwd=project_dir, capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()
