"""Plugins, for operators: their order, health and settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from conductor.core import json_text
from conductor.core.errors import Conflict, Invalid, NovellaError, StaleRevision
from conductor.core.plugin_choice import CONSEQUENCES, DECIDES, FILTER, KINDS, MODES
from conductor.services.plugins import catalog, details, plugins
from conductor.services.plugins.catalog import Catalogue, ConformanceView, OptionView, PluginView
from conductor.services.plugins.plugins import PluginSettingsChange
from conductor.services.scheduling import what_if_batches
from conductor.services.scheduling.what_if_batches import BatchResult
from conductor.services.scheduling.what_if_comparisons import WhatIfChanges
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, operators_only
from portal.pages.status_badges import StatusBadge

TITLES = {
    "filter": ("Filters", "Reject hosts that can't run a server, one after another."),
    "weigher": ("Weighers", "Assign weights to hosts. The host with the highest weight is selected."),
    "driver": ("Compute drivers", "Each compute host uses one of them."),
    "membership": ("Membership", "Conductors use one of them to detect failed conductors."),
    "sink": ("Notification sinks", "Receive notifications about servers, as configured in the settings."),
    "prefilter": ("Pre-filters", "Turn a request into host requirements before hosts are filtered."),
    "quota_source": ("Quota sources", "Can lower the quotas of projects."),
    "launch_form": ("Launch forms", "Add fields to the launch form."),
    "panel": ("Panels", "Add cards to the pages of servers or hosts."),
    "image_converter": ("Image converters", "Read and write additional disk formats."),
    "flow_observer": ("Observers of workflows", "Are notified of events. They can't influence them."),
}
TONES = {
    catalog.RUNS: "good",
    catalog.WATCHES: "working",
    catalog.OFF: "none",
    catalog.IN_QUARANTINE: "bad",
    catalog.MISSING: "bad",
    catalog.AVAILABLE: "none",
}
EXTENSIONS = frozenset(TITLES) - {*KINDS, "driver", "membership", "sink"}
# Results of conformance tests; levels of drivers are names.
LAW_WORDS = {
    "kept": "conforms",
    "broken": "conformance failed",
    "none": "conformance not tested",
    "core": "conformance: core",
    "migration": "conformance: migration",
    "snapshot": "conformance: snapshot",
    "full": "conformance: full",
}
COMMANDS = {**dict.fromkeys(KINDS, "novella-plugin-check"), "driver": "novella-driver-conformance"}
LONGEST_REASON = 255
PREVIEWED = 100  # requests on which a change is simulated
NUMBERS = frozenset({"integer", "number"})
STATUS: tuple[tuple[type[NovellaError], int], ...] = ((StaleRevision, 412), (Conflict, 409))


@dataclass(frozen=True)
class PluginRow:
    """A plugin in the list; `above` and `below` are the orders after moving it up or down."""

    view: PluginView
    badge: StatusBadge
    law: StatusBadge | None = None
    above: str = ""
    below: str = ""


@dataclass(frozen=True)
class OptionField:
    """An option in the form. `widget` is choice, number, text, secret or json; `text` is its value."""

    option: OptionView
    widget: str
    text: str
    choices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"option.{self.option.name}"


@require_safe
@operators_only
def plugin_list(request: PageRequest) -> HttpResponse:
    """Show all plugins by kind, in the order in which they run."""
    found = catalog.catalogue(request.caller)
    groups = [_group(found, kind) for kind in TITLES if any(one.kind == kind for one in found.plugins)]
    return render(
        request, "scheduling/plugins.html", {"caller": request.caller, "groups": groups, "shut_out": found.shut_out}
    )


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def plugin(request: PageRequest, kind: str, name: str) -> HttpResponse:
    """Show a plugin with its details, and for filters and weighers a form with all settings."""
    if kind not in TITLES or (request.method == "POST" and kind not in KINDS):
        raise Http404
    found = catalog.catalogue(request.caller, kind if kind in KINDS else "")
    view = _find(found, kind, name)
    if request.method != "POST":
        return _page(request, found, view)
    try:
        change = PluginSettingsChange(keys=CHOICES) if "reset" in request.POST else _asked(request, view)
        if "preview" in request.POST:
            return _page(request, found, _as_asked(view, change), preview=_preview(request, view, change))
        reason = request.POST.get("disable_reason", "").strip()[:LONGEST_REASON]
        if _stops_filtering(view, change) and not reason:
            return _page(request, found, _as_asked(view, change), must_explain=True)
        plugins.change(request.caller, kind, plugins={name: change}, version=_version(request), reason=reason)
    except (Invalid, Conflict) as error:
        return _page(request, catalog.catalogue(request.caller, kind), view, error)
    _say(
        request,
        gettext("%(name)s changed. Schedulers use the new setting from their next decision on.") % {"name": name},
    )
    return redirect("plugin", kind, name)


@require_POST
@operators_only
def order(request: PageRequest, kind: str) -> HttpResponse:
    """Store the order of plugins in the pressed button's value."""
    names = [name for name in request.POST.get("order", "").split(",") if name]
    try:
        plugins.change(request.caller, kind, order=names, version=_version(request))
    except (Invalid, Conflict) as error:
        leave_note(request, error.message, "bad")
    else:
        _say(request, gettext("Order changed. Schedulers use the new order from their next decision on."))
    return redirect("plugins")


