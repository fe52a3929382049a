"""Templates are in the folder of the pages that render them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.architecture.tree import PROJECT_DIR, own_files, read

TEMPLATES = PROJECT_DIR / "templates"
PAGES = PROJECT_DIR / "portal" / "pages"
SHARED_FOLDERS = {"components", "errors"}
LAYOUT = "base.html"
# Django looks for these names itself.
ERROR_PAGES = {"400.html", "403.html", "403_csrf.html", "404.html", "500.html"}
NAMED = re.compile(r"""["']([\w/]+\.html)["']""")


@cache
def templates() -> list[str]:
    return sorted(path.relative_to(TEMPLATES).as_posix() for path in TEMPLATES.rglob("*.html"))


def names_in(path: Path) -> set[str]:
    return set(NAMED.findall(read(path)))


@cache
def names_in_templates() -> dict[str, set[str]]:
    """Return the templates that each template includes or extends."""
    return {name: names_in(TEMPLATES / name) for name in templates()}


def rendered_by(package: Path) -> set[str]:
    """Return the templates that the modules of a package of pages name."""
    return set[str]().union(*(names_in(path) for path in package.glob("*.py")))


def included_in(folder: str) -> set[str]:
    """Return the templates that the layout or another template of a folder includes."""
    return {
        name
        for place, names in names_in_templates().items()
        for name in names
        if name != place and (place == LAYOUT or Path(place).parent.name == folder)
    }


def test_each_folder_of_templates_is_a_folder_of_pages() -> None:
    folders = {Path(name).parent.as_posix() for name in templates()} - {"."} - SHARED_FOLDERS
    assert folders <= {path.parent.name for path in PAGES.glob("*/__init__.py")}


def test_each_template_is_used_by_the_pages_of_its_folder() -> None:
    folders = {Path(name).parent.name for name in templates()} - SHARED_FOLDERS
    used = {folder: rendered_by(PAGES / folder) | included_in(folder) for folder in folders}
    # The reference of our own API is a page outside of `portal/pages/`.
    used[""] |= ERROR_PAGES | rendered_by(PROJECT_DIR / "portal" / "api" / "novella")
    elsewhere = [name for name in templates() if name not in used.get(Path(name).parent.name, {name})]
    assert elsewhere == []


def test_named_templates_exist_and_shared_ones_are_used() -> None:
    in_python = {name for path in own_files(".py") if path.parts[0] == "portal" for name in names_in(path)}
    named = in_python.union(*names_in_templates().values())
    assert named - set(templates()) == set()
    assert set(templates()) - named - ERROR_PAGES == set()
