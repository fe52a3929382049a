"""Plugins, for operators: which of them decide where servers go, how they do, and forms to change that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from conductor.core import json_text
from conductor.core.errors import Conflict, Invalid, NovellaError, StaleRevision
from conductor.core.plugin_choice import CONSEQUENCES, DECIDES, FILTER, KINDS, MODES
from conductor.services import plugin_details, plugin_effects, plugin_views, plugins, what_if_batches
from conductor.services.plugin_views import Catalogue, ConformanceView, OptionView, PluginView
from conductor.services.plugins import Change
from conductor.services.what_if_batches import Batch
from conductor.services.what_if_comparisons import Supposition
from portal.pages.access import PageRequest, operators_only
from portal.pages.faces import Face

TITLES = {
    "filter": ("Filters", "Each turns away hosts that cannot take a server, one after another."),
    "weigher": ("Weighers", "Each says how much it wants a host; the heaviest host wins."),
    "driver": ("Compute drivers", "A compute host names the one that it uses."),
    "membership": ("Memberships", "Conductors notice each other's death by one of these."),
    "sink": ("Notification sinks", "The settings name those that are told what happens to servers."),
    "prefilter": ("Pre-filters", "Each turns a request into demands on hosts, before any is looked at."),
    "quota_source": ("Quota sources", "Each may tighten what projects may have."),
    "launch_form": ("Launch forms", "Each asks something when a server is launched."),
    "panel": ("Panels", "Each adds a card to the pages of servers or hosts."),
    "image_converter": ("Image converters", "Each reads and writes further formats of disks."),
    "flow_observer": ("Observers of workflows", "Each is told what happened, and has no say."),
}
TONES = {
    plugin_views.RUNS: "good",
    plugin_views.WATCHES: "working",
    plugin_views.OFF: "none",
    plugin_views.IN_QUARANTINE: "bad",
    plugin_views.MISSING: "bad",
    plugin_views.AVAILABLE: "none",
}
EXTENSIONS = frozenset(TITLES) - {*KINDS, "driver", "membership", "sink"}
# What came of the law, as the list says it; levels of drivers are names.
LAW_WORDS = {
    "kept": "law kept",
    "broken": "law broken",
    "none": "no level",
    "core": "level core",
    "migration": "level migration",
    "snapshot": "level snapshot",
    "full": "level full",
}
COMMANDS = {**dict.fromkeys(KINDS, "novella-plugin-check"), "driver": "novella-driver-conformance"}
LONGEST_REASON = 255
PREVIEWED = 100  # requests that a change is tried on
NUMBERS = frozenset({"integer", "number"})
STATUS: tuple[tuple[type[NovellaError], int], ...] = ((StaleRevision, 412), (Conflict, 409))


@dataclass(frozen=True)
class Row:
    """A plugin as the list shows it; `above` and `below` are the orders in which it would have changed places."""

    view: PluginView
    face: Face
    law: Face | None = None
    above: str = ""
    below: str = ""


@dataclass(frozen=True)
class Field:
    """One option in the form. `widget` is choice, number, text, secret or json; `text` is what stands in it."""

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
    """All plugins by kind, in the order in which they run."""
    found = plugin_views.catalogue(request.asker)
    groups = [_group(found, kind) for kind in TITLES if any(one.kind == kind for one in found.plugins)]
    return render(request, "plugins/list.html", {"asker": request.asker, "groups": groups, "shut_out": found.shut_out})


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def plugin(request: PageRequest, kind: str, name: str) -> HttpResponse:
    """One plugin: what is told of it, and for filters and weighers a form for all that may be chosen."""
    if kind not in TITLES or (request.method == "POST" and kind not in KINDS):
        raise Http404
    found = plugin_views.catalogue(request.asker, kind if kind in KINDS else "")
    view = _find(found, kind, name)
    if request.method != "POST":
        return _page(request, found, view)
    try:
        change = Change(keys=CHOICES) if "reset" in request.POST else _asked(request, view)
        if "preview" in request.POST:
            return _page(request, found, _as_asked(view, change), preview=_preview(request, view, change))
        reason = request.POST.get("disable_reason", "").strip()[:LONGEST_REASON]
        if _stops_filtering(view, change) and not reason:
            return _page(request, found, _as_asked(view, change), must_explain=True)
        plugins.change(request.asker, kind, plugins={name: change}, version=_version(request), reason=reason)
    except (Invalid, Conflict) as error:
        return _page(request, plugin_views.catalogue(request.asker, kind), view, error)
    _say(request, gettext("%(name)s was changed. Every scheduler goes by it at its next decision.") % {"name": name})
    return redirect("plugin", kind, name)


@require_POST
@operators_only
def order(request: PageRequest, kind: str) -> HttpResponse:
    """Put the plugins of a kind into the order that a button holds."""
    names = [name for name in request.POST.get("order", "").split(",") if name]
    try:
        plugins.change(request.asker, kind, order=names, version=_version(request))
    except (Invalid, Conflict) as error:
        messages.error(request, error.message, extra_tags="bad")
    else:
        _say(request, gettext("The order was changed. Every scheduler goes by it at its next decision."))
    return redirect("plugins")


@require_POST
@operators_only
def shut(request: PageRequest, kind: str, name: str, action: str) -> HttpResponse:
    """Shut a plugin out, or let it in again."""
    reason = request.POST.get("reason", "")
    try:
        if action == "quarantine":
            plugins.quarantine(request.asker, kind, name, reason=reason, seconds=_number(request, "minutes") * 60)
            _say(request, gettext("%(name)s is in quarantine: it is not asked any more.") % {"name": name})
        elif action == "release":
            plugins.release(request.asker, kind, name, reason=reason)
            _say(request, gettext("%(name)s was let in again.") % {"name": name})
        else:
            raise Http404
    except (Invalid, Conflict) as error:
        found = plugin_views.catalogue(request.asker, kind)
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


def _row(view: PluginView, running: list[str]) -> Row:
    face, law = face_of(view), law_of(view.conformance)
    if view.name not in running:
        return Row(view, face, law)
    place = running.index(view.name)
    return Row(view, face, law, _swapped(running, place - 1), _swapped(running, place))


def _swapped(names: list[str], place: int) -> str:
    """The names with those at `place` and after it changed over, as a button holds them; empty at either end."""
    if not 0 <= place < len(names) - 1:
        return ""
    return ",".join([*names[:place], names[place + 1], names[place], *names[place + 2 :]])


def face_of(view: PluginView) -> Face:
    """How its state looks; the reason of a quarantine beside it."""
    detail = view.quarantine.reason if view.quarantine else ""
    return Face(TONES[view.state], "in the shadow" if view.state == "watches" else view.state, detail)


def law_of(law: ConformanceView | None) -> Face | None:
    """How it looks what came of the law: what another version has shown counts for less."""
    if law is None:
        return None
    is_good = not law.broken and law.level != "none"
    tone = "bad" if not is_good else "good" if law.is_current else "waiting"
    return Face(tone, LAW_WORDS.get(law.level, law.level), ", ".join(law.broken))


def _preview(request: PageRequest, view: PluginView, change: Change) -> Batch:
    """The last requests asked again with the change; nothing is changed by it."""
    return what_if_batches.replay(request.asker, PREVIEWED, Supposition(plugins={view.kind: {view.name: change}}))


def _stops_filtering(view: PluginView, change: Change) -> bool:
    """Whether the change ends that a filter turns hosts away: disabled, or only observed."""
    if view.kind != FILTER or not view.is_enabled or view.mode != DECIDES:
        return False
    after = _as_asked(view, change)
    if change.keys == CHOICES:  # back to the defaults
        after = replace(after, is_enabled=view.is_on_by_default, mode=DECIDES)
    return not after.is_enabled or after.mode != DECIDES


def _as_asked(view: PluginView, change: Change) -> PluginView:
    """The view with what the form says: it stays there until it is applied."""
    named = {key: getattr(change, key) for key in change.keys - {"options"}}
    return replace(view, **{key: value for key, value in named.items() if value is not None})


def _page(
    request: PageRequest,
    found: Catalogue,
    view: PluginView,
    error: NovellaError | None = None,
    *,
    preview: Batch | None = None,
    must_explain: bool = False,
) -> HttpResponse:
    context = {
        "asker": request.asker,
        "plugin": view,
        "face": face_of(view),
        "version": found.versions.get(view.kind, 0),
        "is_chosen": view.kind in KINDS,
        "can_be_shut": view.kind in (*KINDS, *EXTENSIONS),
        "told": plugin_details.detail(request.asker, view.kind, view.name),
        "effect": plugin_effects.effect(request.asker, view.kind, view.name),
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
    return render(request, "plugins/plugin.html", context, status=status)


def _field(request: PageRequest, option: OptionView) -> Field:
    schema = option.schema
    if option.is_secret:
        return Field(option, "secret", "")
    sent = request.POST.get(f"option.{option.name}")
    listed = schema.get("enum", (True, False) if schema.get("type") == "boolean" else ())
    choices = tuple(_text(one) for one in listed)
    widget = "choice" if choices else _widget(schema)
    return Field(option, widget, _text(option.value) if sent is None else sent, choices)


def _widget(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if kind == "string":
        return "text"
    return "number" if isinstance(kind, str) and kind in NUMBERS else "json"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _asked(request: PageRequest, view: PluginView) -> Change:
    """What the form changes of what it showed; all else stays as it is, also where it is the default."""
    sent = request.POST
    wished = {
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
    changed: dict[str, Any] = {key: value for key, value in wished.items() if value != shown[key]}
    options = _options(request, view)
    if options:
        changed["options"] = options
    return Change(**changed, keys=frozenset(changed))


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
            words = gettext("The option %(name)s is to be JSON, such as %(example)s.")
            raise Invalid(words % {"name": option.name, "example": _text(option.default)}, field=where)
        return text  # a word where a number belongs: the schema refuses it by name


def _number(request: PageRequest, name: str) -> float:
    text = request.POST.get(name, "").strip()
    try:
        return float(text or 0)
    except ValueError:
        raise Invalid(gettext("%(text)s is no number.") % {"text": text[:60]}, field=name)


def _version(request: PageRequest) -> int:
    text = request.POST.get("version", "")
    if not text.isdecimal():
        raise Invalid("The form was not whole: open the page again.", field="version")
    return int(text)


def _say(request: PageRequest, text: str) -> None:
    messages.add_message(request, messages.INFO, text, extra_tags="good")