@require_POST
@operators_only
def shut(request: PageRequest, kind: str, name: str, action: str) -> HttpResponse:
    """Quarantine a plugin, or release it."""
    reason = request.POST.get("reason", "")
    try:
        if action == "quarantine":
            plugins.quarantine(request.caller, kind, name, reason=reason, seconds=_number(request, "minutes") * 60)
            _say(request, gettext("%(name)s is quarantined and no longer used.") % {"name": name})
        elif action == "release":
            plugins.release(request.caller, kind, name, reason=reason)
            _say(request, gettext("%(name)s released from quarantine.") % {"name": name})
        else:
            raise Http404
    except (Invalid, Conflict) as error:
        found = catalog.catalogue(request.caller, kind)
        return _page(request, found, _find(found, kind, name), error)
    return redirect("plugin", kind, name)


CHOICES = frozenset({"is_enabled", "mode", "on_failure", "multiplier", "options"})


def _find(found: Catalogue, kind: str, name: str) -> PluginView:
    view = next((one for one in found.plugins if (one.kind, one.name) == (kind, name)), None)
    if view is None:
        raise Http404
    return view


def _group(found: Catalogue, kind: str) -> dict[str, Any]:
    views = [one for one in found.plugins if one.kind == kind]
    running = [one.name for one in views if one.position is not None]
    title, words = TITLES[kind]
    rows = [_row(one, running if kind in KINDS else []) for one in views]
    return {"kind": kind, "title": title, "words": words, "rows": rows, "version": found.versions.get(kind, 0)}


def _row(view: PluginView, running: list[str]) -> PluginRow:
    badge, law = badge_of(view), law_of(view.conformance)
    if view.name not in running:
        return PluginRow(view, badge, law)
    place = running.index(view.name)
    return PluginRow(view, badge, law, _swapped(running, place - 1), _swapped(running, place))


def _swapped(names: list[str], place: int) -> str:
    """Return the names with two neighbours swapped, for a button; empty at either end."""
    if not 0 <= place < len(names) - 1:
        return ""
    return ",".join([*names[:place], names[place + 1], names[place], *names[place + 2 :]])


def badge_of(view: PluginView) -> StatusBadge:
    """Return the badge of a plugin's state, with the reason of a quarantine."""
    detail = view.quarantine.reason if view.quarantine else ""
    return StatusBadge(TONES[view.state], "dry run" if view.state == "watches" else view.state, detail)


def law_of(law: ConformanceView | None) -> StatusBadge | None:
    """Return the badge of its conformance tests; a result of another version is marked."""
    if law is None:
        return None
    is_good = not law.broken and law.level != "none"
    tone = "bad" if not is_good else "good" if law.is_current else "waiting"
    return StatusBadge(tone, LAW_WORDS.get(law.level, law.level), ", ".join(law.broken))


def _preview(request: PageRequest, view: PluginView, change: PluginSettingsChange) -> BatchResult:
    """Simulate the last requests with the change; nothing is stored."""
    return what_if_batches.replay(request.caller, PREVIEWED, WhatIfChanges(plugins={view.kind: {view.name: change}}))


def _stops_filtering(view: PluginView, change: PluginSettingsChange) -> bool:
    """Whether the change stops a filter from rejecting hosts: disabled, or in dry-run mode."""
    if view.kind != FILTER or not view.is_enabled or view.mode != DECIDES:
        return False
    after = _as_asked(view, change)
    if change.keys == CHOICES:  # reset to the defaults
        after = replace(after, is_enabled=view.is_on_by_default, mode=DECIDES)
    return not after.is_enabled or after.mode != DECIDES


