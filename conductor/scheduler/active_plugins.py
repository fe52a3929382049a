"""The active plugins: the settings, the operators' choices at run time, and extensions that are not in quarantine."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.db.models.functions import Now

from conductor.api_db.models import PluginChoice as ChoiceRow
from conductor.api_db.models import PluginQuarantine
from conductor.core.errors import NovellaError, Unavailable
from conductor.core.extensions import Extension
from conductor.core.plugin_choice import PluginKey, PluginKindSettings
from conductor.core.scheduling.decision_cache import DecisionCache
from conductor.core.scheduling.select import Pipeline
from conductor.core.scheduling.watching import (
    IN_QUARANTINE,
    NotCalled,
    PluginProcessEnded,
    PluginTimedOut,
    PluginUse,
    Rules,
    describe,
)
from conductor.core.scheduling.weighing import Multipliers
from conductor.plugins import ActivePlugins, Registry, chosen, extensions, registry
from conductor.plugins.extensions import ExtensionFailed
from conductor.plugins.log import notes
from conductor.plugins.worker_protocol import speaking
from conductor.plugins.workers import DedicatedWorker, SharedWorkers
from conductor.scheduler.plugin_health import plugin_watch

Numbers = tuple[tuple[Any, ...], ...]
LOOKED_AT = ("kind", "version", "quarantine_number", "touched_at")


@dataclass(frozen=True)
class _Kept:
    """The state as last read, with its version numbers."""

    found: Registry
    numbers: Numbers
    choices: dict[str, PluginKindSettings] = field(default_factory=dict)
    until: dict[PluginKey, datetime | None] = field(default_factory=dict)
    by_quarantine: dict[frozenset[PluginKey], ActivePlugins] = field(default_factory=dict)


_lock = threading.Lock()
_kept: _Kept | None = None
decision_cache = DecisionCache()  # one per process


def in_force() -> ActivePlugins:
    """Return the plugins that are active now."""
    rows = list(ChoiceRow.objects.order_by("kind").values_list(*LOOKED_AT, Now()))
    kept = _read(tuple(row[:-1] for row in rows))
    now = rows[0][-1] if rows else None
    quarantined = frozenset(
        key for key, until in kept.until.items() if until is None or (now is not None and now < until)
    )
    found = kept.by_quarantine.get(quarantined)
    if found is None:
        kept.by_quarantine[quarantined] = found = chosen(kept.found, kept.choices, quarantined)
    return found


def pipeline() -> Pipeline:
    """Return the pipeline of the active plugins, with the operator's options."""
    return _pipeline(in_force(), decision_cache)


def hypothetical(choices: Mapping[str, PluginKindSettings]) -> Pipeline:
    """Return the pipeline for other choices. Plugins in quarantine stay there, and nothing is cached."""
    return _pipeline(chosen(registry(), choices, in_force().quarantined), None)


def _pipeline(force: ActivePlugins, remembers: DecisionCache | None) -> Pipeline:
    apart = SharedWorkers(registry().loads, force.choices, force.digest)
    return Pipeline(
        filters=force.filters,
        weighers=force.weighers,
        multipliers=Multipliers({**settings.NOVELLA_WEIGHT_MULTIPLIERS, **force.multipliers}),
        rules=Rules(
            fail_open=frozenset(settings.NOVELLA_FAIL_OPEN_FILTERS) - force.fail_closed | force.fail_open,
            clock=time.perf_counter,
            shadows=force.shadows,
            quarantined=force.quarantined,
            trusted=force.trusted,
            plugin_seconds=settings.NOVELLA_PLUGIN_SECONDS,
            decision_seconds=settings.NOVELLA_DECISION_SECONDS,
            within=apart.call,
            prepare=apart.prepare,
            digest=force.digest,
        ),
        host_subset_size=settings.NOVELLA_HOST_SUBSET_SIZE,
        max_attempts=settings.NOVELLA_MAX_BUILD_ATTEMPTS,
        keeps_order=not settings.NOVELLA_SHUFFLE_BEST_SAME_WEIGHED_HOSTS,
        decision_cache=remembers,
    )


