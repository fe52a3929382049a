"""Settings of this process: each with its value, source, default and meaning.

Values come from `environment` and `settings`, meanings from `setting_texts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields
from typing import Any

from django.conf import settings

from conductor.services.audit.operator_audit import without_secrets
from portal import settings as shipped
from portal.environment import ONE_DATABASE, PREFIX, Environment, current
from portal.setting_texts import DATABASES, SECTIONS, SettingText

PAGE = "docs/reference/configuration.md"
LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
FROM_SHELL, FROM_DEFAULT, FROM_FILE = "environment", "default", "portal/settings.py"
ON, OFF, NONE = "on", "off", "empty"
DERIVED, MADE, NOT_SET = "derived", "created at the first start", "not set"
HIDDEN = "set, not shown"
VALUE_WORDS = frozenset({ON, OFF, NONE, NOT_SET, HIDDEN})
ONE_OF_DATABASES = "Location of one database. The URL may contain a password."
EMPTY: tuple[object, ...] = (None, "", (), {})
VARIABLES: Mapping[str, Field[Any]] = {PREFIX + one.name.upper(): one for one in fields(Environment) if one.metadata}


@dataclass(frozen=True)
class Setting:
    """A setting. `default` and `meaning` are plain text; a value that is no word is shown as it is, untranslated."""

    name: str
    value: str
    source: str
    default: str
    meaning: str
    is_secret: bool = False
    is_value_word: bool = False
    is_default_word: bool = False


@dataclass(frozen=True)
class Section:
    """The settings under one heading of the documentation; `place` is its anchor."""

    title: str
    place: str
    settings: list[Setting]


def sections() -> list[Section]:
    """Return all settings, in the order of the documentation."""
    environment = current()
    found = {
        title: [_setting(environment, name, text) for name, text in texts.items()] for title, texts in SECTIONS.items()
    }
    found[DATABASES] += _single_databases(environment)
    return [Section(title, f"{PAGE}#{_anchor(title)}", rows) for title, rows in found.items() if rows]


def words() -> list[str]:
    """Return all words on settings pages, in English."""
    fixed = [FROM_SHELL, FROM_DEFAULT, DERIVED, MADE, NOT_SET, HIDDEN, ON, OFF, NONE, ONE_OF_DATABASES]
    texts = [(name, text) for section in SECTIONS.values() for name, text in section.items()]
    derived = [_plain(text.default) for name, text in texts if not _fixed_default(name)]
    return [*dict.fromkeys([*fixed, *SECTIONS, *derived, *(_plain(text.meaning) for _, text in texts)])]


def default_of(name: str, text: SettingText) -> str:
    """Return the default of a setting in Markdown: its value, or the description of a derived one."""
    value = _fixed_default(name)
    return f"`{value}`" if value else text.default


def _fixed_default(name: str) -> str:
    """Return the default as it is written, in a shell or in Python; "" for none, and for one that is derived."""
    if name in VARIABLES:
        return str(VARIABLES[name].metadata["default"])
    value = getattr(shipped, name)
    return repr(value) if value not in EMPTY else ""


def _setting(environment: Environment, name: str, text: SettingText) -> Setting:
    value, source, is_secret = _shown(environment, name)
    return Setting(
        name=name,
        value=value,
        source=source,
        default=_plain(default_of(name, text)),
        meaning=_plain(text.meaning),
        is_secret=is_secret,
        is_value_word=value in VALUE_WORDS,
        is_default_word=not _fixed_default(name),
    )


def _shown(environment: Environment, name: str) -> tuple[str, str, bool]:
    """Return a setting's value as it is shown, its source, and whether it is a secret."""
    if name not in VARIABLES:
        return _text(without_secrets(getattr(settings, name))), FROM_FILE, False
    item = VARIABLES[name]
    value = getattr(environment, item.name)
    is_secret, is_set = not item.repr, value not in EMPTY
    shown = (HIDDEN if is_secret else _text(value)) if is_set else NOT_SET
    return shown, _source(environment, item, is_set), is_secret


def _single_databases(environment: Environment) -> Iterator[Setting]:
    """Yield the variables that give the URL of one database."""
    for name in sorted(environment.given):
        if name.startswith(ONE_DATABASE):
            yield Setting(name, HIDDEN, FROM_SHELL, "none", ONE_OF_DATABASES, True, True, True)


def _source(environment: Environment, item: Field[Any], is_set: bool) -> str:
    if PREFIX + item.name.upper() in environment.given:
        return FROM_SHELL
    if item.metadata["default"] or not is_set:
        return FROM_DEFAULT
    return MADE if item.name == "secret_key" else DERIVED


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return ON if value else OFF
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_text(one)}" for key, one in value.items()) or NONE
    if isinstance(value, list | tuple):
        return ", ".join(_text(one) for one in value) or NONE
    return f"{value:g}" if isinstance(value, float) else str(value)


def _plain(text: str) -> str:
    return LINK.sub(r"\1", text).replace("`", "")


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
