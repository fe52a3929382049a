"""Imports plugins, collects what they register, and quarantines broken ones."""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any, TypeVar

import pluggy

from conductor import hookspecs
from conductor.core.compute_driver import ComputeDriver
from conductor.core.errors import NovellaError
from conductor.core.extensions import BY_HOOK, BY_KIND, Extension
from conductor.core.filter import Filter
from conductor.core.membership import Membership
from conductor.core.notification_sink import NotificationSink
from conductor.core.plugin_choice import FILTER, WEIGHER
from conductor.core.weigher import Weigher
from conductor.plugins.contract import require_contract, require_known_hooks, troubles_of, warnings_about
from conductor.plugins.ordering import default_filters, default_weighers
from conductor.plugins.proxies import DRIVER, MEMBERSHIP, SINK, LocalClasses, described
from conductor.plugins.registry import (
    DISTRIBUTION,
    DisabledPlugin,
    InvalidHookResult,
    LoadParameters,
    PluginInfo,
    PluginOptions,
    Registry,
    SourceDescription,
    SourceKey,
)

log = logging.getLogger(__name__)

GROUP = "novella"
SHIPPED = ("scheduler_plugins.plugin", "compute_drivers.plugin")
NOVA_ADAPTER = "scheduler_plugins.nova_adapter.plugin"
P = TypeVar("P", Filter, Weigher)
C = TypeVar("C")
WORDS = {"NotificationSink": "sink"}


@dataclass
class PluginSource:
    """A plugin source before it is loaded and validated."""

    name: str
    distribution: str
    version: str
    is_shipped: bool
    load: Callable[[], Any]

    @property
    def key(self) -> SourceKey:
        return self.distribution, self.name


@dataclass
class SourceContents:
    filters: list[Filter] = field(default_factory=list)
    weighers: list[Weigher] = field(default_factory=list)
    drivers: dict[str, type[ComputeDriver]] = field(default_factory=dict)
    memberships: dict[str, type[Membership]] = field(default_factory=dict)
    sinks: dict[str, type[NotificationSink]] = field(default_factory=dict)
    extensions: dict[str, dict[str, type[Extension]]] = field(default_factory=lambda: {kind: {} for kind in BY_KIND})
    warnings: list[str] = field(default_factory=list)

    @property
    def scheduling(self) -> list[Filter | Weigher]:
        return [*self.filters, *self.weighers]

    def by_kind(self) -> dict[str, list[tuple[str, Any]]]:
        """Everything that was found, by kind, with its names."""
        return {
            FILTER: [(one.name, one) for one in self.filters],
            WEIGHER: [(one.name, one) for one in self.weighers],
            DRIVER: list(self.drivers.items()),
            MEMBERSHIP: list(self.memberships.items()),
            SINK: list(self.sinks.items()),
            **{kind: list(found.items()) for kind, found in self.extensions.items()},
        }

    def add(self, kind: str, name: str, one: type[Any], options: Mapping[str, Any]) -> None:
        """Add a class of that kind. Of filters and weighers one object is created."""
        if kind in (FILTER, WEIGHER):
            (self.filters if kind == FILTER else self.weighers).append(one(options))
            return
        named: dict[str, dict[str, type[Any]]] = {
            DRIVER: self.drivers,
            MEMBERSHIP: self.memberships,
            SINK: self.sinks,
            **self.extensions,
        }
        named[kind][name] = one


def load(
    import_names: Iterable[str],
    options: PluginOptions,
    *,
    finds_installed: bool = True,
    without: Collection[SourceKey] = (),
) -> Registry:
    """Import the named modules, then whatever is installed under the entry-point group. Never raises."""
    loads = LoadParameters(tuple(import_names), options, frozenset(without))
    sources = [*shipped_sources(loads), *(foreign_sources(options) if finds_installed else _nova(options))]
    return collected([one for one in sources if one.key not in loads.without], loads, importing(loads))


def importing(loads: LoadParameters) -> Callable[[PluginSource, SourceContents], SourceContents]:
    """Return a function that imports a source in this process and collects what it registers."""
    manager = _manager()
    return lambda source, kept: _brought_by(manager, source, kept, loads.options.values)


