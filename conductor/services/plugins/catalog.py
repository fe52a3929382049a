"""Catalog of plugins: their settings, state, metrics and quarantines."""

from __future__ import annotations

import inspect
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from conductor.api_db.models import PluginChoice as ChoiceRow
from conductor.api_db.models import PluginConformance, PluginMetric, PluginQuarantine
from conductor.core.compute_driver import DRIVER
from conductor.core.context import RequestContext
from conductor.core.extensions import BY_KIND
from conductor.core.filter import Filter
from conductor.core.plugin_choice import FILTER, KINDS, LET_PASS, REJECT_HOSTS, SHADOW, PluginKey, PluginKindSettings
from conductor.core.scheduling import durations
from conductor.core.weigher import Weigher
from conductor.db.transactions import database_time
from conductor.plugins import DisabledPlugin, Registry, chosen, declared, registry, run_order
from conductor.plugins.contract import troubles_of, warnings_about
from conductor.plugins.options import is_secret, shown
from conductor.scheduler.plugin_health import is_open
from conductor.services.plugins.plugins import by_name, require_asked_kind, require_operator

ALIAS = "default"
METRIC_HOURS = 24
LONGEST_DESCRIPTION = 300
MEMBERSHIP, SINK = "membership", "sink"

RUNS = "runs"
WATCHES = "watches"  # in shadow mode
OFF = "off"
IN_QUARANTINE = "in quarantine"
MISSING = "missing"  # enabled, but no installed distribution provides it
AVAILABLE = "available"  # used by processes that name it


@dataclass(frozen=True)
class OptionView:
    """One option: its schema, its value, and the value's source: "default", "settings" or "chosen"."""

    name: str
    description: str
    schema: Mapping[str, Any]
    default: Any
    value: Any
    source: str
    is_secret: bool


@dataclass(frozen=True)
class MetricsView:
    """Metrics of a plugin over a period, from all schedulers. In shadow mode: its hypothetical effects.

    `differed` counts decisions in which a plugin in shadow mode would have changed an instance's host.
    """

    calls: int
    faults: int
    overruns: int
    rejected: int
    differed: int
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True)
class QuarantineView:
    """Quarantine of a plugin: begin, cause and end; `until` is None if only an operator can end it."""

    cause: str
    reason: str
    times: int
    began_at: datetime
    until: datetime | None


@dataclass(frozen=True)
class ConformanceView:
    """Result of a plugin's last conformance check, and whether the installed version was checked.

    `level` of a driver is its level; of a filter or weigher "kept" or "broken".
    """

    level: str
    kept: int
    broken: tuple[str, ...]
    untried: int
    version: str
    is_current: bool
    shown_at: datetime
    recorded_by: str


@dataclass(frozen=True)
class PluginView:
    """One plugin.

    Attributes:
        position: Its place among the plugins that run, from 1. None where it does not run.
        metrics, this_hour: Metrics of the last 24 hours, and since the clock's last full hour.
        warnings: Changes for its author to make, and why it will fail.
    """

    kind: str
    name: str
    distribution: str
    version: str
    is_shipped: bool
    description: str
    state: str
    is_enabled: bool
    is_on_by_default: bool
    position: int | None = None
    mode: str = ""
    on_failure: str = ""
    multiplier: float | None = None
    multiplier_option: str = ""
    options: tuple[OptionView, ...] = ()
    metrics: MetricsView | None = None
    this_hour: MetricsView | None = None
    quarantine: QuarantineView | None = None
    warnings: tuple[str, ...] = ()
    conformance: ConformanceView | None = None


@dataclass(frozen=True)
class Catalogue:
    """All plugins, the versions of the settings by kind, and the plugins that could not be loaded."""

    plugins: tuple[PluginView, ...]
    versions: Mapping[str, int]
    shut_out: tuple[DisabledPlugin, ...]


@dataclass(frozen=True)
class _Stored:
    """The stored records about plugins, as of `now`."""

    now: datetime
    choices: Mapping[str, PluginKindSettings]
    versions: Mapping[str, int]
    quarantines: Mapping[PluginKey, PluginQuarantine]
    metrics: Mapping[PluginKey, Sequence[PluginMetric]]
    conformance: Mapping[PluginKey, PluginConformance]


