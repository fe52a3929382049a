"""Inputs and outputs of workflows, as far as the caller may see them."""

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
from conductor.services.workflows import workflows

HIDDEN = "hidden"
LONGEST_TEXT = 500
MOST_ITEMS = 50
# Hidden from all callers; and hidden from tenants, as they name hosts.
_SECRET = re.compile(r"pass(word)?$|^admin_?pass|secret|token|private|user_?data|credential|personality|auth", re.I)
_PLACE = re.compile(
    r"host|node|^cell|selection|provider|alternate|^target|destination|^source|worker|owner|url|path|connection|pci"
    r"|numa|mountpoint|tried",
    re.I,
)


@dataclass(frozen=True)
class RunData:
    """Inputs and outputs of a run. Inputs never change. Outputs are the results of the steps so far, for operators.

    `heartbeat_at` is the owner's last heartbeat, `next_try_at` the time of the next attempt of a failed step. For each
    step `rules` has {"tries", "pause_seconds"}, where it is retried.
    """

    uuid: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    heartbeat_at: datetime | None = None
    next_try_at: datetime | None = None
    silence_seconds: float = 0.0  # after which the owner gives up on a host that executes a step


def of_run(context: RequestContext, run_uuid: UUID | str) -> RunData:
    """Return the data of one run. Raises NotFound."""
    _, run = workflows.locate(context, run_uuid)
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
    """Return the differences of two values: the path of each leaf, and both values (None for a missing one)."""
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
    """Return the parts of a value, items of a list by index. None for one without parts."""
    if isinstance(value, list):
        return {str(place): item for place, item in enumerate(value)}
    return value if isinstance(value, Mapping) else {} if value is None else None


def _rules(planned: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: planned[name] for name in ("tries", "pause_seconds") if name in planned}


def _heartbeat(run: WorkflowRun) -> datetime | None:
    """Return the time of the last heartbeat: each one renews the lease for its full length."""
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
    """Return the value without keys that match `dropped`, with secrets hidden and long values cut."""
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
