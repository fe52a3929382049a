"""Simulation of a request on another fleet or with other plugins; its address has the question, so it can be shared."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from conductor.core import json_text
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NovellaError
from conductor.core.plugin_choice import FILTER, KINDS, WEIGHER
from conductor.core.scheduling.what_if import NewHosts
from conductor.services.plugins import catalog, proposals
from conductor.services.plugins.catalog import PluginView
from conductor.services.plugins.plugins import PluginSettingsChange
from conductor.services.scheduling import what_if_batches, what_if_comparisons
from conductor.services.scheduling.what_if_comparisons import Comparison, WhatIfChanges, WhatIfRequest, WhatIfResult
from conductor.services.servers import launch_options
from conductor.services.servers.types import InstanceCreate
from portal.pages.permissions import PageRequest, operators_only
from portal.pages.plugin_names import words
from portal.pages.status_badges import StatusBadge

PLAIN = ("decision", "flavor", "image", "count", "zone", "hints", "properties", "replay")
FLEET = ("without", "closed", "opened", "add", "like")
SWITCHES = ("off", "on")  # of plugins, each as kind:name
WEIGHT, OPTION = "w.", "o."
FATES = {"new": "newly eligible", "gone": "no longer eligible", "other": "changed amount", "": ""}


@dataclass(frozen=True)
class PluginField:
    """A plugin in the form: whether it runs, its weight, and its options with the typed values."""

    view: PluginView
    name: str
    is_switched: bool
    weight: str
    options: list[tuple[str, str, str, str]]  # field, name, current value, typed value

    @property
    def is_changed(self) -> bool:
        return self.is_switched or bool(self.weight) or any(typed for *_, typed in self.options)


@require_safe
@operators_only
def what_if(request: PageRequest) -> HttpResponse:
    """Show the form, and the answer to a question. Nothing is changed."""
    given = request.GET
    found: dict[str, Any] = {}
    error: NovellaError | None = None
    try:
        if given.get("flavor") or given.get("decision"):
            found = _answer(what_if_comparisons.compare(request.caller, question_of(given), changes_of(given)))
        elif given.get("replay"):
            count = _number(given, "replay", 0)
            found = {"batch": what_if_batches.replay(request.caller, count, changes_of(given))}
    except NovellaError as refused:
        error = refused
    context = {**_form(request.caller, given), **found, "share": share_url(given)}
    context["propose"] = share_url(given).replace(reverse("what-if"), reverse("propose"), 1)
    context["num_proposals"] = proposals.count_open(request.caller)
    context |= {"problem": error.message if error else "", "wrong": error.details.get("field", "") if error else ""}
    return render(request, "scheduling/what_if.html", context, status=400 if error else 200)


def question_of(given: QueryDict) -> WhatIfRequest:
    """Parse the question. Raises Invalid naming the field."""
    count = _number(given, "count", 0 if given.get("decision") else 1)
    properties = _pairs(given.get("properties", ""), "properties")
    if given.get("decision"):
        return WhatIfRequest(decision_uuid=given.get("decision", "").strip(), image_properties=properties, count=count)
    hints: dict[str, list[str]] = {}
    for name, value in _lines(given.get("hints", ""), "hints"):
        hints.setdefault(name, []).append(value)
    requested = InstanceCreate(
        name="what-if",
        flavor_ref=given.get("flavor", ""),
        image_ref=given.get("image", ""),
        min_count=max(1, count),
        max_count=max(1, count),
        availability_zone=given.get("zone", ""),
        scheduler_hints=hints,
    )
    return WhatIfRequest(requested=requested, image_properties=properties)


def changes_of(given: QueryDict) -> WhatIfChanges:
    """Parse the hypothetical changes. Raises Invalid naming the field."""
    count = _number(given, "add", 0)
    return WhatIfChanges(
        without=_names(given.get("without", "")),
        closed=_names(given.get("closed", "")),
        opened=_names(given.get("opened", "")),
        add=(NewHosts(count, given.get("like", "").strip()),) if count else (),
        plugins=_changes(given),
        subset=_number(given, "subset", 0),
    )


def share_url(given: QueryDict) -> str:
    """Return the address of the question: without empty parameters, in a fixed order."""
    known = (*PLAIN, *FLEET, *SWITCHES, "subset")
    names = [*known, *sorted(name for name in given if name.startswith((WEIGHT, OPTION)))]
    pairs = [(name, value) for name in names for value in given.getlist(name) if value]
    return f"{reverse('what-if')}?{urlencode(pairs)}" if pairs else reverse("what-if")


def _changes(given: QueryDict) -> dict[str, dict[str, PluginSettingsChange]]:
    found: dict[tuple[str, str], PluginSettingsChange] = {}

    def put(kind: str, name: str, key: str, value: Any) -> None:
        before = found.get((kind, name), PluginSettingsChange())
        if key == "options":
            value = {**(before.options or {}), **value}
        found[kind, name] = replace(before, **{key: value}, keys=before.keys | {key})

    for switch in SWITCHES:
        for text in given.getlist(switch):
            kind, _, name = text.partition(":")
            if kind not in KINDS:
                words = gettext("%(text)s is not a plugin such as filter:compute_status.")
                raise Invalid(words % {"text": text[:60]}, field=switch)
            put(kind, name, "is_enabled", switch == "on")
    for field, text in ((name, given.get(name, "").strip()) for name in given):
        if text and field.startswith(WEIGHT):
            put(WEIGHER, field.removeprefix(WEIGHT), "multiplier", _decimal(text, field))
        elif text and field.startswith(OPTION):
            kind, name, option = _option_of(field)
            put(kind, name, "options", {option: _value(text)})
    changes: dict[str, dict[str, PluginSettingsChange]] = {}
    for (kind, name), change in found.items():
        changes.setdefault(kind, {})[name] = change
    return changes


def _option_of(field: str) -> tuple[str, str, str]:
    parts = field.removeprefix(OPTION).split(".", 2)
    if len(parts) != 3 or parts[0] not in KINDS:
        words = gettext("%(text)s is not an option such as o.filter.NAME.OPTION.")
        raise Invalid(words % {"text": field[:60]}, field=field[:60])
    return parts[0], parts[1], parts[2]


def _value(text: str) -> Any:
    """Parse JSON; other text stays as it is."""
    try:
        return json_text.loads(text)
    except ValueError:
        return text


def _decimal(text: str, field: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Invalid(
            gettext("Enter the weight as a number, not %(text)s.") % {"text": text[:60]}, field=field
        ) from None


def _number(given: Mapping[str, str], name: str, otherwise: int) -> int:
    text = given.get(name, "").strip()
    if text and not (text.isascii() and text.isdecimal() and len(text) <= 6):
        words = gettext("%(name)s must be a whole number from 0 to 999999, not %(text)s.")
        raise Invalid(words % {"name": name, "text": text[:60]}, field=name)
    return int(text) if text else otherwise


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in re.split(r"[\s,]+", text) if part)


def _lines(text: str, field: str) -> list[tuple[str, str]]:
    pairs = []
    for line in filter(None, map(str.strip, re.split(r"[\r\n]+", text))):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise Invalid(gettext("Enter name=value on each line, not %(text)s.") % {"text": line[:60]}, field=field)
        pairs.append((name.strip(), value.strip()))
    return pairs


def _pairs(text: str, field: str) -> dict[str, str]:
    return dict(_lines(text, field))


def _form(caller: RequestContext, given: QueryDict) -> dict[str, Any]:
    choices = launch_options.choices(caller)
    knobs = [_knob(one, given) for one in catalog.catalogue(caller).plugins if one.kind in KINDS]
    return {
        "caller": caller,
        "form": {name: given.get(name, "") for name in (*PLAIN, *FLEET, "subset")},
        "flavors": choices.flavors,
        "images": choices.images,
        "zones": choices.zones,
        "groups": [
            {"heading": title, "knobs": [one for one in knobs if one.view.kind == kind], "kind": kind}
            for kind, title in ((FILTER, "Filters"), (WEIGHER, "Weighers"))
        ],
        "batches": [str(count) for count in what_if_batches.BATCHES],
        "changed_plugins": sum(one.is_changed for one in knobs),
    }


def _knob(view: PluginView, given: QueryDict) -> PluginField:
    switch = "off" if view.is_enabled else "on"
    options = [
        (field, one.name, "" if one.is_secret else json.dumps(one.value), given.get(field, ""))
        for one in view.options
        if (field := f"{OPTION}{view.kind}.{view.name}.{one.name}")
    ]
    is_switched = f"{view.kind}:{view.name}" in given.getlist(switch)
    return PluginField(view, words(view.name), is_switched, given.get(f"{WEIGHT}{view.name}", ""), options)


def _answer(found: Comparison) -> dict[str, Any]:
    then = found.then or found.now
    return {
        "found": found,
        "sides": [
            {"heading": "Current", "answer": found.now, "badge": _badge(found.now)},
            *([{"heading": "Simulated", "answer": then, "badge": _badge(then)}] if found.then else []),
        ],
        "stages": [(words(one.filter), one) for one in found.stages],
        "hosts": [(one, FATES[one.fate]) for one in found.hosts],
    }


def _badge(answer: WhatIfResult) -> StatusBadge:
    if answer.fits:
        return StatusBadge("good", "eligible")
    return StatusBadge("waiting", "fits partly") if answer.placed else StatusBadge("bad", "doesn't fit")
