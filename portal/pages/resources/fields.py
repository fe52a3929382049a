"""Fields that several forms ask for, and how an answer gets into a body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from portal.pages.faces import Face
from portal.pages.resources.model import Choice, Field, Item, Source, Values

NAME = Field("name", "Name", is_required=True)
NAME_OR_NOT = Field("name", "Name")
DESCRIPTION = Field("description", "Description")
REASON = Field("reason", "Reason", is_required=True, help="Kept in the audit log: others will ask.")


def own(name: str, label: str, **more: Any) -> Field:
    """A field that begins as the resource has it."""
    return Field(name, label, start=lambda item: str(item.get(name) or ""), **more)


def any_state(faces: Mapping[str, Face], *names: str) -> Field:
    """The field of a list that keeps those in one state; these are offered."""
    choices = tuple(Choice(name, faces[name].word.capitalize()) for name in names)
    return Field("status", "State", "choice", nothing="Any state", choices=choices)


OWN_NAME = own("name", "Name")
OWN_DESCRIPTION = own("description", "Description")


def filled(values: Values, *names: str) -> dict[str, str]:
    """Those of the values that say something."""
    return {name: values[name] for name in names if values.get(name)}


def whole(text: str) -> int | str:
    """A number as a number; anything else as it was typed, so that the API says what is wrong with it."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else text


def options(values: Values, **flags: str) -> list[str]:
    """`--flag value` for those that say something."""
    words: list[str] = []
    for name, flag in flags.items():
        if values.get(name):
            words += [f"--{flag}", values[name]]
    return words


def pairs_of(text: str) -> dict[str, str]:
    """Lines of `key = value`."""
    lines = (line.partition("=") for line in text.splitlines() if line.strip())
    return {key.strip(): value.strip() for key, _, value in lines}


def pairs_text(pairs: Any) -> str:
    """The same as people edit it."""
    return "\n".join(f"{key} = {value}" for key, value in sorted((pairs or {}).items()))


def pairs_fault(text: str) -> str:
    """What is wrong with lines of `key = value`; empty when nothing is."""
    seen: set[str] = set()
    for line in (one.strip() for one in text.splitlines()):
        key, sign, _ = line.partition("=")
        if line and not (sign and key.strip()):
            return f"Write “{line[:40]}” as key = value."
        if line and key.strip() in seen:
            return f"{key.strip()[:40]} is there twice."
        seen.add(key.strip())
    return ""


def named(item: Item) -> str:
    return str(item.get("name") or item.get("id") or "ID")


def with_id(item: Item) -> str:
    """A name that leads nowhere else: with the first of its id where it has none."""
    return str(item.get("name") or "") or str(item["id"])[:8]


SERVERS = Source("/compute/v2.1/servers", "servers", with_id)
VOLUMES = Source("/volume/v3/volumes/detail", "volumes", lambda item: f"{with_id(item)} ({item['size']} GB)")
NETWORKS = Source("/network/v2.0/networks", "networks", with_id)
# Those that servers can be on: the ones outside are reached through routers.
OWN_NETWORKS = replace(NETWORKS, wanted=lambda item: not item.get("router:external"))
SUBNETS = Source("/network/v2.0/subnets", "subnets", lambda item: f"{with_id(item)} ({item['cidr']})")
