"""Which plugins decide now: the settings, what operators chose since, and what is in quarantine.

One small read before each decision tells whether anything has changed; only then all of it is read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models.functions import Now

from conductor.api_db.models import PluginChoice as ChoiceRow
from conductor.api_db.models import PluginQuarantine
from conductor.core.plugin_choice import PluginChoice, PluginKey
from conductor.core.scheduling.recall import Recall
from conductor.core.scheduling.select import Pipeline
from conductor.core.scheduling.watching import Rules
from conductor.core.scheduling.weighing import Multipliers
from conductor.plugins import InForce, Registry, chosen, registry
from conductor.scheduler.attendance import Apart

Numbers = tuple[tuple[Any, ...], ...]
LOOKED_AT = ("kind", "version", "quarantine_number", "touched_at")


@dataclass(frozen=True)
class _Kept:
    """What was read last, and for which numbers."""

    found: Registry
    numbers: Numbers
    choices: dict[str, PluginChoice] = field(default_factory=dict)
    until: dict[PluginKey, datetime | None] = field(default_factory=dict)
    by_quarantine: dict[frozenset[PluginKey], InForce] = field(default_factory=dict)


_lock = threading.Lock()
_kept: _Kept | None = None
recall = Recall()  # of this process


def in_force() -> InForce:
    """The plugins in force at this moment."""
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
    """The plugins in force, with the operator's options."""
    return _pipeline(in_force(), recall)


def supposed(choices: Mapping[str, PluginChoice]) -> Pipeline:
    """What would decide if operators had chosen so. What is in quarantine stays there, and nothing is remembered."""
    return _pipeline(chosen(registry(), choices, in_force().quarantined), None)


def _pipeline(force: InForce, remembers: Recall | None) -> Pipeline:
    apart = Apart(registry(), force.choices, force.digest)
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
        recall=remembers,
    )


def _read(numbers: Numbers) -> _Kept:
    """What the numbers stand for: from memory, or read. What is committed meanwhile has other numbers next time."""
    global _kept
    kept, found = _kept, registry()
    if kept is not None and kept.numbers == numbers and kept.found is found:
        return kept
    with _lock:
        kept = _Kept(found, numbers)
        for row in ChoiceRow.objects.all() if numbers else ():
            kept.choices[row.kind] = PluginChoice.from_json(row.choice)
        for shut in PluginQuarantine.objects.filter(released_at=None) if numbers else ():
            kept.until[shut.kind, shut.name] = shut.until
        _kept = kept
    return kept
