"""Finds plugins, asks them what they bring, and shuts out what is broken."""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any, TypeVar

import pluggy
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from conductor import hookspecs
from conductor.core.compute_driver import ComputeDriver
from conductor.core.errors import NovellaError
from conductor.core.extensions import BY_HOOK, BY_KIND, Extension
from conductor.core.filter import Filter
from conductor.core.membership import Membership
from conductor.core.notification_sink import NotificationSink
from conductor.core.weigher import Weigher
from conductor.plugins.choosing import default_filters, default_weighers
from conductor.plugins.contract import require_contract, require_known_hooks, troubles_of, warnings_about
from conductor.plugins.found import DISTRIBUTION, Nonsense, PluginInfo, PluginOptions, Quarantined, Registry

log = logging.getLogger(__name__)

GROUP = "novella"
SHIPPED = ("scheduler_plugins.plugin", "compute_drivers.plugin")
NOVA_ADAPTER = "scheduler_plugins.nova_adapter.plugin"
P = TypeVar("P", Filter, Weigher)
C = TypeVar("C")
WORDS = {"NotificationSink": "sink"}


@dataclass
class _Source:
    """A plugin before it is trusted."""

    name: str
    distribution: str
    version: str
    is_shipped: bool
    load: Callable[[], Any]


@dataclass
class _Brought:
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


@functools.cache
def registry() -> Registry:
    """This process's plugins, by Django's settings where there are any, else by the defaults."""
    try:
        options = PluginOptions(
            tuple(settings.NOVELLA_ENABLED_FILTERS),
            tuple(settings.NOVELLA_ENABLED_WEIGHERS),
            settings.NOVELLA_SCHEDULER_OPTIONS,
            nova_filters=settings.NOVELLA_NOVA_FILTERS,
            nova_weighers=settings.NOVELLA_NOVA_WEIGHERS,
            nova_config_files=settings.NOVELLA_NOVA_CONFIG_FILES,
            ranges=settings.NOVELLA_WEIGHT_RANGES,
        )
        return load(tuple(settings.NOVELLA_PLUGINS), options)
    except ImproperlyConfigured:  # no Django here
        return load(SHIPPED, PluginOptions())


