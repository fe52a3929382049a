"""The section "Tables" of docs/reference/glossary.md: every model with its table, module and meaning."""

from __future__ import annotations

import inspect
from pathlib import Path

from django.apps import apps

PROJECT_DIR = Path(__file__).resolve().parent.parent
PAGE = PROJECT_DIR / "docs" / "reference" / "glossary.md"
HEADING, NEXT_HEADING = "## Tables\n", "## Names\n"
HEAD = f"""{HEADING}
Every model with its table. `make reference` writes this section from the docstrings of the models.

| model | table | module | meaning |
|---|---|---|---|
"""


def tables() -> str:
    """Return the section."""
    own = [model for model in apps.get_models() if model.__module__.startswith("conductor.")]
    return HEAD + "".join(sorted(map(_row, own))) + "\n"


def _row(model: type) -> str:
    meaning = inspect.cleandoc(model.__doc__ or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
    module = model.__module__.replace(".", "/") + ".py"
    return f"| {model.__name__} | `{model._meta.db_table}` | `{module}` | {meaning} |\n"  # type: ignore[attr-defined]


def page() -> str:
    """Return the page with the section as the code has it."""
    before, _, rest = PAGE.read_text().partition(HEADING)
    return f"{before}{tables()}{NEXT_HEADING}{rest.partition(NEXT_HEADING)[2]}"