def collected(
    sources: Iterable[PluginSource],
    loads: LoadParameters,
    bring: Callable[[PluginSource, SourceContents], SourceContents],
) -> Registry:
    """Return what `bring` returns for each source. A source for which it raises is quarantined."""
    kept, infos, quarantined, options = SourceContents(), [], [], loads.options
    for source in sources:
        try:
            brought = bring(source, kept)
        except (Exception, SystemExit) as error:
            reason, is_foreign = _reason(error), not isinstance(error, NovellaError)
            sentence = "plugin quarantined: name=%s distribution=%s reason=%s"
            log.error(sentence, source.name, source.distribution, reason, exc_info=is_foreign)
            quarantined.append(DisabledPlugin(source.name, source.distribution, reason))
            continue
        kept.filters += brought.filters
        kept.weighers += brought.weighers
        kept.drivers |= brought.drivers
        kept.memberships |= brought.memberships
        kept.sinks |= brought.sinks
        for kind, found in brought.extensions.items():
            kept.extensions[kind] |= found
        infos.append(_info(source, brought))
    return Registry(
        plugins=tuple(infos),
        filters=default_filters(kept.filters, options),
        weighers=default_weighers(kept.weighers, options),
        drivers=LocalClasses(kept.drivers),
        memberships=LocalClasses(kept.memberships),
        sinks=kept.sinks,
        extensions=kept.extensions,
        quarantined=tuple(quarantined),
        loaded_filters=tuple(kept.filters),
        loaded_weighers=tuple(kept.weighers),
        options=options,
        loads=loads,
    )


def describe(loads: LoadParameters, key: SourceKey) -> SourceDescription:
    """Return what a source registers, as plain values. For workers: the source is imported here, which may hang."""
    try:
        source = next(one for one in foreign_sources(loads.options) if one.key == key)
        brought = importing(loads)(source, SourceContents())
        found = tuple(described(kind, name, one) for kind, named in brought.by_kind().items() for name, one in named)
        return SourceDescription(found, tuple(brought.warnings))
    except (Exception, SystemExit) as error:
        return SourceDescription(reason=_reason(error), trace=traceback.format_exc())


def class_of(loads: LoadParameters, source: PluginSource, kind: str, name: str) -> type[Any]:
    """Return the class of the source, imported in this process."""
    brought = importing(loads)(source, SourceContents())
    return dict(brought.by_kind()[kind])[name]  # type: ignore[no-any-return]


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def shipped_sources(loads: LoadParameters) -> list[PluginSource]:
    """Return the modules that the settings name. They are trusted, and imported in this process."""
    return list(_shipped(loads.import_names))


def foreign_sources(options: PluginOptions) -> list[PluginSource]:
    """Return the foreign sources: classes of Nova that the settings name, and installed plugins."""
    return [*_nova(options), *_installed()]


def _shipped(import_names: Iterable[str]) -> Iterator[PluginSource]:
    for name in import_names:
        yield PluginSource(name, DISTRIBUTION, _own_version(), True, functools.partial(importlib.import_module, name))


def _nova(options: PluginOptions) -> Iterator[PluginSource]:
    """Yield the adapter for classes of Nova, if some are named. Their code is foreign and has a time limit."""
    if options.nova_filters or options.nova_weighers:

        def adapter() -> Any:
            made = importlib.import_module(NOVA_ADAPTER).NovaAdapter
            return made(options.nova_filters, options.nova_weighers, options.nova_config_files)

        yield PluginSource("nova_adapter", DISTRIBUTION, _own_version(), False, adapter)


def _own_version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # running from a checkout
        return ""


def _installed() -> Iterator[PluginSource]:
    def place(point: EntryPoint) -> tuple[str, str]:
        return (point.dist.name if point.dist else "", point.name)

    for point in sorted(entry_points(group=GROUP), key=place):
        dist = point.dist
        yield PluginSource(point.name, dist.name if dist else "", dist.version if dist else "", False, point.load)


def _brought_by(
    manager: pluggy.PluginManager, source: PluginSource, kept: SourceContents, values: Mapping[str, Any]
) -> SourceContents:
    """Return what a plugin registers, validated. Raises any fault, after it has unregistered the plugin."""
    plugin = source.load()
    require_contract(plugin)
    name = f"{source.distribution}:{source.name}"
    if manager.register(plugin, name) is None:
        raise InvalidHookResult(f"the name {name} is blocked")
    try:
        require_known_hooks(manager, plugin)
        answers = {hook: _answers(manager, plugin, hook) for hook in HOOKS}
        brought = SourceContents()
        for answer in answers["register_filters"]:
            brought.filters += [_made(item, Filter, values) for item in _sequence(answer)]
        for answer in answers["register_weighers"]:
            brought.weighers += [_made(item, Weigher, values) for item in _sequence(answer)]
        for answer in answers["register_compute_drivers"]:
            brought.drivers |= _checked(answer, ComputeDriver, "driver")
        for answer in answers["register_memberships"]:
            brought.memberships |= _checked(answer, Membership, "membership")
        for answer in answers["register_notification_sinks"]:
            brought.sinks |= _named_classes(answer, NotificationSink, "open")
        for hook, base in BY_HOOK.items():
            for answer in answers[hook]:
                brought.extensions[base.kind] |= _named_classes(answer, base, base.method)
        refuse_doubles(brought, kept)
        brought.warnings = _warned(name, brought)
    except BaseException:
        manager.unregister(plugin)
        raise
    return brought


HOOKS = (
    "register_filters",
    "register_weighers",
    "register_compute_drivers",
    "register_memberships",
    "register_notification_sinks",
    *BY_HOOK,
)


