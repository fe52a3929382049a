"""What went into a workflow and what its steps gave, as far as the asker may see it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings

from conductor.core.context import RequestContext
from conductor.core.states import LIVE_RUN_STATES, WaitCause
from conductor.journal.models import WorkflowRun
from conductor.services import flows

HIDDEN = "hidden"
LONGEST_TEXT = 500
MOST_ITEMS = 50
# What nobody is shown, whoever asks; and what says to a tenant where work is done.
_SECRET = re.compile(r"pass(word)?$|^admin_?pass|secret|token|private|user_?data|credential|personality|auth", re.I)
_PLACE = re.compile(
    r"host|node|^cell|selection|provider|alternate|^target|destination|^source|worker|owner|url|path|connection|pci"
    r"|numa|mountpoint|tried",
    re.I,
)


@dataclass(frozen=True)
class RunData:
    """Inputs never change; outputs are what each step has given so far.

    `heartbeat_at` is when the owner was last heard, `next_try_at` when a step that failed is tried again. Of each step
    in `rules`: {"tries", "pause_seconds"}, where it is tried more than once. Outputs name hosts: they are operators'.
    """

    uuid: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    heartbeat_at: datetime | None = None
    next_try_at: datetime | None = None
    silence_seconds: float = 0.0  # after which a host that works on a step is given up on


def of_run(context: RequestContext, run_uuid: UUID | str) -> RunData:
    """Of one run. Raises NotFound."""
    _, run = flows.locate(context, run_uuid)
    seen = _as_operator if context.is_admin else _as_tenant
    return RunData(
        uuid=str(run.uuid),
        inputs=seen(run.inputs),
        outputs=seen({name: result for name, result in run.variables.items() if result}) if context.is_admin else {},
        rules={planned["name"]: _rules(planned) for planned in run.plan},
        heartbeat_at=_heartbeat(run) if context.is_admin else None,
        next_try_at=_next_try(run),
        silence_seconds=settings.NOVELLA_HOST_DOWN_SECONDS,
    )


def changes(one: Mapping[str, Any], other: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any, Any]]:
    """Where two values differ: the path, down to what has no parts, and what each has there (None for nothing)."""
    found: list[tuple[str, Any, Any]] = []
    for key in sorted({*one, *other}):
        here, there, path = one.get(key), other.get(key), f"{prefix}{key}"
        parts, other_parts = _parts(here), _parts(there)
        if parts is not None and other_parts is not None and (parts or other_parts):
            found += changes(parts, other_parts, f"{path}.")
        elif here != there:
            found.append((path, here, there))
    return found


def _parts(value: Any) -> Mapping[str, Any] | None:
    """What a value is made of, items of a list by their place; None for one that has no parts."""
    if isinstance(value, list):
        return {str(place): item for place, item in enumerate(value)}
    return value if isinstance(value, Mapping) else {} if value is None else None


def _rules(planned: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: planned[name] for name in ("tries", "pause_seconds") if name in planned}


def _heartbeat(run: WorkflowRun) -> datetime | None:
    """Each heartbeat pushes the end of the lease out by its whole length."""
    if run.owner is None or run.lease_expires_at is None:
        return None
    return run.lease_expires_at - timedelta(seconds=settings.NOVELLA_LEASE_SECONDS)


def _next_try(run: WorkflowRun) -> datetime | None:
    is_paused = run.state in LIVE_RUN_STATES and (run.waits_for or {}).get("cause") == WaitCause.TIMER
    return run.wake_at if is_paused else None


def _as_operator(value: Any) -> Any:
    return _without(value, None)


def _as_tenant(value: Any) -> Any:
    return _without(value, _PLACE)


def _without(value: Any, dropped: re.Pattern[str] | None) -> Any:
    """The value without what `dropped` matches, with secrets hidden and what is long cut short."""
    if isinstance(value, Mapping):
        kept = {key: inner for key, inner in value.items() if not (dropped and dropped.search(str(key)))}
        return {
            key: HIDDEN if _SECRET.search(str(key)) and inner else _without(inner, dropped)
            for key, inner in kept.items()
        }
    if isinstance(value, list | tuple):
        shown = [_without(inner, dropped) for inner in value[:MOST_ITEMS]]
        return [*shown, f"and {len(value) - MOST_ITEMS} more"] if len(value) > MOST_ITEMS else shown
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"{value[:LONGEST_TEXT]}… ({len(value)} characters)"
    return value
