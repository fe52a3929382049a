"""Selects and orders filters and weighers, by the settings and by the operator's choices at run time."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeGuard, TypeVar

from conductor.core.errors import NovellaError
from conductor.core.filter import Filter
from conductor.core.host_state import HostState
from conductor.core.plugin_choice import FILTER, LET_PASS, REJECT_HOSTS, SHADOW, WEIGHER, PluginKey, PluginKindSettings
from conductor.core.request_spec import RequestSpec
from conductor.core.verdict import Verdict
from conductor.core.weigher import Weigher
from conductor.plugins.registry import PluginMissing, PluginOptions, Registry

log = logging.getLogger(__name__)
P = TypeVar("P", Filter, Weigher)


class OptionsRefused(NovellaError):
    """A plugin could not be created with its options."""


@dataclass(frozen=True)
class ActivePlugins:
    """The active plugins, and their settings.

    Attributes:
        choices: The operators' settings, from which the other fields follow.
        shadows: Plugins that run, and whose results are only recorded.
        quarantined: Plugins that do not run.
        trusted: Built-in plugins. They are measured, but have no time limit and no quarantine.
    """

    filters: tuple[Filter, ...] = ()
    weighers: tuple[Weigher, ...] = ()
    multipliers: Mapping[str, float] = field(default_factory=dict)
    fail_open: frozenset[str] = frozenset()
    fail_closed: frozenset[str] = frozenset()
    shadows: frozenset[PluginKey] = frozenset()
    quarantined: frozenset[PluginKey] = frozenset()
    trusted: frozenset[PluginKey] = frozenset()
    digest: str = ""
    choices: Mapping[str, PluginKindSettings] = field(default_factory=dict)


def chosen(
    found: Registry, choices: Mapping[str, PluginKindSettings], quarantined: frozenset[PluginKey] = frozenset()
) -> ActivePlugins:
    """Return the active plugins. The operator's choices override the settings. Never raises."""
    choice = {kind: choices.get(kind) or PluginKindSettings() for kind in (FILTER, WEIGHER)}
    per_plugin = [((kind, name), settings) for kind, one in choice.items() for name, settings in one.per_plugin.items()]
    filters = _in_order(found.loaded_filters, found.filters, choice[FILTER], _MissingFilter)
    weighers = _in_order(found.loaded_weighers, found.weighers, choice[WEIGHER], _MissingWeigher)
    values = found.options.values
    return ActivePlugins(
        filters=tuple(_with_options(one, choice[FILTER], values, _MissingFilter) for one in filters),
        weighers=tuple(
            _with_range(_with_options(one, choice[WEIGHER], values, _MissingWeigher), found.options.ranges)
            for one in weighers
        ),
        multipliers=_multipliers(weighers, choice[WEIGHER]),
        fail_open=frozenset(name for (_, name), settings in per_plugin if settings.on_failure == LET_PASS),
        fail_closed=frozenset(name for (_, name), settings in per_plugin if settings.on_failure == REJECT_HOSTS),
        shadows=frozenset(key for key, settings in per_plugin if settings.mode == SHADOW),
        quarantined=quarantined,
        trusted=_trusted(found),
        digest=_digest(found, choice, quarantined),
        choices=choice,
    )


def default_filters(found: Sequence[Filter], options: PluginOptions) -> tuple[Filter, ...]:
    return _ordered(found, options.enabled_filters, _MissingFilter)


def default_weighers(found: Sequence[Weigher], options: PluginOptions) -> tuple[Weigher, ...]:
    return _ordered(found, options.enabled_weighers, _MissingWeigher)


def missing(found: Registry | ActivePlugins) -> list[str]:
    """Return the names that are configured, but that no plugin registers."""
    stand_ins = [*found.filters, *found.weighers]
    return [
        one.name
        for one in stand_ins
        if isinstance(one, _MissingFilter | _MissingWeigher) and isinstance(one.reason, PluginMissing)
    ]


def run_order(names: Sequence[str], choice: PluginKindSettings) -> list[str]:
    """Return names in the order in which they run: first those that the operator ordered, then the others."""
    return list(dict.fromkeys((*choice.order, *names)))


