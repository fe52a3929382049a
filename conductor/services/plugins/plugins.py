"""Operators' settings of plugins, which can be changed while the cloud runs, and quarantines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from conductor.api_db.models import PluginChoice as ChoiceRow
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, NovellaError, StaleRevision
from conductor.core.extensions import BY_KIND
from conductor.core.filter import Filter
from conductor.core.phrases import phrase
from conductor.core.plugin_choice import CONSEQUENCES, FILTER, KINDS, MODES, WEIGHER, PluginKindSettings, PluginSettings
from conductor.core.weigher import Weigher
from conductor.db.transactions import database_time, write_tx
from conductor.plugins import Registry, registry
from conductor.plugins.options import nearest_name, require_options, shown
from conductor.scheduler import plugin_health
from conductor.services.audit import audit
from conductor.services.audit.audit import AuditEntry

ALIAS = "default"
LONGEST_QUARANTINE_SECONDS = 366 * 86400
LONGEST_ECHO = 60


@dataclass(frozen=True, kw_only=True)
class PluginSettingsChange:
    """Requested change of one plugin's settings. Fields that are not in `keys` stay. None resets a field to the
    default.

    `options` holds values to set; None as a value resets that option too.
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
    plugins: Mapping[str, PluginSettingsChange] | None = None,
    version: int | None = None,
    reason: str = "",
) -> int:
    """Change the settings of one kind, all of it or nothing; returns the new version.

    The audit record has the `reason`.

    `version` is the one that the caller saw. Raises StaleRevision when it is not the current one, Invalid naming the
    plugin, the field and the fix, Forbidden for callers other than operators. Refusals are audited too.
    """
    require_operator(context)
    require_kind(kind)
    requested = plugins or {}
    try:
        with write_tx(ALIAS):
            row = plugin_health.choice_row(kind)
            if version is not None and version != row.version:
                raise StaleRevision(_stale(kind, row.version, version))
            before = PluginKindSettings.from_json(row.choice)
            after = _changed(kind, before, order, requested)
            if after == before:
                return row.version
            _store(context, row, after)
            audit.record(ALIAS, context, replace(_entry(context, kind, before, after), reason=reason))
            return row.version
    except (Invalid, StaleRevision) as error:
        _record_refusal(context, f"plugins.change_{kind}s", error, {"plugins": sorted(requested)})
        raise


def quarantine(context: RequestContext, kind: str, name: str, *, reason: str, seconds: float = 0.0) -> None:
    """Quarantine a plugin, for some seconds or until it is released. Decisions continue by its rule for failures.

    Raises Conflict where it is in quarantine already.
    """
    require_operator(context)
    require_asked(registry(), kind, name)
    if not reason.strip():
        raise Invalid(phrase("Enter a reason. It is shown with the quarantine."), field="reason")
    if not 0 <= seconds <= LONGEST_QUARANTINE_SECONDS:
        raise Invalid(
            phrase("Enter 0 (until released) to %(longest)s seconds.", longest=LONGEST_QUARANTINE_SECONDS),
            field="seconds",
        )
    with write_tx(ALIAS):
        cause = plugin_health.OPERATOR
        if not plugin_health.begin((kind, name), cause=cause, reason=reason, seconds=seconds):
            raise Conflict(phrase("%(name)s is already in quarantine.", name=name))
        audit.record(ALIAS, context, _about(context, "plugins.quarantine", kind, name, reason, {"seconds": seconds}))


def release(context: RequestContext, kind: str, name: str, *, reason: str = "") -> None:
    """Release a plugin from quarantine. Raises Conflict where it is not in quarantine."""
    require_operator(context)
    require_asked_kind(kind)
    with write_tx(ALIAS):
        if not plugin_health.end((kind, name)):
            raise Conflict(phrase("%(name)s is not in quarantine.", name=name[:LONGEST_ECHO]))
        audit.record(ALIAS, context, _about(context, "plugins.release", kind, name, reason, {}))


def hypothetical(
    context: RequestContext, changes: Mapping[str, Mapping[str, PluginSettingsChange]]
) -> dict[str, PluginKindSettings]:
    """Return the settings by kind as they would be after these changes of single plugins. Stores nothing.

    Raises what `change` raises.
    """
    require_operator(context)
    stored = {row.kind: PluginKindSettings.from_json(row.choice) for row in ChoiceRow.objects.filter(kind__in=KINDS)}
    return {
        kind: _changed(kind, stored.get(kind) or PluginKindSettings(), None, changes.get(kind, {})) for kind in KINDS
    }


