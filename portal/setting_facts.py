"""Settings of this process: each with its value, source, default and meaning.

Values come from `environment` and `settings`, their meaning from docs/reference/configuration.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from functools import cache
from typing import Any

from django.conf import settings

from conductor.services.audit.operator_audit import without_secrets
from portal.environment import ONE_DATABASE, PREFIX, Environment, current
from portal.places import FILES_DIR

PAGE = "docs/reference/configuration.md"
ELSEWHERE = "Settings without a variable"
ROW = re.compile(r"^\| `(NOVELLA_[A-Z_]+)` \| (.*?) \| (.*) \|$")
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
FROM_SHELL, FROM_DEFAULT, FROM_FILE = "environment", "default", "portal/settings.py"
DERIVED, MADE, NOT_SET = "derived", "created at the first start", "not set"
HIDDEN = "set, not shown"
ONE_OF_DATABASES = "Location of one database. The URL may contain a password."


@dataclass(frozen=True)
class Setting:
    """A setting. `default` and `meaning` are from the documentation."""

    name: str
    value: str
    source: str
    default: str
    meaning: str
    is_secret: bool = False


@dataclass(frozen=True)
class Section:
    """The settings under one heading of the documentation; `place` is its anchor."""

    title: str
    place: str
    settings: list[Setting]


@dataclass(frozen=True)
class _DocumentedSetting:
    """The documentation of a variable. `has_words`: the default is described, not only a value."""

    section: str
    default: str
    meaning: str
    has_words: bool = False


def sections() -> list[Section]:
    """Return all settings, in the order of the documentation."""
    environment, reported = current(), _documentation()
    found: dict[str, list[Setting]] = {}
    for item in fields(Environment):
        if item.metadata:
            name = PREFIX + item.name.upper()
            about = reported.get(name, _DocumentedSetting("Not documented", "", ""))
            found.setdefault(about.section, []).append(_of_variable(environment, item, about))
    order = list(dict.fromkeys(one.section for one in reported.values()))
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
    """Return all words on settings pages, in English."""
    fixed = [FROM_SHELL, FROM_DEFAULT, DERIVED, MADE, NOT_SET, HIDDEN, ONE_OF_DATABASES, ELSEWHERE]
    documented = list(_documentation().values())
    texts = [*(one.section for one in documented), *(one.default for one in documented if one.has_words)]
    return [*dict.fromkeys([*fixed, *texts, *(one.meaning for one in documented if one.meaning)])]


def _of_variable(environment: Environment, item: Field[Any], about: _DocumentedSetting) -> Setting:
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
    """Return the settings of the settings file that have no variable."""
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
def _documentation() -> dict[str, _DocumentedSetting]:
    """Return the documentation by variable; empty if the page is not installed."""
    found: dict[str, _DocumentedSetting] = {}
    section = ""
    page = FILES_DIR / PAGE
    for line in page.read_text().splitlines() if page.exists() else ():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        row = ROW.match(line)
        if row:
            has_words = bool(CODE.sub("", row[2]).strip())
            found[row[1]] = _DocumentedSetting(section, _plain(row[2]), _plain(row[3]), has_words)
    return found


def _plain(text: str) -> str:
    return LINK.sub(r"\1", text).replace("`", "")


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
