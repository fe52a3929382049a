"""Loads the classes that the operator named, and initialises Nova for them."""

from __future__ import annotations

import functools
import importlib
import logging
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from conductor.core.errors import Invalid

log = logging.getLogger(__name__)

PREFIX = "nova."
VIEWS = "scheduler_plugins.nova_adapter"
# Nova would otherwise replace the threads and sockets of this whole process.
UNPATCHED = "OS_NOVA_DISABLE_EVENTLET_PATCHING"


@dataclass(frozen=True, slots=True)
class NovaObject:
    """One object of a class of Nova, or the reason why there is none."""

    path: str
    made: Any = None
    trouble: str = ""

    def require(self) -> Any:
        """Return the object. Raises Invalid where there is none."""
        if self.trouble:
            raise Invalid(f"{self.path}: {self.trouble}.")
        return self.made


@dataclass(frozen=True)
class Guests:
    """Creates objects of Nova's classes; Nova is imported at the first one, with the operator's configuration files."""

    config_files: tuple[str, ...] = ()

    def filter(self, path: str) -> NovaObject:
        return self._guest(path, "nova.scheduler.filters", "BaseHostFilter", "host_passes")

    def weigher(self, path: str) -> NovaObject:
        return self._guest(path, "nova.scheduler.weights", "BaseHostWeigher", "_weigh_object")

    def _guest(self, path: str, module: str, base: str, method: str) -> NovaObject:
        try:
            start(self.config_files)
            kind = _named(path)
            if not (isinstance(kind, type) and issubclass(kind, getattr(importlib.import_module(module), base))):
                return NovaObject(path, trouble=f"it is no subclass of {base}")
            if not callable(getattr(kind, method, None)):
                return NovaObject(path, trouble=f"it does not define {method}")
            return NovaObject(path, kind())
        except (Exception, SystemExit) as error:
            log.exception("class of nova cannot be used: path=%s", path)
            return NovaObject(path, trouble=_reason(error))


@functools.cache
def start(config_files: tuple[str, ...] = ()) -> None:
    """Import Nova, once, without its command line and without files that the operator did not name."""
    os.environ.setdefault(UNPATCHED, "1")
    importlib.import_module("nova.conf").CONF([], project="nova", default_config_files=list(config_files))
    importlib.import_module("nova.objects").register_all()
    importlib.import_module(f"{VIEWS}.host_view")


def names_of(paths: Iterable[str]) -> dict[str, str]:
    """Return path → name here: `nova.` and the class; the whole path where two classes have the same name."""
    found = list(dict.fromkeys(paths))
    counts = Counter(path.rpartition(".")[2] for path in found)
    return {path: PREFIX + (path if counts[last] > 1 else last) for path in found for last in [path.rpartition(".")[2]]}


def _named(path: str) -> Any:
    module, _, name = path.rpartition(".")
    if not module:
        raise Invalid("it is no path of a class: my.package.MyFilter")
    return getattr(importlib.import_module(module), name)


def _reason(error: BaseException) -> str:
    """Return an error's text: our own message, or only the type of a foreign one, whose text may hold paths."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        hint = ": install novella[nova-adapter]" if error.name == "nova" else ""
        return f"there is no module {error.name}{hint}"
    return error.message if isinstance(error, Invalid) else f"it cannot be made ({type(error).__name__})"
