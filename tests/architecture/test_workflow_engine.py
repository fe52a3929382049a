"""The workflow engine: its files, the one place that moves a run, and the page that explains it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from conductor.core.states import RunState
from conductor.journal.models import WorkflowRun
from conductor.workflows.engine.transitions import Transitions
from tests.architecture.tree import PACKAGES, own_files, parsed, read

ENGINE = "conductor/workflows/engine"
PAGE = "docs/explanation/workflow-engine.md"
FILES = ("executor", "interventions", "leases", "records", "recovery", "transitions", "unit_of_work")
MOST_LINES = 2_000
TRANSITIONS = ("resume", "advance", "suspend", "fail", "compensate", "complete")
MOVING = frozenset({"state", "direction", "position", "attempt"})  # columns of a run
# The quick way of a transition, and the only modules that may name it.
QUICK = {
    "commit_alone": {f"{ENGINE}/unit_of_work.py", f"{ENGINE}/transitions.py"},
    "write_transition": {f"{ENGINE}/unit_of_work.py", "conductor/journal/statements.py"},
    "write_transitions": {f"{ENGINE}/unit_of_work.py", "conductor/journal/statements.py"},
}


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.alias):
            yield node.name


def test_the_engine_is_a_few_files() -> None:
    files = [path for path in own_files(".py") if path.parent.as_posix() == ENGINE and path.stem != "__init__"]
    assert tuple(path.stem for path in files) == FILES
    assert sum(len(read(path).splitlines()) for path in files) <= MOST_LINES


def test_runs_are_moved_in_one_place() -> None:
    """In the package of workflows, only transitions save the columns with the state and position of a run."""
    moving = {
        path.as_posix()
        for path in own_files(".py")
        if path.as_posix().startswith("conductor/workflows/")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("save", "save_run")
        if MOVING & {keyword.arg for keyword in node.keywords}
    }
    assert moving == {f"{ENGINE}/transitions.py"}


def test_no_caller_chooses_the_quick_way() -> None:
    found: dict[str, set[str]] = {name: set() for name in QUICK}
    for path in own_files(".py"):
        if path.parts[0] in PACKAGES:
            for name in QUICK.keys() & set(_names(parsed(path))):
                found[name].add(path.as_posix())
    assert found == QUICK


def test_the_page_names_files_transitions_states_and_columns() -> None:
    page = read(PAGE)
    columns = {field.name for field in WorkflowRun._meta.get_fields()}
    words = {word for code in re.findall(r"`([^`\n]+)`", page) for word in re.findall(r"\w+", code)}
    assert {*FILES, *TRANSITIONS} - words == set()
    assert [name for name in TRANSITIONS if not callable(getattr(Transitions, name, None))] == []
    assert [state for state in RunState if state not in page] == []
    assert {"owner", "fencing_token", "lease_expires_at", "wake_at", "waits_for", "uncompensated"} <= words & columns
