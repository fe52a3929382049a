"""Registry of plugins as plain values: the sources, and everything found in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conductor.core.compute_driver import ComputeDriver
from conductor.core.errors import NovellaError
from conductor.core.extensions import Extension
from conductor.core.filter import Filter
from conductor.core.membership import Membership
from conductor.core.notification_sink import NotificationSink
from conductor.core.weigher import Weigher

DISTRIBUTION = "novella"


class PluginMissing(NovellaError):
    """A plugin that the operator's option names was not found."""


class InvalidHookResult(NovellaError):
    """A plugin returned something else than its hook asks for."""


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """The operator's settings of plugins. An empty list stands for all that is on by default, in the order of
    discovery.

    Attributes:
        values: Options of filters and weighers, by name.
        ranges: Fixed ranges of normalisation of weighers, by name.
        nova_filters: Import paths of Nova's filter classes to run.
        nova_weighers: Import paths of Nova's weigher classes to run, with their multipliers.
        nova_config_files: Files of Nova's own options.
    """

    enabled_filters: tuple[str, ...] = ()
    enabled_weighers: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    nova_filters: Sequence[str] = ()
    nova_weighers: Mapping[str, float | None] = field(default_factory=dict)
    nova_config_files: Sequence[str] = ()
    ranges: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A plugin that was loaded: its source, and the names that it registers."""

    name: str
    distribution: str
    version: str
    is_shipped: bool
    filters: tuple[str, ...] = ()
    weighers: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    memberships: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()
    extensions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by kind
    warnings: tuple[str, ...] = ()  # changes to make before a coming contract

    def names_of(self, kind: str) -> tuple[str, ...]:
        """Return the plugin's names of a kind: "filter", "weigher", "driver", "membership", "sink", or an
        extension's.
        """
        names: tuple[str, ...] | None = getattr(self, f"{kind}s", None)
        return self.extensions.get(kind, ()) if names is None else names


SourceKey = tuple[str, str]  # distribution, and name of the entry point


@dataclass(frozen=True)
class LoadParameters:
    """Parameters to find the same plugins in another process: the settings, without the sources in `without`."""

    import_names: tuple[str, ...] = ()
    options: PluginOptions = field(default_factory=PluginOptions)
    without: frozenset[SourceKey] = frozenset()


@dataclass(frozen=True)
class PluginDeclaration:
    """Declarations of a plugin's class, or of an object created from it with these `options`.

    `values` are its plain attributes that differ from those of the base class. `defines` names the methods of the
    contract that it has.
    """

    kind: str
    name: str
    class_name: str
    module: str
    doc: str
    values: Mapping[str, Any]
    defines: frozenset[str]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class SourceDescription:
    """Description of one source: its contents in order, and its warnings. `reason` says why it is empty."""

    brought: tuple[PluginDeclaration, ...] = ()
    warnings: tuple[str, ...] = ()
    reason: str = ""
    trace: str = ""


@dataclass(frozen=True, slots=True)
class DisabledPlugin:
    """A plugin that was disabled when it was loaded, with the reason."""

    name: str
    distribution: str
    reason: str


@dataclass(frozen=True)
class Registry:
    """Everything that plugins register: filters and weighers in the order in which they run, the others by name.

    `filters` and `weighers` run by default, with `options`. The `brought_` ones are all that were found. Another
    process finds the same plugins with `loads`.
    """

    plugins: tuple[PluginInfo, ...] = ()
    filters: tuple[Filter, ...] = ()
    weighers: tuple[Weigher, ...] = ()
    drivers: Mapping[str, type[ComputeDriver]] = field(default_factory=dict)
    memberships: Mapping[str, type[Membership]] = field(default_factory=dict)
    sinks: Mapping[str, type[NotificationSink]] = field(default_factory=dict)
    extensions: Mapping[str, Mapping[str, type[Extension]]] = field(default_factory=dict)  # by kind and name
    quarantined: tuple[DisabledPlugin, ...] = ()
    loaded_filters: tuple[Filter, ...] = ()
    loaded_weighers: tuple[Weigher, ...] = ()
    options: PluginOptions = field(default_factory=PluginOptions)
    loads: LoadParameters = field(default_factory=LoadParameters)

    def source_of(self, kind: str, name: str) -> PluginInfo | None:
        """Return the plugin that registers the filter, weigher, driver, membership or sink of that name."""
        return next((info for info in self.plugins if name in info.names_of(kind)), None)

    def digest(self) -> str:
        """Return a short text that is equal exactly where the same plugins decide in the same order."""
        what = {
            "plugins": [(p.name, p.distribution, p.version) for p in self.plugins],
            "filters": [one.name for one in self.filters],
            "weighers": [one.name for one in self.weighers],
            "drivers": sorted(self.drivers),
        }
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]
