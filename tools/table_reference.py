"""The section "Tables" of docs/reference/glossary.md: every model with its table, module and meaning."""

from __future__ import annotations

from pathlib import Path

from django.apps import apps

from tools.page_sections import paragraphs, with_sections

PROJECT_DIR = Path(__file__).resolve().parent.parent
PAGE = PROJECT_DIR / "docs" / "reference" / "glossary.md"
HEAD = """
Every model with its table. `make reference` writes this section from the docstrings of the models.

| model | table | module | meaning |
|---|---|---|---|
"""


def page() -> str:
    """Return the page with the section as the code has it."""
    return with_sections(PAGE, {"Tables": lambda _: tables()})


def tables() -> str:
    """Return the section without its heading."""
    own = [model for model in apps.get_models() if model.__module__.startswith("conductor.")]
    return HEAD + "".join(sorted(map(_row, own))) + "\n"


def _row(model: type) -> str:
    module = model.__module__.replace(".", "/") + ".py"
    return f"| {model.__name__} | `{model._meta.db_table}` | `{module}` | {paragraphs(model)[0]} |\n"  # type: ignore[attr-defined]