def load(import_names: Iterable[str], options: PluginOptions, *, finds_installed: bool = True) -> Registry:
    """Load the named modules, then whatever is installed under the entry-point group. Never raises."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    kept, infos, quarantined, names = _Brought(), [], [], tuple(import_names)
    for source in [*_shipped(names), *_nova(options), *(_installed() if finds_installed else ())]:
        try:
            brought = _brought_by(manager, source, kept, options.values)
        except (Exception, SystemExit) as error:
            log.exception("plugin quarantined: name=%s distribution=%s", source.name, source.distribution)
            quarantined.append(Quarantined(source.name, source.distribution, _reason(error)))
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
        drivers=kept.drivers,
        memberships=kept.memberships,
        sinks=kept.sinks,
        extensions=kept.extensions,
        quarantined=tuple(quarantined),
        brought_filters=tuple(kept.filters),
        brought_weighers=tuple(kept.weighers),
        options=options,
        import_names=names,
    )


def _shipped(import_names: Iterable[str]) -> Iterator[_Source]:
    for name in import_names:
        yield _Source(name, DISTRIBUTION, _own_version(), True, functools.partial(importlib.import_module, name))


def _nova(options: PluginOptions) -> Iterator[_Source]:
    """The adapter for classes of Nova, where some are named. What runs in it is foreign and held to its time."""
    if options.nova_filters or options.nova_weighers:

        def adapter() -> Any:
            made = importlib.import_module(NOVA_ADAPTER).NovaAdapter
            return made(options.nova_filters, options.nova_weighers, options.nova_config_files)

        yield _Source("nova_adapter", DISTRIBUTION, _own_version(), False, adapter)


def _own_version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # run from a checkout
        return ""


def _installed() -> Iterator[_Source]:
    def place(point: EntryPoint) -> tuple[str, str]:
        return (point.dist.name if point.dist else "", point.name)

    for point in sorted(entry_points(group=GROUP), key=place):
        dist = point.dist
        yield _Source(point.name, dist.name if dist else "", dist.version if dist else "", False, point.load)


def _brought_by(manager: pluggy.PluginManager, source: _Source, kept: _Brought, values: Mapping[str, Any]) -> _Brought:
    """What a plugin brings, checked. Raises whatever is wrong with it; the manager then knows it no more."""
    plugin = source.load()
    require_contract(plugin)
    name = f"{source.distribution}:{source.name}"
    if manager.register(plugin, name) is None:
        raise Nonsense(f"the name {name} is blocked")
    try:
        require_known_hooks(manager, plugin)
        answers = {hook: _answers(manager, plugin, hook) for hook in HOOKS}
        brought = _Brought()
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
        _refuse_doubles(brought, kept)
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
        raise Nonsense(f"a sequence of classes expected, not {type(answer).__name__}")
    return answer


def _made(item: Any, base: type[P], values: Mapping[str, Any]) -> P:
    if not (inspect.isclass(item) and issubclass(item, base)):
        raise Nonsense(f"a subclass of {base.__name__} expected, not {_name_of(item)}")
    if not item.name or not isinstance(item.name, str):
        raise Nonsense(f"{item.__name__} has no name")
    needed = "host_passes" if issubclass(item, Filter) else "weigh"
    if getattr(item, needed) is getattr(base, needed):
        raise Nonsense(f"{item.__name__} does not define {needed}")
    return item(values)


def _named_classes(answer: Any, base: type[C], method: str) -> dict[str, type[C]]:
    """Classes by the names that they give themselves; each defines the method that is asked."""
    found: dict[str, type[C]] = {}
    for item in _sequence(answer):
        if not (inspect.isclass(item) and issubclass(item, base)):
            raise Nonsense(f"a subclass of {base.__name__} expected, not {_name_of(item)}")
        name = getattr(item, "name", "")
        if not name or not isinstance(name, str):
            raise Nonsense(f"{item.__name__} has no name")
        if getattr(item, method) is getattr(base, method):
            raise Nonsense(f"{item.__name__} does not define {method}")
        if name in found:
            raise Nonsense(f"there is a {WORDS.get(base.__name__, base.__name__)} named {name} already")
        found[name] = item
    return found


def _warned(plugin: str, brought: _Brought) -> list[str]:
    """What the plugin should define no more and what will fail, each in a line that names it; the log has it too."""
    kinds: list[type[Any]] = [type(one) for one in brought.scheduling]
    kinds += [*brought.drivers.values(), *brought.sinks.values()]
    kinds += [kind for found in brought.extensions.values() for kind in found.values()]
    said = warnings_about(kinds)
    for line in said:
        log.warning("plugin uses what is deprecated: name=%s %s", plugin, line)
    troubled = troubles_of(brought.scheduling)
    for line in troubled:
        log.warning("plugin will fail: name=%s %s", plugin, line)
    return [*said, *troubled]


def _name_of(item: Any) -> str:
    return item.__name__ if inspect.isclass(item) else type(item).__name__


def _checked(answer: Any, base: type[Any], what: str) -> dict[str, type[Any]]:
    if not isinstance(answer, Mapping):
        raise Nonsense(f"a mapping of names to {what} classes expected, not {type(answer).__name__}")
    for name, found in answer.items():
        if not (isinstance(name, str) and name and inspect.isclass(found) and issubclass(found, base)):
            raise Nonsense(f"a subclass of {base.__name__} expected as {what} {name}, not {_name_of(found)}")
    return dict(answer)


def _refuse_doubles(brought: _Brought, kept: _Brought) -> None:
    """A name means one thing: whoever came first keeps it."""
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
                raise Nonsense(f"there is a {kind} named {name} already")


def _info(source: _Source, brought: _Brought) -> PluginInfo:
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
    """Our own errors speak; of others only the kind is shown, as their text may hold paths."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"ModuleNotFoundError: {error.name}"
    return error.message if isinstance(error, NovellaError) else type(error).__name__
