"""Plugins for operators: which there are, what was chosen for each, how they do; and changing that while all runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from conductor.api_db.models import PluginChoice as ChoiceRow
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, NovellaError, StaleRevision
from conductor.core.extensions import BY_KIND
from conductor.core.filter import Filter
from conductor.core.plugin_choice import CONSEQUENCES, FILTER, KINDS, MODES, WEIGHER, PluginChoice, Wish
from conductor.core.weigher import Weigher
from conductor.plugins import Registry, registry
from conductor.plugins.options import nearest, require_options, shown
from conductor.scheduler import plugin_quarantine
from conductor.services import audit
from conductor.services.audit import Entry
from conductor.transactions import database_time, write_tx

ALIAS = "default"
LONGEST_QUARANTINE_SECONDS = 366 * 86400
LONGEST_ECHO = 60


@dataclass(frozen=True, kw_only=True)
class Change:
    """What is asked to be changed for one plugin. What `keys` does not name stays; None goes back to the default.

    `options` holds values to set; one that is None goes back to the default too.
    """

    is_enabled: bool | None = None
    mode: str | None = None
    on_failure: str | None = None
    multiplier: float | None = None
    options: Mapping[str, Any] | None = None
    keys: frozenset[str] = field(default_factory=frozenset)


def change(
    context: RequestContext,
    kind: str,
    *,
    order: list[str] | None = None,
    plugins: Mapping[str, Change] | None = None,
    version: int | None = None,
    reason: str = "",
) -> int:
    """Change the choice for one kind, all of it or nothing; the new version. The audit record keeps the `reason`.

    `version` is the one that the caller has seen. Raises StaleRevision when it is not the present one, Invalid naming
    the plugin, the field and the fix, Forbidden for others than operators. What was refused is on record too.
    """
    require_operator(context)
    require_kind(kind)
    asked = plugins or {}
    try:
        with write_tx(ALIAS):
            row = plugin_quarantine.choice_row(kind)
            if version is not None and version != row.version:
                raise StaleRevision(f"The {kind}s were changed meanwhile: version {row.version}, not {version}.")
            before = PluginChoice.from_json(row.choice)
            after = _changed(kind, before, order, asked)
            if after == before:
                return row.version
            _store(context, row, after)
            audit.record(ALIAS, context, replace(_entry(context, kind, before, after), reason=reason))
            return row.version
    except (Invalid, StaleRevision) as error:
        _record_refusal(context, f"plugins.change_{kind}s", error, {"plugins": sorted(asked)})
        raise


def quarantine(context: RequestContext, kind: str, name: str, *, reason: str, seconds: float = 0.0) -> None:
    """Shut a plugin out, for so many seconds or until it is released; decisions go on by the rule for failures.

    Raises Conflict where it is shut out already.
    """
    require_operator(context)
    require_asked(registry(), kind, name)
    if not reason.strip():
        raise Invalid("Say why: the reason is kept with the quarantine.", field="reason")
    if not 0 <= seconds <= LONGEST_QUARANTINE_SECONDS:
        raise Invalid(f"It must be from 0 (until released) to {LONGEST_QUARANTINE_SECONDS} seconds.", field="seconds")
    with write_tx(ALIAS):
        cause = plugin_quarantine.OPERATOR
        if not plugin_quarantine.begin((kind, name), cause=cause, reason=reason, seconds=seconds):
            raise Conflict(f"{name} is in quarantine already.")
        audit.record(ALIAS, context, _about(context, "plugins.quarantine", kind, name, reason, {"seconds": seconds}))


def release(context: RequestContext, kind: str, name: str, *, reason: str = "") -> None:
    """Let a plugin in again. Raises Conflict where it is not shut out."""
    require_operator(context)
    require_asked_kind(kind)
    with write_tx(ALIAS):
        if not plugin_quarantine.end((kind, name)):
            raise Conflict(f"{name[:LONGEST_ECHO]} is not in quarantine.")
        audit.record(ALIAS, context, _about(context, "plugins.release", kind, name, reason, {}))


def supposed(context: RequestContext, changes: Mapping[str, Mapping[str, Change]]) -> dict[str, PluginChoice]:
    """What would be chosen, by kind, if these changes of single plugins were made; nothing is. Raises as `change`."""
    require_operator(context)
    stored = {row.kind: PluginChoice.from_json(row.choice) for row in ChoiceRow.objects.filter(kind__in=KINDS)}
    return {kind: _changed(kind, stored.get(kind) or PluginChoice(), None, changes.get(kind, {})) for kind in KINDS}


@dataclass(frozen=True)
class Difference:
    """What was chosen for one plugin and what would be, without secret options."""

    kind: str
    name: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]


def differences(context: RequestContext, changes: Mapping[str, Mapping[str, Change]]) -> list[Difference]:
    """What these changes of single plugins would change now. Raises as `change`."""
    stored = {row.kind: PluginChoice.from_json(row.choice) for row in ChoiceRow.objects.filter(kind__in=KINDS)}
    found = []
    for kind, after in supposed(context, changes).items():
        before = stored.get(kind) or PluginChoice()
        for name in sorted(changes.get(kind, {})):
            if before.of(name) != after.of(name):
                found.append(Difference(kind, name, _audited(kind, name, before), _audited(kind, name, after)))
    return found


def require_operator(context: RequestContext) -> None:
    if not context.is_admin:
        raise Forbidden("Plugins are for operators.")


def require_kind(kind: str) -> None:
    if kind not in KINDS:
        raise NotFound(f"There is no kind of plugin {kind[:LONGEST_ECHO]} to choose; there are {', '.join(KINDS)}.")


def require_asked_kind(kind: str) -> None:
    """Raises NotFound for a kind that is neither chosen from nor an extension's."""
    if kind not in BY_KIND:
        require_kind(kind)