def _read(numbers: Numbers) -> _Kept:
    """Return the state of these version numbers: the cached one, or read anew. Each later commit changes the
    numbers.
    """
    global _kept
    kept, found = _kept, registry()
    if kept is not None and kept.numbers == numbers and kept.found is found:
        return kept
    with _lock:
        kept = _Kept(found, numbers)
        for row in ChoiceRow.objects.all() if numbers else ():
            kept.choices[row.kind] = PluginKindSettings.from_json(row.choice)
        for shut in PluginQuarantine.objects.filter(released_at=None) if numbers else ():
            kept.until[shut.kind, shut.name] = shut.until
        _kept = kept
    return kept


__all__ = ["ExtensionFailed", "InUse", "in_use"]

log = logging.getLogger(__name__)


@dataclass
class InUse:
    """One extension that the operator named."""

    extension: Extension
    worker: SharedWorkers | DedicatedWorker

    @property
    def key(self) -> tuple[str, str]:
        return self.extension.kind, self.extension.name

    def ask(self, *args: Any, check: Callable[[Any], str] = lambda answer: "") -> Any:
        """Call the extension. `check` returns what is wrong with an answer.

        Raises:
            ExtensionFailed: the call failed. An error of our own classes that the extension raises, such as Invalid,
                passes through.
        """
        if self.key in _quarantined():
            raise ExtensionFailed(IN_QUARANTINE)
        seconds, use, raised = self.extension.seconds, PluginUse(*self.key, turns=1), None
        began = time.perf_counter()
        try:
            began += self.worker.prepare()
            answer = self.worker.call(seconds, speaking, getattr(self.extension, self.extension.method), *args)
            wrong = check(answer)
            if not wrong:
                return answer
            use.faults = 1
        except PluginTimedOut:
            use.overruns, use.losses, wrong = 1, 1, f"did not answer within {seconds:g} seconds"
        except NotCalled as refusal:  # no process is available for it: not a fault of the extension
            wrong = str(refusal)
        except NovellaError:
            raise
        except Exception as error:  # any error of its process: the text may hold secrets
            log.exception("extension raised: kind=%s name=%s", *self.key)
            use.faults, use.losses = 1, int(isinstance(error, PluginProcessEnded))
            wrong, raised = describe(error), error
        finally:
            use.seconds = max(time.perf_counter() - began, 0.0)
            use.milliseconds = [use.seconds * 1000]
            plugin_watch.note([use])
        log.warning("extension failed: kind=%s name=%s reason=%s", *self.key, wrong)
        notes.fault(self.key, wrong, raised)
        raise ExtensionFailed(wrong)

    def insist(self, noun: str, *args: Any, check: Callable[[Any], str]) -> Any:
        """Call the extension where an answer is required. Raises Unavailable, naming the extension."""
        try:
            return self.ask(*args, check=check)
        except ExtensionFailed as failure:
            raise Unavailable(f"The {noun} {self.extension.name} gave no answer: {failure}.") from None


def in_use(kind: str) -> list[InUse]:
    """Return the extensions that the operator named, in order. An unusable one is left out, and logged once."""
    wanted: Mapping[str, Any] = settings.NOVELLA_EXTENSIONS.get(kind) or {}
    if not wanted:
        return []
    found = registry()
    with _lock:
        return [
            one for name, options in wanted.items() if (one := _kept_extensions(found, kind, name, options)) is not None
        ]


_made: dict[tuple[str, str], tuple[Registry, Any, InUse | None]] = {}


def _kept_extensions(found: Registry, kind: str, name: str, options: Any) -> InUse | None:
    kept = _made.get((kind, name))
    if kept is not None and kept[0] is found and kept[1] == options:
        return kept[2]
    if kept is not None and kept[2] is not None:
        kept[2].worker.end()
    one: InUse | None = None
    try:
        extension = extensions.made(found, kind, name, options)
        one = InUse(extension, DedicatedWorker(found.loads) if extension.keeps_process else SharedWorkers(found.loads))
    except NovellaError as error:
        log.error("extension is not used: kind=%s name=%s reason=%s", kind, name, error.message)
    _made[kind, name] = found, options, one
    return one


def _quarantined() -> frozenset[tuple[str, str]]:
    try:
        return in_force().quarantined
    except (DatabaseError, InterfaceError):  # quarantines are unknown then
        return frozenset()
