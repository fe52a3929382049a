"""Launch questions of plugins: shown, validated, stored with the request, and converted to scheduler hints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from conductor.core import json_text
from conductor.core.errors import Invalid
from conductor.core.extensions import FORM_PREFIX, Additions, LaunchForm
from conductor.plugins.options import nearest
from conductor.scheduler.active_plugins import InUse, in_use
from conductor.services.servers.types import InstanceCreate

PLACE = "os:scheduler_hints"
LONGEST = 255
READ_AS_JSON = frozenset({"integer", "number", "boolean"})


@dataclass(frozen=True)
class FieldView:
    """One question; `hint` is the scheduler hint that holds its answer."""

    hint: str
    title: str
    description: str
    kind: str
    choices: tuple[str, ...]
    default: str
    is_required: bool


@dataclass(frozen=True)
class FormView:
    """The questions of one plugin."""

    name: str
    title: str
    fields: tuple[FieldView, ...]


def offered() -> list[FormView]:
    """Return the questions of all plugins."""
    return [_view(_form(one)) for one in in_use(LaunchForm.kind)]


def applied(requested: InstanceCreate) -> InstanceCreate:
    """Return the request with the hints and metadata of its answers; the answers stay among its hints.

    Raises Invalid naming the hint, Unavailable where a plugin fails: an operator's question is never skipped.
    """
    forms = in_use(LaunchForm.kind)
    answers = {name: words for name, words in requested.scheduler_hints.items() if name.startswith(FORM_PREFIX)}
    hints = {name: list(words) for name, words in requested.scheduler_hints.items()}
    metadata = dict(requested.metadata)
    _require_known(answers, forms)
    for one in forms:
        added = _additions(one, _read(_form(one), answers))
        for name, words in added.hints.items():
            hints[name] = [*hints.get(name, ()), *(word for word in words if word not in hints.get(name, ()))]
        metadata |= added.metadata
    return replace(requested, scheduler_hints=hints, metadata=metadata) if forms else requested


def _form(one: InUse) -> LaunchForm:
    assert isinstance(one.extension, LaunchForm)
    return one.extension


def _hint(form: LaunchForm, field: str) -> str:
    return f"{FORM_PREFIX}{form.name}.{field}"


def _require_known(answers: Mapping[str, Any], forms: list[InUse]) -> None:
    known = {_hint(_form(one), field) for one in forms for field in _form(one).fields}
    for hint in answers:
        if hint not in known:
            raise _refused(hint, f"the form has no such question. {nearest(hint, known)}".strip())


def _read(form: LaunchForm, answers: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the answer to each question: as sent, or its default."""
    from jsonschema import Draft202012Validator  # most clouds have no questions
    from referencing import Registry

    found: dict[str, Any] = {}
    for field, rule in form.fields.items():
        hint = _hint(form, field)
        words = answers.get(hint, ())
        if len(words) > 1:
            raise _refused(hint, "it is one text, not a list of several")
        if not words:
            if "default" not in rule:
                raise _refused(hint, f"{rule.get('title') or field} is to be answered")
            found[field] = rule["default"]
            continue
        found[field] = _value(rule, words[0])
        judge = Draft202012Validator(dict(rule), registry=Registry())  # an empty registry: no references are fetched
        if not judge.is_valid(found[field]):
            details = {key: part for key, part in rule.items() if key not in ("title", "description", "default")}
            raise _refused(hint, f"{words[0][:60]} does not fit; it is to have the form {json.dumps(details)}")
    return found


def _value(rule: Mapping[str, Any], text: str) -> Any:
    if rule.get("type") not in READ_AS_JSON:
        return text
    try:
        return json_text.loads(text)
    except ValueError:
        return text  # the schema then refuses it


def _additions(one: InUse, answers: Mapping[str, Any]) -> Additions:
    added: Additions = one.insist("launch form", answers, check=_wrong)
    return added


def _wrong(answer: Any) -> str:
    if not isinstance(answer, Additions):
        return f"returned {type(answer).__name__} instead of Additions"
    lists = [words for words in answer.hints.values() if isinstance(words, list)]
    texts = [*answer.hints, *answer.metadata, *answer.metadata.values(), *(word for words in lists for word in words)]
    if len(lists) < len(answer.hints) or not all(isinstance(one, str) and len(one) <= LONGEST for one in texts):
        return f"returned hints or metadata that are no texts of at most {LONGEST} letters"
    return ""


def _view(form: LaunchForm) -> FormView:
    fields = []
    for name, rule in form.fields.items():
        choices = rule.get("enum", (True, False) if rule.get("type") == "boolean" else ())
        fields.append(
            FieldView(
                hint=_hint(form, name),
                title=str(rule.get("title") or name),
                description=str(rule.get("description", "")),
                kind=str(rule.get("type", "string")),
                choices=tuple(_text(one) for one in choices),
                default=_text(rule.get("default", "")),
                is_required="default" not in rule,
            )
        )
    return FormView(form.name, form.title or form.name, tuple(fields))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _refused(hint: str, why: str) -> Invalid:
    where = f"{PLACE}.{hint}"
    return Invalid(f"Invalid input for field/attribute {where}: {why}.", field=where)