def _in_order(
    brought: Sequence[P], default: Sequence[P], choice: PluginKindSettings, stand_in: Callable[[str], P]
) -> list[P]:
    """Return the enabled plugins. A missing plugin is replaced by a stand-in, as in _ordered."""
    by_name: dict[str, Any] = {one.name: one for one in (*brought, *default)}
    default_names = {one.name for one in default}
    # Plugins that were enabled at run time come after the defaults.
    names = run_order([*(one.name for one in default), *(one.name for one in brought), *choice.per_plugin], choice)
    found: list[P] = []
    for name in names:
        wanted = choice.of(name).is_enabled
        if wanted if wanted is not None else name in default_names:
            found.append(by_name.get(name) or stand_in(name))
    return found


def _with_options(
    one: P, choice: PluginKindSettings, values: Mapping[str, Any], stand_in: Callable[[str, NovellaError], P]
) -> P:
    """Return the plugin with the options that the operator set at run time; unchanged without such options."""
    options = choice.of(one.name).options
    if not options or isinstance(one, _MissingFilter | _MissingWeigher):
        return one
    try:
        return type(one)({**values, **options})
    except Exception:
        log.exception("plugin cannot be created with its options: name=%s", one.name)
        return stand_in(one.name, OptionsRefused())


def is_range(ends: Any) -> TypeGuard[Sequence[float]]:
    """Whether the value is two numbers, the first one lower."""
    if not isinstance(ends, Sequence) or len(ends) != 2 or any(type(end) not in (int, float) for end in ends):
        return False
    return math.isfinite(ends[1] - ends[0]) and ends[0] < ends[1]


def _with_range(one: Weigher, ranges: Mapping[str, Sequence[float]]) -> Weigher:
    """Return the weigher with the operator's range; unchanged if there is none or it is invalid."""
    ends = ranges.get(one.name)
    if not is_range(ends):
        return one
    fixed = copy(one)
    fixed.minval, fixed.maxval = map(float, ends)
    return fixed


def _multipliers(weighers: Sequence[Weigher], choice: PluginKindSettings) -> dict[str, float]:
    factors = {one.multiplier_option: choice.of(one.name).multiplier for one in weighers if one.multiplier_option}
    return {option: factor for option, factor in factors.items() if factor is not None}


def _trusted(found: Registry) -> frozenset[PluginKey]:
    shipped = [info for info in found.plugins if info.is_shipped]
    return frozenset((kind, name) for info in shipped for kind in (FILTER, WEIGHER) for name in info.names_of(kind))


def _digest(found: Registry, choice: Mapping[str, PluginKindSettings], quarantined: frozenset[PluginKey]) -> str:
    changes: dict[str, Any] = {kind: one.to_json() for kind, one in choice.items() if one != PluginKindSettings()}
    if found.options.ranges:
        changes["ranges"] = found.options.ranges
    if not changes and not quarantined:
        return found.digest()
    what = [found.digest(), changes, sorted(quarantined)]
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _ordered(found: Sequence[P], enabled: Sequence[str], stand_in: Callable[[str], P]) -> tuple[P, ...]:
    """Return the enabled plugins in the operator's order.

    A missing plugin is replaced by a stand-in that fails when it runs. So `on_failure` applies to it; otherwise a
    configured filter would be skipped.
    """
    if not enabled:
        return tuple(one for one in found if one.is_on_by_default)
    by_name = {one.name: one for one in found}
    return tuple(by_name.get(name) or stand_in(name) for name in dict.fromkeys(enabled))


class _MissingFilter(Filter):
    def __init__(self, name: str, reason: NovellaError | None = None) -> None:
        self.name = name  # type: ignore[misc]
        self.reason = reason or PluginMissing()

    def mask(self, hosts: Any, spec: RequestSpec) -> Any:
        raise self.reason

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        raise self.reason


class _MissingWeigher(Weigher):
    def __init__(self, name: str, reason: NovellaError | None = None) -> None:
        self.name = name  # type: ignore[misc]
        self.reason = reason or PluginMissing()

    def weigh(self, hosts: Any, spec: RequestSpec) -> Any:
        raise self.reason