def _as_asked(view: PluginView, change: PluginSettingsChange) -> PluginView:
    """Return the view with the form's values, which stay until they are applied."""
    named = {key: getattr(change, key) for key in change.keys - {"options"}}
    return replace(view, **{key: value for key, value in named.items() if value is not None})


def _page(
    request: PageRequest,
    found: Catalogue,
    view: PluginView,
    error: NovellaError | None = None,
    *,
    preview: BatchResult | None = None,
    must_explain: bool = False,
) -> HttpResponse:
    context = {
        "caller": request.caller,
        "plugin": view,
        "badge": badge_of(view),
        "version": found.versions.get(view.kind, 0),
        "is_chosen": view.kind in KINDS,
        "can_be_shut": view.kind in (*KINDS, *EXTENSIONS),
        "details_of_plugin": details.detail(request.caller, view.kind, view.name),
        "effect": details.effect(request.caller, view.kind, view.name),
        "batch": preview,
        "must_explain": must_explain,
        "law_face": law_of(view.conformance),
        "law_command": f"{COMMANDS[view.kind]} {view.name} --record" if view.kind in COMMANDS else "",
        "fields": [_field(request, one) for one in view.options],
        "modes": MODES,
        "multiplier": "" if view.multiplier is None else repr(view.multiplier),
        "consequences": CONSEQUENCES if view.on_failure else (),
        "sent": request.POST,
        "problem": error.message if error else "",
        "wrong": error.details.get("field", "") if error else "",
    }
    status = next((code for kind, code in STATUS if isinstance(error, kind)), 400 if error else 200)
    status = 409 if must_explain else status
    return render(request, "scheduling/plugin.html", context, status=status)


def _field(request: PageRequest, option: OptionView) -> OptionField:
    schema = option.schema
    if option.is_secret:
        return OptionField(option, "secret", "")
    sent = request.POST.get(f"option.{option.name}")
    listed = schema.get("enum", (True, False) if schema.get("type") == "boolean" else ())
    choices = tuple(_text(one) for one in listed)
    widget = "choice" if choices else _widget(schema)
    return OptionField(option, widget, _text(option.value) if sent is None else sent, choices)


def _widget(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if kind == "string":
        return "text"
    return "number" if isinstance(kind, str) and kind in NUMBERS else "json"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _asked(request: PageRequest, view: PluginView) -> PluginSettingsChange:
    """Return the settings that the form changed; the others stay as they are, even defaults."""
    sent = request.POST
    requested = {
        "is_enabled": sent.get("enabled") == "yes",
        "mode": sent.get("mode", view.mode),
        "on_failure": sent.get("on_failure", view.on_failure) or None,
        "multiplier": _number(request, "multiplier") if sent.get("multiplier") else view.multiplier,
    }
    shown = {
        "is_enabled": view.is_enabled,
        "mode": view.mode,
        "on_failure": view.on_failure or None,
        "multiplier": view.multiplier,
    }
    changed: dict[str, Any] = {key: value for key, value in requested.items() if value != shown[key]}
    options = _options(request, view)
    if options:
        changed["options"] = options
    return PluginSettingsChange(**changed, keys=frozenset(changed))


def _options(request: PageRequest, view: PluginView) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for option in view.options:
        if request.POST.get(f"default.{option.name}"):
            found[option.name] = None
            continue
        text = request.POST.get(f"option.{option.name}")
        if text is not None and text != ("" if option.is_secret else _text(option.value)):
            found[option.name] = _value(view, option, text)
    return found


def _value(view: PluginView, option: OptionView, text: str) -> Any:
    if option.schema.get("type") == "string":
        return text
    try:
        return json_text.loads(text, parse_constant=str)
    except ValueError:
        if _widget(option.schema) == "json" and "enum" not in option.schema:
            where = f"plugins.{view.name}.options.{option.name}"
            words = gettext("Enter the option %(name)s as JSON, for example %(example)s.")
            raise Invalid(words % {"name": option.name, "example": _text(option.default)}, field=where)
        return text  # text instead of a number: the schema reports it by name


def _number(request: PageRequest, name: str) -> float:
    text = request.POST.get(name, "").strip()
    try:
        return float(text or 0)
    except ValueError:
        raise Invalid(gettext("Enter a number, not %(text)s.") % {"text": text[:60]}, field=name)


def _version(request: PageRequest) -> int:
    text = request.POST.get("version", "")
    if not text.isdecimal():
        raise Invalid("The form was incomplete. Open the page again.", field="version")
    return int(text)


def _say(request: PageRequest, text: str) -> None:
    leave_note(request, text, "good")
