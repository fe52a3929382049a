"""Extensions of plugins in use: asked in time, counted, and shut out when they make trouble too often."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from conductor.core.errors import NovellaError, Unavailable
from conductor.core.extensions import Extension
from conductor.core.scheduling.watching import IN_QUARANTINE, Use
from conductor.plugins import Registry, extensions, registry
from conductor.plugins.extensions import ExtensionFailed
from conductor.plugins.notes import notes
from conductor.plugins.time_box import TimeBox, TooLate
from conductor.scheduler.plugin_watch import plugin_watch
from conductor.scheduler.plugins_in_force import in_force

__all__ = ["ExtensionFailed", "InUse", "in_use"]

log = logging.getLogger(__name__)


@dataclass
class InUse:
    """One extension that the operator named."""

    extension: Extension
    box: TimeBox

    @property
    def key(self) -> tuple[str, str]:
        return self.extension.kind, self.extension.name

    def ask(self, work: Callable[[], Any], check: Callable[[Any], str] = lambda answer: "") -> Any:
        """What the extension answers. `check` says what is wrong with an answer.

        Raises ExtensionFailed; what the extension says by an error of ours, such as Invalid, is raised as it is.
        """
        if self.key in _quarantined():
            raise ExtensionFailed(IN_QUARANTINE)
        use, raised = Use(*self.key, turns=1), None
        began = time.perf_counter()
        try:
            answer = self.box.ask(work, self.extension.seconds)
            wrong = check(answer)
            if not wrong:
                return answer
            use.faults = 1
        except TooLate as late:
            use.overruns, wrong = 1, str(late)
        except NovellaError:
            raise
        except BaseException as error:  # raised on its thread, whatever it is: the text may hold secrets
            log.exception("extension raised: kind=%s name=%s", *self.key)
            use.faults, wrong, raised = 1, type(error).__name__, error
        finally:
            use.seconds = time.perf_counter() - began
            use.milliseconds = [use.seconds * 1000]
            plugin_watch.note([use])
        log.warning("extension failed: kind=%s name=%s reason=%s", *self.key, wrong)
        notes.fault(self.key, wrong, raised)
        raise ExtensionFailed(wrong)

    def insist(self, noun: str, work: Callable[[], Any], check: Callable[[Any], str]) -> Any:
        """As `ask`, where nothing can go on without an answer: raises Unavailable, naming the extension."""
        try:
            return self.ask(work, check)
        except ExtensionFailed as failure:
            raise Unavailable(f"The {noun} {self.extension.name} gave no answer: {failure}.") from None


def in_use(kind: str) -> list[InUse]:
    """Those that the operator named, in that order. One that cannot be had is told in the log once and left out."""
    wanted: Mapping[str, Any] = settings.NOVELLA_EXTENSIONS.get(kind) or {}
    if not wanted:
        return []
    found = registry()
    with _lock:
        return [one for name, options in wanted.items() if (one := _kept(found, kind, name, options)) is not None]


_lock = threading.Lock()
_made: dict[tuple[str, str], tuple[Registry, Any, InUse | None]] = {}


def _kept(found: Registry, kind: str, name: str, options: Any) -> InUse | None:
    kept = _made.get((kind, name))
    if kept is not None and kept[0] is found and kept[1] == options:
        return kept[2]
    one: InUse | None = None
    try:
        one = InUse(extensions.made(found, kind, name, options), TimeBox(f"{kind} {name}"))
    except NovellaError as error:
        log.error("extension is not used: kind=%s name=%s reason=%s", kind, name, error.message)
    _made[kind, name] = found, options, one
    return one


def _quarantined() -> frozenset[tuple[str, str]]:
    try:
        return in_force().quarantined
    except (DatabaseError, InterfaceError):  # then nobody is known to be shut out
        return frozenset()