@dataclass(frozen=True)
class Difference:
    """Difference between a plugin's current and its changed settings, without secret options."""

    kind: str
    name: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]


def differences(context: RequestContext, changes: Mapping[str, Mapping[str, PluginSettingsChange]]) -> list[Difference]:
    """Return what these changes of single plugins would change now. Raises what `change` raises."""
    stored = {row.kind: PluginKindSettings.from_json(row.choice) for row in ChoiceRow.objects.filter(kind__in=KINDS)}
    found = []
    for kind, after in hypothetical(context, changes).items():
        before = stored.get(kind) or PluginKindSettings()
        for name in sorted(changes.get(kind, {})):
            if before.of(name) != after.of(name):
                found.append(Difference(kind, name, _audited(kind, name, before), _audited(kind, name, after)))
    return found


def require_operator(context: RequestContext) -> None:
    if not context.is_admin:
        raise Forbidden(phrase("Only operators can see plugins."))


def require_kind(kind: str) -> None:
    if kind not in KINDS:
        raise NotFound(
            phrase(
                "There is no plugin kind %(kind)s. Use one of %(choices)s.",
                kind=kind[:LONGEST_ECHO],
                choices=", ".join(KINDS),
            )
        )


def require_asked_kind(kind: str) -> None:
    """Raise NotFound for a kind that is neither configurable here nor an extension's."""
    if kind not in BY_KIND:
        require_kind(kind)


def require_asked(found: Registry, kind: str, name: str) -> None:
    """Raise NotFound where no plugin of a known kind has that name."""
    require_asked_kind(kind)
    _require_brought(kind, name, found.extensions.get(kind, {}) if kind in BY_KIND else by_name(found, kind))


def _require_brought(kind: str, name: str, brought: Mapping[str, Any]) -> None:
    if name not in brought:
        raise NotFound(unknown_plugin(kind, name, brought))