def require_asked(found: Registry, kind: str, name: str) -> None:
    """Raises NotFound where no plugin of a kind that is asked, and can be asked no more, has that name."""
    require_asked_kind(kind)
    _require_brought(kind, name, found.extensions.get(kind, {}) if kind in BY_KIND else by_name(found, kind))


def require_plugin(found: Registry, kind: str, name: str) -> Filter | Weigher:
    """The plugin of that name. Raises NotFound naming the nearest."""
    require_kind(kind)
    brought = by_name(found, kind)
    _require_brought(kind, name, brought)
    return brought[name]


def _require_brought(kind: str, name: str, brought: Mapping[str, Any]) -> None:
    if name not in brought:
        raise NotFound(f"No plugin brings a {kind} {name[:LONGEST_ECHO]}. {nearest(name, brought)}".strip())


def by_name(found: Registry, kind: str) -> dict[str, Filter | Weigher]:
    """Everything of a kind that plugins bring, in the order in which it was found."""
    brought: tuple[Filter | Weigher, ...] = found.brought_filters if kind == FILTER else found.brought_weighers
    return {one.name: one for one in brought}


def _changed(kind: str, before: PluginChoice, order: list[str] | None, asked: Mapping[str, Change]) -> PluginChoice:
    found = registry()
    after = before
    if order is not None:
        after = replace(after, order=_require_order(found, kind, order))
    wishes = dict(after.wishes)
    for name, one in asked.items():
        wish = _wished(found, kind, name, wishes.get(name) or Wish(), one)
        wishes.pop(name, None)
        if wish != Wish():
            wishes[name] = wish
    return replace(after, wishes=wishes)


def _require_order(found: Registry, kind: str, order: list[str]) -> tuple[str, ...]:
    known = by_name(found, kind)
    for index, name in enumerate(order):
        if name not in known:
            text = f"No plugin brings a {kind} {name[:LONGEST_ECHO]}. {nearest(name, known)}"
            raise Invalid(text.strip(), field=f"order[{index}]")
        if name in order[:index]:
            raise Invalid(f"{name} is in the order twice.", field=f"order[{index}]")
    return tuple(order)


def _wished(found: Registry, kind: str, name: str, wish: Wish, asked: Change) -> Wish:
    """The wish with what was asked, checked. What is gone from the machine may only go back to its defaults."""
    where = f"plugins.{name[:LONGEST_ECHO]}"
    plugin = by_name(found, kind).get(name)
    if plugin is None:
        gives_up = all(getattr(asked, key) in (None, False) for key in asked.keys)
        if not (gives_up and wish != Wish()):
            text = f"No plugin brings a {kind} {name[:LONGEST_ECHO]}. {nearest(name, by_name(found, kind))}"
            raise Invalid(text.strip(), field=where)
    for key, check in _CHECKS.items():
        if key in asked.keys and getattr(asked, key) is not None:
            check(kind, plugin, getattr(asked, key), where)
    plain = {key: getattr(asked, key) for key in asked.keys - {"options"}}
    wish = replace(wish, **plain)
    return _with_options(plugin, wish, asked, where) if "options" in asked.keys else wish


