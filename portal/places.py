"""Folders of Novella's own files, in a checkout of the project or in an installed package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PACKAGE_DIR = Path(__file__).resolve().parent
PROJECT_DIR = PACKAGE_DIR.parent
IS_CHECKOUT = (PROJECT_DIR / "manage.py").is_file()
# A wheel has the templates and the page about settings inside the package.
FILES_DIR = PROJECT_DIR if IS_CHECKOUT else PACKAGE_DIR
TEMPLATES_DIR = FILES_DIR / "templates"


def base_of_relative_paths() -> Path:
    """Return the folder where relative paths start: the checkout, or the working directory of an installed package."""
    return PROJECT_DIR if IS_CHECKOUT else Path.cwd()


def default_data_dir(variables: Mapping[str, str]) -> str:
    """Return the data folder when `NOVELLA_DATA` is not set: `var` in a checkout, else the user's own data folder."""
    if IS_CHECKOUT:
        return "var"
    return f"{variables.get('XDG_DATA_HOME') or '~/.local/share'}/novella"
