"""Forms from their description: fields, values, and the field of each error."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.utils.translation import gettext

from conductor.core.messages import Message
from portal.pages.amounts import number_fault
from portal.pages.permissions import PageRequest
from portal.pages.resources import service_calls
from portal.pages.resources.model import (
    ActionResult,
    Field,
    FieldOption,
    Item,
    ItemOptions,
    ResourceAction,
    SubmittedForm,
)

LONGEST = 20_000
NOT_SO_WRITTEN = "Enter a valid value."
NEED_FORM = frozenset({"invalid.pattern", "invalid.unexpected", "invalid.all_unexpected"})  # of no use beside a field
MOST_CHOICES = 1000


@dataclass(frozen=True)
class FormQuestion:
    """A field for the template."""

    field: Field
    value: str
    choices: Sequence[FieldOption] = ()
    wrong: str = ""


def values_of(action: ResourceAction, sent: Mapping[str, str]) -> dict[str, str]:
    """Return the submitted values by field; an unchecked box is empty."""
    values = {}
    for field in action.fields:
        text = sent.get(field.name, "")[:LONGEST].replace("\x00", "")
        values[field.name] = text if field.kind in ("secret", "area") else text.strip()
    return values


def beginnings(action: ResourceAction, item: Item, given: Mapping[str, str]) -> dict[str, str]:
    """Return the initial values of a form; the address may set some."""
    return {field.name: given.get(field.name) or field.begins_as(item) for field in action.fields}


def first_choices(
    request: PageRequest, action: ResourceAction, values: dict[str, str], item: Item
) -> dict[str, Sequence[FieldOption]]:
    """Return the options of each field; a required choice without a value gets the first option."""
    found: dict[str, Sequence[FieldOption]] = {}
    for field in action.fields:
        if field.kind != "choice":
            continue
        options = field.choices(item) if callable(field.choices) else _options(request, field.choices)
        found[field.name] = options
        if not values.get(field.name) and not field.nothing and options:
            values[field.name] = options[0].value
    return found


def questions(
    action: ResourceAction,
    values: Mapping[str, str],
    choices: Mapping[str, Sequence[FieldOption]],
    wrong: Mapping[str, str],
) -> list[FormQuestion]:
    """Return the fields in order, each with its error."""
    return [
        FormQuestion(
            field,
            "" if field.kind == "secret" else values.get(field.name, ""),
            choices.get(field.name, ()),
            wrong.get(field.name, ""),
        )
        for field in action.fields
    ]


def missing(action: ResourceAction, values: Mapping[str, str]) -> dict[str, str]:
    """Return the errors that the form itself can find; the API finds the others."""
    empty = {
        field.name: gettext("%(field)s is required.") % {"field": gettext(field.label)}
        for field in action.fields
        if field.is_required and field.kind != "file" and not values.get(field.name, "").strip()
    }
    faults = {field.name: _fault(field, values.get(field.name, "")) for field in action.fields}
    return {name: reported for name, reported in faults.items() if reported} | empty


def _fault(field: Field, typed: str) -> str:
    reported = number_fault(typed, field.least, field.most) if field.kind == "number" and typed else ""
    return reported or field.fault(typed)


def place_of(action: ResourceAction, answer: ActionResult) -> str:
    """Return the field that an error is about; empty for the whole form."""
    tail = re.split(r"[.\[]", answer.field.rstrip("]0123456789[."))[-1] if answer.field else ""
    for field in action.fields:
        if tail and tail in (field.name, *field.also):
            return field.name
    fix = _fix(answer.message)
    missing = fix.values["name"].strip("'") if isinstance(fix, Message) and fix.code == "invalid.missing" else ""
    return next((field.name for field in action.fields if missing in (field.name, *field.also)), "")


def at_its_field(reported: str) -> str:
    """Shorten an error for its place beside the field, which shows name and value."""
    fix = _fix(reported)
    return NOT_SO_WRITTEN if isinstance(fix, Message) and fix.code in NEED_FORM else fix


def _fix(reported: str) -> str:
    """Return an error without the name of its field."""
    return reported.values["fix"] if isinstance(reported, Message) and "fix" in reported.values else reported


def command(action: ResourceAction, form: SubmittedForm) -> str:
    """Return the shell command for the same action; secrets are left to be typed there."""
    secrets = {
        field.name: "SECRET" for field in action.fields if field.kind == "secret" and form.values.get(field.name)
    }
    shown = SubmittedForm(form.item, {**form.values, **secrets}, form.user_id)
    return " ".join(word if word.startswith("openstack ") else shlex.quote(word) for word in action.cli(shown))


def in_words(choices: Sequence[FieldOption]) -> Sequence[FieldOption]:
    """Translate options that the form itself describes; names of resources stay as they are."""
    return [replace(choice, words=_translated(choice.words)) for choice in choices]


def _translated(words: str) -> str:
    """Translate a word of a state, in either capitalization of the catalogue."""
    reported = gettext(words)
    if reported != words or not words:
        return reported
    reported = gettext(words[0].lower() + words[1:])
    return reported[0].upper() + reported[1:]


def _options(request: PageRequest, choices: Sequence[FieldOption] | ItemOptions) -> Sequence[FieldOption]:
    if isinstance(choices, ItemOptions):
        return service_calls.list_options(request.caller, choices, MOST_CHOICES)
    return in_words(choices)