def _answers(manager: pluggy.PluginManager, plugin: Any, hook: str) -> list[Any]:
    caller = getattr(manager.hook, hook)
    return [found.function() for found in caller.get_hookimpls() if found.plugin is plugin]


def _sequence(answer: Any) -> Sequence[Any]:
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        raise InvalidHookResult(f"a sequence of classes expected, not {type(answer).__name__}")
    return answer


def _made(item: Any, base: type[P], values: Mapping[str, Any]) -> P:
    if not (inspect.isclass(item) and issubclass(item, base)):
        raise InvalidHookResult(f"a subclass of {base.__name__} expected, not {_name_of(item)}")
    if not item.name or not isinstance(item.name, str):
        raise InvalidHookResult(f"{item.__name__} has no name")
    needed = "host_passes" if issubclass(item, Filter) else "weigh"
    if getattr(item, needed) is getattr(base, needed):
        raise InvalidHookResult(f"{item.__name__} does not define {needed}")
    return item(values)


def _named_classes(answer: Any, base: type[C], method: str) -> dict[str, type[C]]:
    """Return classes by their names. Each must define the method of its contract."""
    found: dict[str, type[C]] = {}
    for item in _sequence(answer):
        if not (inspect.isclass(item) and issubclass(item, base)):
            raise InvalidHookResult(f"a subclass of {base.__name__} expected, not {_name_of(item)}")
        name = getattr(item, "name", "")
        if not name or not isinstance(name, str):
            raise InvalidHookResult(f"{item.__name__} has no name")
        if getattr(item, method) is getattr(base, method):
            raise InvalidHookResult(f"{item.__name__} does not define {method}")
        if name in found:
            raise InvalidHookResult(f"there is a {WORDS.get(base.__name__, base.__name__)} named {name} already")
        found[name] = item
    return found


def _warned(plugin: str, brought: SourceContents) -> list[str]:
    """Return and log a warning for each deprecated attribute and certain failure of the plugin."""
    kinds: list[type[Any]] = [type(one) for one in brought.scheduling]
    kinds += [*brought.drivers.values(), *brought.sinks.values()]
    kinds += [kind for found in brought.extensions.values() for kind in found.values()]
    sentence = warnings_about(kinds)
    for line in sentence:
        log.warning("plugin uses what is deprecated: name=%s %s", plugin, line)
    troubled = troubles_of(brought.scheduling)
    for line in troubled:
        log.warning("plugin will fail: name=%s %s", plugin, line)
    return [*sentence, *troubled]


def _name_of(item: Any) -> str:
    return item.__name__ if inspect.isclass(item) else type(item).__name__


def _checked(answer: Any, base: type[Any], what: str) -> dict[str, type[Any]]:
    if not isinstance(answer, Mapping):
        raise InvalidHookResult(f"a mapping of names to {what} classes expected, not {type(answer).__name__}")
    for name, found in answer.items():
        if not (isinstance(name, str) and name and inspect.isclass(found) and issubclass(found, base)):
            raise InvalidHookResult(f"a subclass of {base.__name__} expected as {what} {name}, not {_name_of(found)}")
    return dict(answer)


def refuse_doubles(brought: SourceContents, kept: SourceContents) -> None:
    """Drop duplicate names. The first plugin with a name keeps it."""
    pairs = (
        ("filter", [one.name for one in kept.filters], [one.name for one in brought.filters]),
        ("weigher", [one.name for one in kept.weighers], [one.name for one in brought.weighers]),
        ("driver", list(kept.drivers), list(brought.drivers)),
        ("membership", list(kept.memberships), list(brought.memberships)),
        ("sink", list(kept.sinks), list(brought.sinks)),
        *((kind, list(kept.extensions[kind]), list(names)) for kind, names in brought.extensions.items()),
    )
    for kind, taken, names in pairs:
        for index, name in enumerate(names):
            if name in taken or name in names[:index]:
                raise InvalidHookResult(f"there is a {kind} named {name} already")


def _info(source: PluginSource, brought: SourceContents) -> PluginInfo:
    return PluginInfo(
        name=source.name,
        distribution=source.distribution,
        version=source.version,
        is_shipped=source.is_shipped,
        filters=tuple(one.name for one in brought.filters),
        weighers=tuple(one.name for one in brought.weighers),
        drivers=tuple(brought.drivers),
        memberships=tuple(brought.memberships),
        sinks=tuple(brought.sinks),
        extensions={kind: tuple(names) for kind, names in brought.extensions.items() if names},
        warnings=tuple(brought.warnings),
    )


def _reason(error: BaseException) -> str:
    """Return an error's text: the message of our own errors, or only the type of foreign ones, as these may hold
    paths.
    """
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"ModuleNotFoundError: {error.name}"
    return error.message if isinstance(error, NovellaError) else type(error).__name__