def catalogue(context: RequestContext, kind: str = "") -> Catalogue:
    """Return every plugin in the order in which they run, then those that do not; of one kind, or of all."""
    require_operator(context)
    if kind:
        require_asked_kind(kind)
    found, stored = registry(), _stored()
    views = [view for one in KINDS if kind in ("", one) for view in _scheduling(found, stored, one)]
    if not kind:
        brought = {DRIVER: declared(found.drivers), MEMBERSHIP: declared(found.memberships), SINK: found.sinks}
        views += [view for one, classes in brought.items() for view in _others(found, stored, one, classes)]
    views += [view for one in BY_KIND if kind in ("", one) for view in _extensions(found, stored, one)]
    return Catalogue(tuple(views), stored.versions, () if kind else found.quarantined)


def in_quarantine() -> dict[str, str]:
    """Return the reason for each plugin in quarantine now: "filter RackFilter" → reason. For health checks."""
    now = database_time(ALIAS)
    rows = PluginQuarantine.objects.filter(released_at=None).order_by("kind", "name")
    return {f"{row.kind} {row.name}": row.reason for row in rows if is_open(row, now)}


def _stored() -> _Stored:
    now = database_time(ALIAS)
    rows = {row.kind: row for row in ChoiceRow.objects.all()}
    metrics: dict[PluginKey, list[PluginMetric]] = defaultdict(list)
    for row in PluginMetric.objects.filter(hour__gt=now - timedelta(hours=METRIC_HOURS)):
        metrics[row.kind, row.name].append(row)
    open_rows = PluginQuarantine.objects.filter(released_at=None)
    return _Stored(
        now,
        choices={kind: PluginKindSettings.from_json(row.choice) for kind, row in rows.items()},
        versions={kind: rows[kind].version if kind in rows else 0 for kind in KINDS},
        quarantines={(row.kind, row.name): row for row in open_rows if is_open(row, now)},
        metrics=metrics,
        conformance={(row.kind, row.name): row for row in PluginConformance.objects.all()},
    )


def _scheduling(found: Registry, stored: _Stored, kind: str) -> list[PluginView]:
    """Return filters or weighers: those that run in their order, then the others in the order that they would have."""
    force = chosen(found, stored.choices)
    running: Sequence[Filter | Weigher] = force.filters if kind == FILTER else force.weighers
    defaults = {one.name for one in (found.filters if kind == FILTER else found.weighers)}
    brought = by_name(found, kind)
    choice = stored.choices.get(kind) or PluginKindSettings()
    positions = {one.name: index for index, one in enumerate(running, 1)}
    rest = [name for name in run_order([*brought], choice) if name not in positions]
    return [_view(found, stored, (kind, name), positions.get(name), name in defaults) for name in [*positions, *rest]]


def _view(found: Registry, stored: _Stored, key: PluginKey, position: int | None, is_default: bool) -> PluginView:
    kind, name = key
    plugin, info = by_name(found, kind).get(name), found.source_of(kind, name)
    choice = stored.choices.get(kind) or PluginKindSettings()
    requested, quarantine = choice.of(name), stored.quarantines.get(key)
    state = _state(is_missing=plugin is None, runs=position is not None, is_shut=bool(quarantine), mode=requested.mode)
    return PluginView(
        kind,
        name,
        distribution=info.distribution if info else "",
        version=info.version if info else "",
        is_shipped=bool(info and info.is_shipped),
        description=_description(plugin),
        state=state,
        is_enabled=position is not None,
        is_on_by_default=is_default,
        position=position,
        mode=requested.mode or "decides",
        on_failure=_on_failure(kind, name, requested.on_failure),
        multiplier=_multiplier(plugin, requested.multiplier),
        multiplier_option=getattr(plugin, "multiplier_option", ""),
        options=_options(found, plugin, requested.options) if plugin else (),
        **_figures(stored, key),
        quarantine=_quarantine(quarantine),
        warnings=tuple(warnings_about([type(plugin)]) + troubles_of([plugin])) if plugin else (),
        conformance=_conformance(found, stored, key),
    )


def _state(*, is_missing: bool, runs: bool, is_shut: bool, mode: str | None) -> str:
    if not runs:
        return OFF
    if is_missing:
        return MISSING
    if is_shut:
        return IN_QUARANTINE
    return WATCHES if mode == SHADOW else RUNS


def _on_failure(kind: str, name: str, chosen: str | None) -> str:
    if kind != FILTER:
        return ""
    return chosen or (LET_PASS if name in settings.NOVELLA_FAIL_OPEN_FILTERS else REJECT_HOSTS)


def _multiplier(plugin: Filter | Weigher | None, chosen: float | None) -> float | None:
    if not isinstance(plugin, Weigher):
        return None
    defaults = settings.NOVELLA_WEIGHT_MULTIPLIERS.get(plugin.multiplier_option, plugin.multiplier)
    return float(defaults if chosen is None else chosen)


