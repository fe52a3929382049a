"""Values of workflows: runs, steps and events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class StepView:
    """One attempt of one step, or a planned step."""

    index: int
    name: str
    title: str
    lane: str  # "API", "Conductor", "Scheduler", "Cell conductor", or "Compute/<host>"
    event: str  # the Compute API's name of the instance action event
    direction: str
    attempt: int
    try_number: int
    state: str
    host: str = ""
    worker: str = ""
    fencing_token: int = 0
    step_key: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    progress: Mapping[str, Any] | None = None
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class RunView:
    """A workflow run with its steps; `children` are the runs that it started."""

    uuid: str
    flow: str
    flow_version: int
    action: str
    state: str
    cell: str
    instance_uuid: str
    instance_name: str
    project_id: str
    user_id: str
    user_name: str
    request_id: str
    attempt: int
    owner: str
    fencing_token: int
    waits_for: Mapping[str, Any] | None
    is_cancel_requested: bool
    error: Mapping[str, Any] | None
    uncompensated: list[str]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lease_expires_at: datetime | None = None
    last_event: int = 0
    parent_uuid: str = ""
    live_run_uuid: str = ""  # for an intervention in a live migration: the run of that migration
    step_number: int = 0  # of the step that is next or under way, from 1; 0 before the plan is known
    step_count: int = 0
    step_title: str = ""
    steps: list[StepView] = field(default_factory=list)
    children: list[RunView] = field(default_factory=list)
    locks: list[str] = field(default_factory=list)
    missing_cells: Mapping[str, str] = field(default_factory=dict)  # cells that may have more children


@dataclass(frozen=True)
class EventView:
    """An event of the event log. `number` rises within `alias` only."""

    alias: str
    number: int
    topic: str
    kind: str
    created_at: datetime
    run_uuid: str = ""
    instance_uuid: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