def unknown_plugin(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the error for a name that no plugin has, with the most similar name where there is one."""
    values = {"kind": kind, "name": name[:LONGEST_ECHO]}
    if nearest := nearest_name(name, known):
        return phrase("No plugin brings a %(kind)s %(name)s. Did you mean %(nearest)s?", **values, nearest=nearest)
    return phrase("No plugin brings a %(kind)s %(name)s.", **values)


def _stale(kind: str, newest: int, version: int) -> str:
    values = {"newest": newest, "version": version}
    if kind == FILTER:
        return phrase(
            "The filters have changed: their version is %(newest)s, not %(version)s. Reload and try again.", **values
        )
    return phrase(
        "The weighers have changed: their version is %(newest)s, not %(version)s. Reload and try again.", **values
    )


def by_name(found: Registry, kind: str) -> dict[str, Filter | Weigher]:
    """Return all plugins of a kind by name, in the order in which they were found."""
    brought: tuple[Filter | Weigher, ...] = found.loaded_filters if kind == FILTER else found.loaded_weighers
    return {one.name: one for one in brought}


def _changed(
    kind: str, before: PluginKindSettings, order: list[str] | None, query: Mapping[str, PluginSettingsChange]
) -> PluginKindSettings:
    found = registry()
    after = before
    if order is not None:
        after = replace(after, order=_require_order(found, kind, order))
    per_plugin = dict(after.per_plugin)
    for name, one in query.items():
        requested = _new_settings(found, kind, name, per_plugin.get(name) or PluginSettings(), one)
        per_plugin.pop(name, None)
        if requested != PluginSettings():
            per_plugin[name] = requested
    return replace(after, per_plugin=per_plugin)


def _require_order(found: Registry, kind: str, order: list[str]) -> tuple[str, ...]:
    known = by_name(found, kind)
    for index, name in enumerate(order):
        if name not in known:
            raise Invalid(unknown_plugin(kind, name, known), field=f"order[{index}]")
        if name in order[:index]:
            raise Invalid(
                phrase("%(name)s is listed twice. List each plugin once.", name=name), field=f"order[{index}]"
            )
    return tuple(order)


def _new_settings(
    found: Registry, kind: str, name: str, requested: PluginSettings, query: PluginSettingsChange
) -> PluginSettings:
    """Return the valid new settings of a plugin.

    One that is not installed any more can only be reset to its defaults.
    """
    where = f"plugins.{name[:LONGEST_ECHO]}"
    plugin = by_name(found, kind).get(name)
    if plugin is None:
        gives_up = all(getattr(query, key) in (None, False) for key in query.keys)
        if not (gives_up and requested != PluginSettings()):
            raise Invalid(unknown_plugin(kind, name, by_name(found, kind)), field=where)
    for key, check in _CHECKS.items():
        if key in query.keys and getattr(query, key) is not None:
            check(kind, plugin, getattr(query, key), where)
    plain = {key: getattr(query, key) for key in query.keys - {"options"}}
    requested = replace(requested, **plain)
    return _with_options(plugin, requested, query, where) if "options" in query.keys else requested


def _with_options(
    plugin: Filter | Weigher | None, requested: PluginSettings, query: PluginSettingsChange, where: str
) -> PluginSettings:
    given = query.options
    options = {} if given is None else {**requested.options, **given}
    kept = {key: value for key, value in options.items() if value is not None or key not in (given or {})}
    if plugin is not None:
        unknown = {key: None for key in given or {} if key not in plugin.options_schema}
        require_options(plugin, unknown or kept, f"{where}.options")
    return replace(requested, options=kept)


def _require_mode(kind: str, plugin: Any, mode: str, where: str) -> None:
    if mode not in MODES:
        raise Invalid(
            phrase(
                "The mode must be one of %(choices)s, not %(mode)s.", choices=", ".join(MODES), mode=mode[:LONGEST_ECHO]
            ),
            field=f"{where}.mode",
        )


def _require_consequence(kind: str, plugin: Any, consequence: str, where: str) -> None:
    if kind != FILTER:
        text = phrase("Only filters have on_failure: a weigher that fails is left out. Remove the field.")
        raise Invalid(text, field=f"{where}.on_failure")
    if consequence not in CONSEQUENCES:
        text = phrase(
            "on_failure must be one of %(choices)s, not %(text)s.",
            choices=", ".join(CONSEQUENCES),
            text=consequence[:LONGEST_ECHO],
        )
        raise Invalid(text, field=f"{where}.on_failure")


def _require_multiplier(kind: str, plugin: Any, multiplier: float, where: str) -> None:
    field = f"{where}.multiplier"
    if kind != WEIGHER:
        raise Invalid(phrase("Only weighers have a multiplier. Remove the field."), field=field)
    if not plugin.multiplier_option:
        raise Invalid(
            phrase("The multiplier of %(name)s is fixed: the plugin declares no multiplier_option.", name=plugin.name),
            field=field,
        )
    if isinstance(multiplier, bool) or not abs(multiplier) <= LARGEST_MULTIPLIER:
        largest = f"{LARGEST_MULTIPLIER:g}"
        raise Invalid(phrase("Enter a multiplier from -%(largest)s to %(largest)s.", largest=largest), field=field)


LARGEST_MULTIPLIER = 1e12
_CHECKS: Mapping[str, Callable[[str, Any, Any, str], None]] = {
    "mode": _require_mode,
    "on_failure": _require_consequence,
    "multiplier": _require_multiplier,
}


def _store(context: RequestContext, row: ChoiceRow, choice: PluginKindSettings) -> None:
    row.version += 1
    row.choice = choice.to_json()
    row.changed_by = context.user_name or context.user_id
    row.changed_at = row.touched_at = database_time(ALIAS)
    row.save()


def _entry(context: RequestContext, kind: str, before: PluginKindSettings, after: PluginKindSettings) -> AuditEntry:
    """Return an audit entry of the changes, plugin by plugin, without secret options."""
    names = [name for name in {**before.per_plugin, **after.per_plugin} if before.of(name) != after.of(name)]
    details: dict[str, Any] = {
        name: {"before": _audited(kind, name, before), "after": _audited(kind, name, after)} for name in sorted(names)
    }
    if before.order != after.order:
        details["order"] = {"before": list(before.order), "after": list(after.order)}
    return AuditEntry(action=f"plugins.change_{kind}s", project_id=context.project_id, details=details)


def _audited(kind: str, name: str, choice: PluginKindSettings) -> dict[str, Any]:
    requested = choice.of(name)
    plugin = by_name(registry(), kind).get(name)
    if plugin is None:  # without the plugin its secret options are unknown
        return replace(requested, options={}).to_json()
    return replace(requested, options=shown(plugin.options_schema, requested.options)).to_json()


def _about(
    context: RequestContext, action: str, kind: str, name: str, reason: str, details: Mapping[str, Any]
) -> AuditEntry:
    values = {"kind": kind, "name": name, **details}
    return AuditEntry(action=action, project_id=context.project_id, reason=reason, details=values)


def _record_refusal(context: RequestContext, action: str, error: NovellaError, details: Mapping[str, Any]) -> None:
    entry = AuditEntry(action=action, project_id=context.project_id, error=error, details=details)
    with write_tx(ALIAS):
        audit.record(ALIAS, context, entry)