def _options(found: Registry, plugin: Filter | Weigher, set_since: Mapping[str, Any]) -> tuple[OptionView, ...]:
    """Return each declared option. The schema comes from the plugin, so a value that is not JSON is shown as text."""
    views = []
    for name, rule in plugin.options_schema.items():
        sources = (("chosen", set_since), ("settings", found.options.values), ("default", {name: rule["default"]}))
        source, values = next(pair for pair in sources if name in pair[1])
        value = shown(plugin.options_schema, {name: values[name]})[name]
        schema = {key: part for key, part in rule.items() if key not in ("default", "description")}
        default = shown(plugin.options_schema, {name: rule["default"]})[name]
        views.append(
            OptionView(
                name,
                str(rule.get("description", ""))[:LONGEST_DESCRIPTION],
                schema=_plain(schema),
                default=_plain(default),
                value=_plain(value),
                source=source,
                is_secret=is_secret(rule),
            )
        )
    return tuple(views)


def _figures(stored: _Stored, key: PluginKey) -> dict[str, Any]:
    rows = stored.metrics.get(key, ())
    began = stored.now.replace(minute=0, second=0, microsecond=0)
    return {"metrics": _metrics(rows), "this_hour": _metrics([row for row in rows if row.hour >= began])}


def _metrics(rows: Sequence[PluginMetric]) -> MetricsView:
    counts: list[int] = []
    for row in rows:
        counts = durations.added(counts, row.durations)
    return MetricsView(
        calls=sum(row.calls for row in rows),
        faults=sum(row.faults for row in rows),
        overruns=sum(row.overruns for row in rows),
        rejected=sum(row.rejected for row in rows),
        differed=sum(row.differed for row in rows),
        p50_ms=durations.quantile(counts, 0.5),
        p99_ms=durations.quantile(counts, 0.99),
    )


def _quarantine(row: PluginQuarantine | None) -> QuarantineView | None:
    if row is None:
        return None
    return QuarantineView(row.cause, row.reason, row.times, row.began_at, row.until)


def _conformance(found: Registry, stored: _Stored, key: PluginKey) -> ConformanceView | None:
    row = stored.conformance.get(key)
    if row is None:
        return None
    info = found.source_of(*key)
    return ConformanceView(
        row.level,
        kept=row.kept,
        broken=tuple(row.broken),
        untried=row.untried,
        version=row.version,
        is_current=info is not None and (row.distribution, row.version) == (info.distribution, info.version),
        shown_at=row.shown_at,
        recorded_by=row.recorded_by,
    )


def _others(found: Registry, stored: _Stored, kind: str, brought: Mapping[str, type[Any]]) -> list[PluginView]:
    """Return drivers, memberships and sinks, which are chosen by name when a process starts."""
    views = []
    for name, one in brought.items():
        views.append(
            PluginView(
                kind,
                name,
                **_origin(found, kind, name),
                description=_description(one),
                state=AVAILABLE,
                is_enabled=True,
                is_on_by_default=True,
                **(_figures(stored, (kind, name)) if kind == DRIVER else {}),
                warnings=tuple(warnings_about([one])),
                conformance=_conformance(found, stored, (kind, name)),
            )
        )
    return views


def _extensions(found: Registry, stored: _Stored, kind: str) -> list[PluginView]:
    """Return extensions of a kind: those in the settings, in that order, then the others."""
    wanted, brought = settings.NOVELLA_EXTENSIONS.get(kind, {}), found.extensions.get(kind, {})
    views = []
    for name in dict.fromkeys((*wanted, *brought)):
        shut = stored.quarantines.get((kind, name))
        views.append(
            PluginView(
                kind,
                name,
                **_origin(found, kind, name),
                description=_description(brought.get(name)),
                state=_state(is_missing=name not in brought, runs=name in wanted, is_shut=bool(shut), mode=None),
                is_enabled=name in wanted,
                is_on_by_default=False,
                **_figures(stored, (kind, name)),
                quarantine=_quarantine(shut),
                warnings=tuple(warnings_about([brought[name]])) if name in brought else (),
            )
        )
    return views


def _origin(found: Registry, kind: str, name: str) -> dict[str, Any]:
    """Return the plugin's distribution for a view."""
    info = found.source_of(kind, name)
    if info is None:
        return {"distribution": "", "version": "", "is_shipped": False}
    return {"distribution": info.distribution, "version": info.version, "is_shipped": info.is_shipped}


def _description(plugin: Any) -> str:
    """Return the first line of its docstring."""
    lines = (inspect.getdoc(plugin) or "").splitlines() if plugin is not None else []
    return lines[0].replace("`", "")[:LONGEST_DESCRIPTION] if lines else ""


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))
