"""Forms from their description: what they ask, what was typed, and which complaint belongs to which field."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext

from portal.pages.access import PageRequest
from portal.pages.amounts import number_fault
from portal.pages.api_calls import Answer, ask
from portal.pages.resources.model import Asked, Choice, Deed, Field, Item, Source

LONGEST = 20_000
OF_A_FIELD = re.compile(r"Invalid input for field/attribute \S+?\. (?:Value: .*\. )?(?P<why>[A-Z][^.]*.*\.)", re.DOTALL)
NOT_SO_WRITTEN = "It cannot be written like this."
MOST_CHOICES = 1000


@dataclass(frozen=True)
class Question:
    """A field as the form shows it."""

    field: Field
    value: str
    choices: Sequence[Choice] = ()
    wrong: str = ""


def values_of(deed: Deed, sent: Mapping[str, str]) -> dict[str, str]:
    """What was typed, by field; a box that is not ticked is empty."""
    values = {}
    for field in deed.fields:
        text = sent.get(field.name, "")[:LONGEST].replace("\x00", "")
        values[field.name] = text if field.kind in ("secret", "area") else text.strip()
    return values


def beginnings(deed: Deed, item: Item, given: Mapping[str, str]) -> dict[str, str]:
    """What stands in an untouched form; the address may say more."""
    return {field.name: given.get(field.name) or field.begins_as(item) for field in deed.fields}


def first_choices(request: PageRequest, deed: Deed, values: dict[str, str], item: Item) -> dict[str, Sequence[Choice]]:
    """The options of each field; where one must be chosen and nothing was, the first of them is."""
    found: dict[str, Sequence[Choice]] = {}
    for field in deed.fields:
        if field.kind != "choice":
            continue
        options = field.choices(item) if callable(field.choices) else _options(request, field.choices)
        found[field.name] = options
        if not values.get(field.name) and not field.nothing and options:
            values[field.name] = options[0].value
    return found


def questions(
    deed: Deed, values: Mapping[str, str], choices: Mapping[str, Sequence[Choice]], wrong: Mapping[str, str]
) -> list[Question]:
    """The fields in their order, each with what is wrong with it."""
    return [
        Question(
            field,
            "" if field.kind == "secret" else values.get(field.name, ""),
            choices.get(field.name, ()),
            wrong.get(field.name, ""),
        )
        for field in deed.fields
    ]


def missing(deed: Deed, values: Mapping[str, str]) -> dict[str, str]:
    """What a form can tell by itself; the API says the rest."""
    empty = {
        field.name: f"{field.label} is needed."
        for field in deed.fields
        if field.is_required and field.kind != "file" and not values.get(field.name, "").strip()
    }
    faults = {field.name: _fault(field, values.get(field.name, "")) for field in deed.fields}
    return {name: said for name, said in faults.items() if said} | empty


def _fault(field: Field, typed: str) -> str:
    said = number_fault(typed, field.least, field.most) if field.kind == "number" and typed else ""
    return said or field.fault(typed)


def place_of(deed: Deed, answer: Answer) -> str:
    """The field that a refusal is about; empty when it is about the whole."""
    tail = re.split(r"[.\[]", answer.field.rstrip("]0123456789[."))[-1] if answer.field else ""
    for field in deed.fields:
        if tail and tail in (field.name, *field.also):
            return field.name
    quoted = set(re.findall(r"'([a-z_A-Z]+)' is a required property", answer.message))
    return next((field.name for field in deed.fields if quoted & {field.name, *field.also}), "")


def at_its_field(message: str) -> str:
    """A refusal as it stands beside its field, where the field's name and what was typed are to be seen."""
    found = OF_A_FIELD.fullmatch(message)
    if found is None:
        return NOT_SO_WRITTEN if message.startswith("Additional properties are not allowed") else message
    return NOT_SO_WRITTEN if found["why"].startswith("It does not match ") else found["why"]


def command(deed: Deed, asked: Asked) -> str:
    """The same for a shell; secrets are left to be typed there."""
    secrets = {field.name: "SECRET" for field in deed.fields if field.kind == "secret" and asked.values.get(field.name)}
    shown = Asked(asked.item, {**asked.values, **secrets}, asked.user_id, asked.project_id)
    return " ".join(word if word.startswith("openstack ") else shlex.quote(word) for word in deed.cli(shown))


def in_words(choices: Sequence[Choice]) -> Sequence[Choice]:
    """Choices that are described with the form; those that are somebody's resources keep their names."""
    return [replace(choice, words=_said(choice.words)) for choice in choices]


def _said(words: str) -> str:
    """A word of a state may begin large here, and small where the catalogue has it."""
    said = gettext(words)
    if said != words or not words:
        return said
    said = gettext(words[0].lower() + words[1:])
    return said[0].upper() + said[1:]


def _options(request: PageRequest, choices: Sequence[Choice] | Source) -> Sequence[Choice]:
    if not isinstance(choices, Source):
        return in_words(choices)
    body: Any = ask(request, choices.path, {"limit": MOST_CHOICES, **choices.query})
    found = [item for item in body.get(choices.key, ()) if choices.wanted(item)]
    return [Choice(choices.value(item), choices.words(item)) for item in found]
