"""What plugins bring, as plain values: where each came from, and everything that was found."""

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


class Nonsense(NovellaError):
    """A plugin returned something else than its hook asks for."""


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """The operator's choice. Empty lists: everything found that is on by default, in the order in which it was found.

    `values` are the options of filters and weighers by name, `ranges` the ends between which weighers of these names
    are normalised whatever the candidates are. The paths of classes of Nova that are to run are in
    `nova_filters` and `nova_weighers`, these with their multipliers; the files of Nova's own options in
    `nova_config_files`.
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
    """A plugin in use: where it comes from and what it brings, by name."""

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
    warnings: tuple[str, ...] = ()  # what its author should change before a coming contract

    def names_of(self, kind: str) -> tuple[str, ...]:
        """What it brings of a kind: "filter", "weigher", "driver", "membership", "sink", or one of the extensions."""
        names: tuple[str, ...] | None = getattr(self, f"{kind}s", None)
        return self.extensions.get(kind, ()) if names is None else names


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A plugin that was shut out, and why."""

    name: str
    distribution: str
    reason: str


@dataclass(frozen=True)
class Registry:
    """Everything that plugins bring: filters and weighers in the order in which they run, the others by name.

    `filters` and `weighers` run by default, with `options`; the `brought_` ones are all that were found.
    Another process finds the same by `options` and `import_names`.
    """

    plugins: tuple[PluginInfo, ...] = ()
    filters: tuple[Filter, ...] = ()
    weighers: tuple[Weigher, ...] = ()
    drivers: Mapping[str, type[ComputeDriver]] = field(default_factory=dict)
    memberships: Mapping[str, type[Membership]] = field(default_factory=dict)
    sinks: Mapping[str, type[NotificationSink]] = field(default_factory=dict)
    extensions: Mapping[str, Mapping[str, type[Extension]]] = field(default_factory=dict)  # by kind and name
    quarantined: tuple[Quarantined, ...] = ()
    brought_filters: tuple[Filter, ...] = ()
    brought_weighers: tuple[Weigher, ...] = ()
    options: PluginOptions = field(default_factory=PluginOptions)
    import_names: tuple[str, ...] = ()

    def source_of(self, kind: str, name: str) -> PluginInfo | None:
        """The plugin that brings the filter, weigher, driver, membership or sink of that name."""
        return next((info for info in self.plugins if name in info.names_of(kind)), None)

    def digest(self) -> str:
        """A short text that is the same exactly where the same plugins decide in the same order."""
        what = {
            "plugins": [(p.name, p.distribution, p.version) for p in self.plugins],
            "filters": [one.name for one in self.filters],
            "weighers": [one.name for one in self.weighers],
            "drivers": sorted(self.drivers),
        }
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]
