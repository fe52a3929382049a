"""Records of conformance checks of plugins, which the catalog shows with their date."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from conductor.api_db.models import PluginConformance
from conductor.core.compute_driver import DRIVER
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.core.phrases import phrase
from conductor.core.plugin_choice import KINDS
from conductor.db.transactions import database_time, write_tx
from conductor.plugins import Registry, registry
from conductor.services.audit import audit
from conductor.services.audit.audit import AuditEntry
from conductor.services.plugins import plugins
from conductor.services.plugins.plugins import require_operator

ALIAS = "default"
REPORT = 1  # the version of both reports
KEPT, BROKEN = "kept", "broken"
NO_LEVEL = "none"
LAW = {
    "type": "object",
    "required": ["name", "outcome"],
    "properties": {"name": {"type": "string", "maxLength": 200}, "outcome": {"type": "string", "maxLength": 16}},
}
COMMON: dict[str, Any] = {
    "began_at": {"type": "string", "maxLength": 40},
    "distribution": {"type": "string", "maxLength": 255},
    "version": {"type": "string", "maxLength": 64},
}
OF_DRIVER = {
    "type": "object",
    "required": ["report", "driver", "began_at", "level", "laws"],
    "properties": {
        **COMMON,
        "report": {"const": REPORT},
        "driver": {"type": "string", "minLength": 1, "maxLength": 255},
        "level": {"enum": [NO_LEVEL, "core", "migration", "snapshot", "full"]},
        "laws": {"type": "array", "minItems": 1, "maxItems": 1000, "items": LAW},
    },
}
ONE_PLUGIN = {
    "type": "object",
    "required": ["plugin", "kind", "laws"],
    "properties": {
        **COMMON,
        "plugin": {"type": "string", "minLength": 1, "maxLength": 255},
        "kind": {"enum": list(KINDS)},
        "laws": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1000,
            "items": {**LAW, "required": ["law", "outcome"]},
        },
    },
}
OF_PLUGINS = {
    "type": "object",
    "required": ["report", "began_at", "plugins"],
    "properties": {
        **COMMON,
        "report": {"const": REPORT},
        "plugins": {"type": "array", "minItems": 1, "maxItems": 1000, "items": ONE_PLUGIN},
    },
}


@dataclass(frozen=True)
class _Shown:
    """The part of a report on one plugin."""

    kind: str
    name: str
    level: str
    about: Mapping[str, Any]
    laws: Mapping[str, str]  # check → outcome


def record(context: RequestContext, report: Any) -> list[tuple[str, str]]:
    """Store a report of `novella-driver-conformance` or `novella-plugin-check`. Return kinds and names of its plugins.

    It replaces their earlier records. Raises Invalid naming the field: for an invalid report, for a plugin that is not
    installed, and for a report that is older than the stored one.
    """
    require_operator(context)
    shown = _read(report)
    shown_at = _moment(report["began_at"])
    found = registry()
    for index, one in enumerate(shown):
        _require_brought(found, one, "driver" if one.kind == DRIVER else f"plugins[{index}].plugin")
    with write_tx(ALIAS):
        for one in shown:
            _keep(context, one, shown_at)
        details = {f"{one.kind} {one.name}": one.level for one in shown}
        entry = AuditEntry(action="plugins.record", project_id=context.project_id, details=details)
        audit.record(ALIAS, context, entry)
    return [(one.kind, one.name) for one in shown]


def _read(report: Any) -> list[_Shown]:
    is_of_driver = isinstance(report, Mapping) and "driver" in report
    _require(report, OF_DRIVER if is_of_driver else OF_PLUGINS)
    if is_of_driver:
        laws = {law["name"]: law["outcome"] for law in report["laws"]}
        return [_Shown(DRIVER, report["driver"], report["level"], report, laws)]
    shown = []
    for one in report["plugins"]:
        laws = {law["law"]: law["outcome"] for law in one["laws"]}
        outcomes = set(laws.values())
        level = BROKEN if BROKEN in outcomes else KEPT if KEPT in outcomes else NO_LEVEL
        shown.append(_Shown(one["kind"], one["plugin"], level, one, laws))
    return shown


def _require(report: Any, schema: Mapping[str, Any]) -> None:
    from jsonschema import Draft202012Validator  # imported here, as reports are rare

    error = next(iter(Draft202012Validator(schema).iter_errors(report)), None)
    if error is not None:
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
        text = phrase(
            "This is not a report of a conformance command (version %(version)s): %(fault)s.",
            version=REPORT,
            fault=error.message[:120],
        )
        raise Invalid(text, field=where.lstrip(".") or "report")


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise Invalid(phrase("Enter a date and time with a zone, such as 2026-01-31T12:00:00+00:00."), field="began_at")
    if moment > database_time(ALIAS):
        raise Invalid(
            phrase("The check can't begin in the future. Correct the clocks of the machines."), field="began_at"
        )
    return moment


def _require_brought(found: Registry, one: _Shown, field: str) -> None:
    brought = [name for info in found.plugins for name in info.names_of(one.kind)]
    if one.name not in brought:
        raise Invalid(plugins.unknown_plugin(one.kind, one.name, brought), field=field)


def _keep(context: RequestContext, one: _Shown, shown_at: datetime) -> None:
    row = PluginConformance.objects.select_for_update().filter(kind=one.kind, name=one.name).first()
    row = row or PluginConformance(kind=one.kind, name=one.name)
    if row.pk and row.shown_at > shown_at:
        newer = row.shown_at.isoformat(timespec="seconds")
        text = phrase("There is a newer report about %(name)s, from %(time)s.", name=one.name, time=newer)
        raise Invalid(text, field="began_at")
    outcomes = list(one.laws.values())
    row.level, row.shown_at = one.level, shown_at
    row.distribution, row.version = one.about.get("distribution", ""), one.about.get("version", "")
    row.kept = outcomes.count(KEPT)
    row.broken = sorted(law for law, outcome in one.laws.items() if outcome == BROKEN)
    row.untried = len(outcomes) - row.kept - len(row.broken)
    row.recorded_at, row.recorded_by = database_time(ALIAS), context.user_name or context.user_id
    row.save()
