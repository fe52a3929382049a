"""Stand-ins for plugin classes that only workers load: their declarations, without their code."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from conductor.core.compute_driver import ComputeDriver
from conductor.core.extensions import BY_KIND
from conductor.core.filter import Filter
from conductor.core.membership import Membership
from conductor.core.notification_sink import NotificationSink
from conductor.core.plugin_choice import FILTER, WEIGHER
from conductor.core.scheduling.watching import NotCalled
from conductor.core.weigher import Weigher
from conductor.plugins.registry import LoadParameters, PluginDeclaration
from conductor.plugins.worker_protocol import AnswerUnpickler, packed
from conductor.plugins.workers import SharedWorkers

DRIVER, MEMBERSHIP, SINK = "driver", "membership", "sink"
MAKE_SECONDS = 5.0  # for creating a plugin with its options
# The base class of each kind, by the name of the kind.
BASES: Mapping[str, type[Any]] = {
    FILTER: Filter,
    WEIGHER: Weigher,
    DRIVER: ComputeDriver,
    MEMBERSHIP: Membership,
    SINK: NotificationSink,
    **BY_KIND,
}
OF_ITS_OWN = frozenset({"log", "options", "name"})  # created here, not copied


def described(kind: str, name: str, plugin: Any) -> PluginDeclaration:
    """Return the declarations of a plugin's class, or of an object of it, beyond the base class of its kind."""
    base, of = BASES[kind], plugin if inspect.isclass(plugin) else type(plugin)
    names = [one for one in dir(plugin) if not one.startswith("_")]
    methods = [one for one in names if callable(getattr(base, one, None))]
    return PluginDeclaration(
        kind,
        name,
        class_name=of.__qualname__,
        module=of.__module__,
        doc=inspect.getdoc(of) or "",
        values={one: getattr(plugin, one) for one in names if one not in OF_ITS_OWN and _overrides(plugin, base, one)},
        defines=frozenset(one for one in methods if getattr(of, one) is not getattr(base, one)),
        options=getattr(plugin, "options", None) or {},
    )


def _overrides(plugin: Any, base: type[Any], name: str) -> bool:
    """Whether the attribute is a plain value that differs from that of the base class."""
    try:
        value = getattr(plugin, name)
        if callable(value) or (hasattr(base, name) and value is getattr(base, name)):
            return False
        AnswerUnpickler(packed(value), _nothing).load()
    except Exception:  # foreign code and values: those that fail are left out
        return False
    return True


def _nothing(name: Any) -> Any:
    raise pickle.UnpicklingError


def remade(plugin: Any, options: Mapping[str, Any]) -> PluginDeclaration:
    """Return the declarations of the plugin created with these options. Called in a worker.

    Raises what creating the plugin raises.
    """
    kind = next(one for one, base in BASES.items() if isinstance(plugin, base))
    return described(kind, plugin.name, type(plugin)(options))


class PluginProxy:
    """Mixin to the base class of a plugin's kind. Creating one with options creates the real plugin, in a worker."""

    described: ClassVar[PluginDeclaration]
    loads: ClassVar[LoadParameters]

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)  # type: ignore[call-arg]
        wanted, self.options = self.options, dict(self.described.options)  # type: ignore[has-type]
        if wanted != self.options:
            reported: PluginDeclaration = SharedWorkers(self.loads).call(
                MAKE_SECONDS, remade, self, dict(options or {})
            )
            vars(self).update(reported.values, options=wanted)


def stand_in(reported: PluginDeclaration, loads: LoadParameters, real: Callable[[], type[Any]]) -> type[Any]:
    """Return a class with the declarations of the plugin's class. `real` imports the plugin in this process."""

    def elsewhere(*args: Any, **kwargs: Any) -> Any:
        raise NotCalled("its code runs in workers alone")

    attributes = {
        **dict.fromkeys(reported.defines, elsewhere),
        **reported.values,
        "name": reported.name,
        "described": reported,
        "loads": loads,
        "real": staticmethod(real),
        "__doc__": reported.doc,
        "__module__": reported.module,
        "__qualname__": reported.class_name,
    }
    if reported.kind in (DRIVER, MEMBERSHIP):
        attributes.pop("name")
    return type(reported.class_name.rpartition(".")[2], (PluginProxy, BASES[reported.kind]), attributes)


class LocalClasses(Mapping[str, type[Any]]):
    """Drivers or memberships by name. Looking one up imports it in this process, for use."""

    def __init__(self, classes: Mapping[str, type[Any]]) -> None:
        self.declared = dict(classes)

    def __getitem__(self, name: str) -> type[Any]:
        found = self.declared[name]
        return found.real() if issubclass(found, PluginProxy) else found  # type: ignore[attr-defined]

    def __contains__(self, name: object) -> bool:
        return name in self.declared

    def __iter__(self) -> Iterator[str]:
        return iter(self.declared)

    def __len__(self) -> int:
        return len(self.declared)


def declared(classes: Mapping[str, type[Any]]) -> Mapping[str, type[Any]]:
    """Return the classes for inspection, without importing them."""
    return classes.declared if isinstance(classes, LocalClasses) else classes
