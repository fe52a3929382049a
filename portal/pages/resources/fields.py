"""Fields that several forms share, and helpers that put their values into bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext

from portal.pages.resources.model import Field, FieldOption, Item, Values
from portal.pages.status_badges import StatusBadge

NAME = Field("name", "Name", is_required=True)
NAME_OR_NOT = Field("name", "Name")
DESCRIPTION = Field("description", "Description")
REASON = Field("reason", "Reason", is_required=True, help="Recorded in the audit log.")


def own(name: str, label: str, **more: Any) -> Field:
    """Return a field whose initial value is the resource's."""
    return Field(name, label, start=lambda item: str(item.get(name) or ""), **more)


def any_state(badges: Mapping[str, StatusBadge], *names: str) -> Field:
    """Return a list's filter by state, with these options."""
    choices = tuple(FieldOption(name, badges[name].word.capitalize()) for name in names)
    return Field("status", "State", "choice", nothing="Any state", choices=choices)


OWN_NAME = own("name", "Name")
OWN_DESCRIPTION = own("description", "Description")


def filled(values: Values, *names: str) -> dict[str, str]:
    """Return the values that are not empty."""
    return {name: values[name] for name in names if values.get(name)}


def whole(text: str) -> int | str:
    """Return a whole number; any other text unchanged, so that the API reports the error."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else text


def options(values: Values, **flags: str) -> list[str]:
    """Return `--flag value` for values that are not empty."""
    words: list[str] = []
    for name, flag in flags.items():
        if values.get(name):
            words += [f"--{flag}", values[name]]
    return words


def pairs_of(text: str) -> dict[str, str]:
    """Parse lines of `key = value`."""
    lines = (line.partition("=") for line in text.splitlines() if line.strip())
    return {key.strip(): value.strip() for key, _, value in lines}


def pairs_text(pairs: Any) -> str:
    """Return pairs as lines of `key = value`."""
    return "\n".join(f"{key} = {value}" for key, value in sorted((pairs or {}).items()))


def pairs_fault(text: str) -> str:
    """Return the error in lines of `key = value`; empty without one."""
    seen: set[str] = set()
    for line in (one.strip() for one in text.splitlines()):
        key, sign, _ = line.partition("=")
        if line and not (sign and key.strip()):
            return gettext("Enter key = value on each line, not “%(text)s”.") % {"text": line[:40]}
        if line and key.strip() in seen:
            return gettext("%(name)s is listed twice.") % {"name": key.strip()[:40]}
        seen.add(key.strip())
    return ""


def named(item: Item) -> str:
    return str(item.get("name") or item.get("id") or "ID")


def with_id(item: Item) -> str:
    """Return the name; with the start of the id if there is none."""
    return str(item.get("name") or "") or str(item["id"])[:8]
