"""Translatable messages: a code with its values, rendered in English here and in other languages by pages.

A `Message` is a string, its English text: APIs, logs and commands use it as one. It keeps its code and its values, so
that a page can render it in the reader's language. The texts of all codes are in `conductor/core/texts/`. Text of a
hypervisor or plugin is a plain string, and is shown as it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from conductor.core.texts import TEXTS
from conductor.core.texts.forms import Plural

CODE, VALUES = "code", "values"
Value = Any  # a str, shown as it is, a number, a Message, or a list of these


@dataclass(frozen=True)
class Wording:
    """Renders texts, plurals, numbers and plugin names in one language."""

    text: Callable[[str], str]
    plural: Callable[[str, str, int], str]
    number: Callable[[float], str]
    plugin: Callable[[str], str]


class Message(str):
    """The English text of a code with its values."""

    __slots__ = ("code", "values")

    code: str
    values: Mapping[str, Value]

    def __new__(cls, code: str, values: Mapping[str, Value]) -> Self:
        self = super().__new__(cls, _rendered(code, values, ENGLISH))
        self.code = code
        self.values = values
        return self

    def __str__(self) -> str:  # so that `str(…)` of a message keeps it a message
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Message, (self.code, dict(self.values))

    def __deepcopy__(self, memo: object) -> Self:
        return self


def message(code: str, /, **values: Value) -> Message:
    """Build a message: `message("workflow.not_failed", state=…)`. Raises KeyError for a code without a text."""
    return Message(code, values)


def word(text: str) -> Message:
    """Return a word of the product that has a translation of its own: a state, the title of a step."""
    return Message("word", {"text": text})


def plugin_name(name: str) -> Message:
    """Return a message for the name of a filter or weigher; pages show its display name."""
    return Message("plugin", {"name": name})


def sentences(*parts: str) -> str:
    """Join sentences; empty ones are left out."""
    present = [part for part in parts if part]
    return present[0] if len(present) == 1 else Message("sentences", {"parts": present}) if present else ""


def all_of(parts: Sequence[str]) -> str:
    """Join parts as `memory`, `memory and disk`, or `vCPUs, memory and disk`."""
    if len(parts) < 2:
        return parts[0] if parts else ""
    return message("list.and", first=list(parts[:-1]), last=parts[-1])


def several(parts: Sequence[str]) -> str:
    """Join texts with commas: `4 vCPU, 512 MB`."""
    return parts[0] if len(parts) == 1 else Message("list", {"parts": list(parts)}) if parts else ""


def render(given: Message, wording: Wording) -> str:
    """Return the message in a language."""
    return _rendered(given.code, given.values, wording)


def with_texts(given: str, change: Callable[[str], str]) -> str:
    """Return the message with `change` applied to each plain text in it; a plain string is changed itself."""
    if not isinstance(given, Message):
        return change(given)
    return Message(given.code, {name: _changed(value, change) for name, value in given.values.items()})


def shortened(given: str, longest: int) -> str:
    """Truncate a text to a length that can be stored; a message stays one where it is short enough."""
    return given if len(given) <= longest else given[:longest]


def pack(given: str) -> Any:
    """Return the JSON of a text: the code and values of a message, or a plain string itself."""
    if type(given) is not Message:
        return given
    return {CODE: given.code, VALUES: {name: _packed(value) for name, value in given.values.items()}}


def unpack(kept: Any) -> str:
    """Return the text of JSON that `pack` made. A message of another release without a text here shows its code."""
    if not isinstance(kept, Mapping):
        return str(kept)
    code, values = str(kept.get(CODE)), kept.get(VALUES)
    try:
        return Message(code, {name: _unpacked(value) for name, value in values.items()})  # type: ignore[union-attr]
    except (KeyError, TypeError, ValueError, AttributeError):
        return f"{code} {values or ''}".strip()


def fields(given: str, name: str = "message") -> dict[str, Any]:
    """Return JSON with the text under a name, for programs, and with the `code` and `values` of a message."""
    packed = pack(given)
    return {name: given, **(packed if isinstance(packed, Mapping) else {})}


def text_of(kept: Mapping[str, Any] | None, name: str = "message") -> str:
    """Return the text of JSON with the fields above; empty where there is none."""
    found = unpack(kept) if kept and kept.get(CODE) else ""
    return found if isinstance(found, Message) else str((kept or {}).get(name) or "")


def to_json_text(given: str) -> str:
    """Return JSON of a message's code and values, for a text column; empty for a plain string."""
    return json.dumps(pack(given)) if isinstance(given, Message) else ""


def of_json_text(kept: str, otherwise: str) -> str:
    """Parse a message from such a column. `otherwise` is returned where there is none."""
    found = unpack(json.loads(kept)) if kept else otherwise
    return found if isinstance(found, Message) else otherwise


def restored(error: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the JSON of an error with its message restored."""
    return None if error is None else {**error, "message": text_of(error)}


def _changed(value: Value, change: Callable[[str], str]) -> Value:
    if isinstance(value, str):
        return with_texts(value, change)
    return [_changed(one, change) for one in value] if isinstance(value, list | tuple) else value


def _packed(value: Value) -> Any:
    if isinstance(value, str):
        return pack(value)
    if isinstance(value, list | tuple):
        return [_packed(one) for one in value]
    return value if isinstance(value, int | float) and math.isfinite(value) else str(value)


def _unpacked(value: Any) -> Value:
    if isinstance(value, Mapping):
        return unpack(value)
    return [_unpacked(one) for one in value] if isinstance(value, list) else value


def _rendered(code: str, values: Mapping[str, Value], wording: Wording) -> str:
    build = BUILT.get(code)
    if build is not None:
        return build(values, wording)
    text = TEXTS[code]
    shown = {name: _shown(value, wording) for name, value in values.items()}
    if isinstance(text, Plural):
        return wording.plural(text.one, text.many, values["count"]) % shown
    return wording.text(text) % shown


def _shown(value: Value, wording: Wording) -> str:
    if type(value) is str:
        return value
    if isinstance(value, Message):
        return _rendered(value.code, value.values, wording)
    if isinstance(value, int | float):
        return wording.number(value)
    if isinstance(value, list | tuple):
        return ", ".join(_shown(one, wording) for one in value)
    return str(value)


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.1f}"


def _one_or_many(one: str, many: str, count: int) -> str:
    return one if count == 1 else many


# Codes whose text is computed.
BUILT: Mapping[str, Callable[[Mapping[str, Value], Wording], str]] = {
    "word": lambda values, wording: wording.text(values["text"]) if values["text"] else "",
    "plugin": lambda values, wording: wording.plugin(values["name"]),
    "list": lambda values, wording: _shown(values["parts"], wording),
    "sentences": lambda values, wording: " ".join(_shown(one, wording) for one in values["parts"]),
}
ENGLISH = Wording(text=str, plural=_one_or_many, number=_number, plugin=str)