def _with_options(plugin: Filter | Weigher | None, wish: Wish, asked: Change, where: str) -> Wish:
    given = asked.options
    options = {} if given is None else {**wish.options, **given}
    kept = {key: value for key, value in options.items() if value is not None or key not in (given or {})}
    if plugin is not None:
        unknown = {key: None for key in given or {} if key not in plugin.options_schema}
        require_options(plugin, unknown or kept, f"{where}.options")
    return replace(wish, options=kept)


def _require_mode(kind: str, plugin: Any, mode: str, where: str) -> None:
    if mode not in MODES:
        raise Invalid(f"The mode is one of {', '.join(MODES)}, not {mode[:LONGEST_ECHO]}.", field=f"{where}.mode")


def _require_consequence(kind: str, plugin: Any, consequence: str, where: str) -> None:
    if kind != FILTER:
        text = "Only filters have on_failure: a weigher that fails is left out. Take the field out."
        raise Invalid(text, field=f"{where}.on_failure")
    if consequence not in CONSEQUENCES:
        text = f"What becomes of hosts is one of {', '.join(CONSEQUENCES)}, not {consequence[:LONGEST_ECHO]}."
        raise Invalid(text, field=f"{where}.on_failure")


def _require_multiplier(kind: str, plugin: Any, multiplier: float, where: str) -> None:
    field = f"{where}.multiplier"
    if kind != WEIGHER:
        raise Invalid("Only weighers have a multiplier. Take the field out.", field=field)
    if not plugin.multiplier_option:
        raise Invalid(f"{plugin.name} declares no multiplier_option: its multiplier is fixed.", field=field)
    if isinstance(multiplier, bool) or not abs(multiplier) <= LARGEST_MULTIPLIER:
        text = f"The multiplier is a number from -{LARGEST_MULTIPLIER:g} to {LARGEST_MULTIPLIER:g}."
        raise Invalid(text, field=field)


LARGEST_MULTIPLIER = 1e12
_CHECKS: Mapping[str, Callable[[str, Any, Any, str], None]] = {
    "mode": _require_mode,
    "on_failure": _require_consequence,
    "multiplier": _require_multiplier,
}


def _store(context: RequestContext, row: ChoiceRow, choice: PluginChoice) -> None:
    row.version += 1
    row.choice = choice.to_json()
    row.changed_by = context.user_name or context.user_id
    row.changed_at = row.touched_at = database_time(ALIAS)
    row.save()


def _entry(context: RequestContext, kind: str, before: PluginChoice, after: PluginChoice) -> Entry:
    """What changed, plugin by plugin, without secret options."""
    names = [name for name in {**before.wishes, **after.wishes} if before.of(name) != after.of(name)]
    details: dict[str, Any] = {
        name: {"before": _audited(kind, name, before), "after": _audited(kind, name, after)} for name in sorted(names)
    }
    if before.order != after.order:
        details["order"] = {"before": list(before.order), "after": list(after.order)}
    return Entry(action=f"plugins.change_{kind}s", project_id=context.project_id, details=details)


def _audited(kind: str, name: str, choice: PluginChoice) -> dict[str, Any]:
    wish = choice.of(name)
    plugin = by_name(registry(), kind).get(name)
    if plugin is None:  # whoever is gone cannot say what is secret
        return replace(wish, options={}).to_json()
    return replace(wish, options=shown(plugin.options_schema, wish.options)).to_json()


def _about(
    context: RequestContext, action: str, kind: str, name: str, reason: str, details: Mapping[str, Any]
) -> Entry:
    said = {"kind": kind, "name": name, **details}
    return Entry(action=action, project_id=context.project_id, reason=reason, details=said)


def _record_refusal(context: RequestContext, action: str, error: NovellaError, details: Mapping[str, Any]) -> None:
    entry = Entry(action=action, project_id=context.project_id, error=error, details=details)
    with write_tx(ALIAS):
        audit.record(ALIAS, context, entry)
