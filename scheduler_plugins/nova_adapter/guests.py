"""Finds the classes that the operator named, and makes Nova ready for them."""

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
class Guest:
    """One object of a class of Nova, or why there is none."""

    path: str
    made: Any = None
    trouble: str = ""

    def require(self) -> Any:
        """The object. Raises Invalid where there is none."""
        if self.trouble:
            raise Invalid(f"{self.path}: {self.trouble}.")
        return self.made


@dataclass(frozen=True)
class Guests:
    """Makes guests; Nova is read in when the first one is asked for, with the operator's files of its options."""

    config_files: tuple[str, ...] = ()

    def filter(self, path: str) -> Guest:
        return self._guest(path, "nova.scheduler.filters", "BaseHostFilter", "host_passes")

    def weigher(self, path: str) -> Guest:
        return self._guest(path, "nova.scheduler.weights", "BaseHostWeigher", "_weigh_object")

    def _guest(self, path: str, module: str, base: str, method: str) -> Guest:
        try:
            start(self.config_files)
            kind = _named(path)
            if not (isinstance(kind, type) and issubclass(kind, getattr(importlib.import_module(module), base))):
                return Guest(path, trouble=f"it is no subclass of {base}")
            if not callable(getattr(kind, method, None)):
                return Guest(path, trouble=f"it does not define {method}")
            return Guest(path, kind())
        except (Exception, SystemExit) as error:
            log.exception("class of nova cannot be used: path=%s", path)
            return Guest(path, trouble=_reason(error))


@functools.cache
def start(config_files: tuple[str, ...] = ()) -> None:
    """Read Nova in, once, without its command line and without files that the operator did not name."""
    os.environ.setdefault(UNPATCHED, "1")
    importlib.import_module("nova.conf").CONF([], project="nova", default_config_files=list(config_files))
    importlib.import_module("nova.objects").register_all()
    importlib.import_module(f"{VIEWS}.host_view")


def names_of(paths: Iterable[str]) -> dict[str, str]:
    """Path → our name for it: `nova.` and the class; the whole path where two classes are called the same."""
    found = list(dict.fromkeys(paths))
    counts = Counter(path.rpartition(".")[2] for path in found)
    return {path: PREFIX + (path if counts[last] > 1 else last) for path in found for last in [path.rpartition(".")[2]]}


def _named(path: str) -> Any:
    module, _, name = path.rpartition(".")
    if not module:
        raise Invalid("it is no path of a class: my.package.MyFilter")
    return getattr(importlib.import_module(module), name)


def _reason(error: BaseException) -> str:
    """Our own errors speak; of others the kind alone is shown, as their text may hold paths."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        hint = ": install novella[nova-adapter]" if error.name == "nova" else ""
        return f"there is no module {error.name}{hint}"
    return error.message if isinstance(error, Invalid) else f"it cannot be made ({type(error).__name__})"
