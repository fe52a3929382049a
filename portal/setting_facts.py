"""Every setting as it is in this process: its value, where that came from, its default, and what it is for.

Values come from `environment` and `settings`, what they mean from docs/configuration.md: nothing is told twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from functools import cache
from typing import Any

from django.conf import settings

from conductor.services.operator_audit import without_secrets
from portal.environment import ONE_DATABASE, PREFIX, PROJECT_DIR, Environment, current

PAGE = "docs/configuration.md"
ELSEWHERE = "What is not a variable"
ROW = re.compile(r"^\| `(NOVELLA_[A-Z_]+)` \| (.*?) \| (.*) \|$")
LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
FROM_SHELL, FROM_DEFAULT, FROM_FILE = "environment", "default", "portal/settings.py"
DERIVED, MADE, NOT_SET = "derived", "made at the first start", "not set"
HIDDEN = "set, not shown"
ONE_OF_DATABASES = "where one of the databases is; a URL may hold a password"


@dataclass(frozen=True)
class Setting:
    """One setting. `default` and `meaning` are the documentation's words."""

    name: str
    value: str
    source: str
    default: str
    meaning: str
    is_secret: bool = False


@dataclass(frozen=True)
class Section:
    """The settings under one heading of the documentation; `place` is where they are explained."""

    title: str
    place: str
    settings: list[Setting]


@dataclass(frozen=True)
class _Told:
    """What the documentation says of a variable."""

    section: str
    default: str
    meaning: str


def sections() -> list[Section]:
    """All settings, in the order of the documentation."""
    environment, told = current(), _documentation()
    found: dict[str, list[Setting]] = {}
    for item in fields(Environment):
        if item.metadata:
            name = PREFIX + item.name.upper()
            about = told.get(name, _Told("Not documented", "", ""))
            found.setdefault(about.section, []).append(_of_variable(environment, item, about))
    order = list(dict.fromkeys(one.section for one in told.values()))
    for name in sorted(environment.given):
        if name.startswith(ONE_DATABASE):
            meaning = ONE_OF_DATABASES
            found["PostgreSQL"] = [
                *found.get("PostgreSQL", []),
                Setting(name, HIDDEN, FROM_SHELL, "none", meaning, is_secret=True),
            ]
    found[ELSEWHERE] = _of_file()
    titles = sorted(found, key=lambda title: order.index(title) if title in order else len(order))
    return [Section(title, f"{PAGE}#{_anchor(title)}", found[title]) for title in titles if found[title]]


def words() -> list[str]:
    """What pages say of settings, in English."""
    fixed = [FROM_SHELL, FROM_DEFAULT, DERIVED, MADE, NOT_SET, HIDDEN, ONE_OF_DATABASES]
    return [*fixed, *(one.meaning for one in _documentation().values() if one.meaning)]


def _of_variable(environment: Environment, item: Field[Any], about: _Told) -> Setting:
    name, value = PREFIX + item.name.upper(), getattr(environment, item.name)
    is_secret, is_set = not item.repr, value not in (None, "", (), {})
    shown = (HIDDEN if is_secret else _text(value)) if is_set else NOT_SET
    return Setting(name, shown, _source(environment, item, is_set), about.default, about.meaning, is_secret)


def _source(environment: Environment, item: Field[Any], is_set: bool) -> str:
    if PREFIX + item.name.upper() in environment.given:
        return FROM_SHELL
    if item.metadata["default"] or not is_set:
        return FROM_DEFAULT
    return MADE if item.name == "secret_key" else DERIVED


def _of_file() -> list[Setting]:
    """What belongs to a deployment rather than to a shell."""
    variables = {PREFIX + item.name.upper() for item in fields(Environment)}
    names = sorted(name for name in dir(settings) if name.startswith(PREFIX) and name not in variables)
    return [Setting(name, _text(without_secrets(getattr(settings, name))), FROM_FILE, "", "") for name in names]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_text(one)}" for key, one in value.items()) or "empty"
    if isinstance(value, list | tuple):
        return ", ".join(_text(one) for one in value) or "empty"
    return f"{value:g}" if isinstance(value, float) else str(value)


@cache
def _documentation() -> dict[str, _Told]:
    """By variable. Where the documentation was not brought along, nothing is told."""
    found: dict[str, _Told] = {}
    section = ""
    page = PROJECT_DIR / PAGE
    for line in page.read_text().splitlines() if page.exists() else ():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        row = ROW.match(line)
        if row:
            found[row[1]] = _Told(section, _plain(row[2]), _plain(row[3]))
    return found


def _plain(text: str) -> str:
    return LINK.sub(r"\1", text).replace("`", "")


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
