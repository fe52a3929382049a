"""What services take and give: plain values, so that no caller sees a row or a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from conductor.core.compute_driver import GuestFile
from conductor.core.request_spec import FlavorSpec, ImageSpec

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list. `missing_cells` maps a cell that did not answer to the reason."""

    items: list[T]
    has_more: bool = False
    missing_cells: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NetworkWish:
    """A network, or a port made before, to plug; with an address and the server's word for it, where asked for."""

    network_id: str = ""
    port_id: str = ""
    fixed_ip: str = ""
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceWish:
    """One device as it was asked for. `boot_index` None or below 0: nothing boots from it; 0 is the root disk."""

    source: str
    destination: str
    uuid: str = ""
    size_gb: int | None = None
    boot_index: int | None = None
    device_name: str = ""
    delete_on_termination: bool = False
    tag: str | None = None
    is_swap: bool = False
    volume_type: str = ""  # by name or id, of a volume that is made

    @property
    def is_root(self) -> bool:
        return self.boot_index == 0


@dataclass(frozen=True)
class BuildWish:
    """A launch, valid in form. `networks` None is "auto", () none; the same `run_uuid` launches nothing again."""

    name: str
    flavor_ref: str
    image_ref: str = ""
    min_count: int = 1
    max_count: int = 1
    networks: tuple[NetworkWish, ...] | None = None
    key_name: str | None = None
    availability_zone: str = ""
    scheduler_hints: Mapping[str, list[str]] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    description: str | None = None
    hostname: str = ""
    user_data: str | None = None
    files: tuple[GuestFile, ...] = ()
    config_drive: bool = False
    disk_config: str = "MANUAL"
    access_ip_v4: str = ""
    access_ip_v6: str = ""
    security_groups: tuple[str, ...] = ()
    devices: tuple[DeviceWish, ...] = ()
    requested_host: str = ""  # the scheduler checks it
    forced_host: str = ""  # taken as it is
    is_canary: bool = False  # the forced host may be closed to all others
    run_uuid: str = ""


@dataclass(frozen=True)
class Launched:
    """The answer to a launch: uuids in order, and the workflow that builds them."""

    instance_uuids: tuple[str, ...]
    reservation_id: str
    run_uuid: str


@dataclass(frozen=True)
class Fault:
    """Why an instance is in error."""

    code: int
    message: str
    created_at: datetime
    details: str = ""
    decision_uuid: str = ""


@dataclass(frozen=True)
class InstanceView:
    """An instance, whether still a build request or in a cell; the same fields for both.

    `addresses` are core.NetworkPort values as JSON, `volumes` are ids, with whether each goes with the instance.
    `run_uuid` is the newest workflow on it. `is_simulated` tells of its host. `is_partial`: its cell is silent.
    `host_status` is UP, UNKNOWN, MAINTENANCE, DOWN or "" without a host."""

    uuid: str
    name: str
    project_id: str
    user_id: str
    status: str
    vm_state: str
    task_state: str | None
    power_state: int
    flavor: FlavorSpec
    image: ImageSpec
    created_at: datetime
    updated_at: datetime
    cell: str = ""
    host: str = ""
    node: str = ""
    hostname: str = ""
    description: str | None = None
    availability_zone: str = ""
    pinned_availability_zone: str = ""
    addresses: list[dict[str, Any]] = field(default_factory=list)
    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    scheduler_hints: Mapping[str, list[str]] = field(default_factory=dict)
    security_groups: tuple[str, ...] = ()
    key_name: str | None = None
    user_data: str | None = None
    config_drive: str = ""
    disk_config: str = "MANUAL"
    access_ip_v4: str = ""
    access_ip_v6: str = ""
    reservation_id: str = ""
    launch_index: int = 0
    is_locked: bool = False
    locked_by: str = ""
    locked_reason: str | None = None
    is_simulated: bool = False
    launched_at: datetime | None = None
    terminated_at: datetime | None = None
    deleted_at: datetime | None = None
    fault: Fault | None = None
    run_uuid: str = ""
    group_uuid: str = ""
    host_status: str = ""
    is_partial: bool = False
    volumes: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True)
class InstanceQuery:
    """Filters (by names of `instance_filters.FILTERS`), order (key, is_descending) and page of an instance list."""

    all_projects: bool = False
    is_deleted: bool | None = None  # those that are gone, or none of them; open, changes are told of both
    with_soft_deleted: bool = True
    filters: Mapping[str, Any] = field(default_factory=dict)
    statuses: tuple[str, ...] = ()
    changes_since: datetime | None = None
    changes_before: datetime | None = None
    sort: tuple[tuple[str, bool], ...] = (("created_at", True),)
    limit: int = 1000
    marker: str = ""
    with_runs: bool = True
    with_partial: bool = True  # those of silent cells, with what else is known of them
    must_be_whole: bool = False  # CellUnavailable rather than a list without what is in silent cells


@dataclass(frozen=True)
class FlavorView:
    """A size on offer."""

    spec: FlavorSpec
    is_public: bool
    is_disabled: bool
    rxtx_factor: float
    description: str | None


@dataclass(frozen=True)
class KeyPairView:
    """The public half of a user's key. `private_key` is there once, in the answer that made it."""

    number: int
    user_id: str
    name: str
    key_type: str
    public_key: str
    fingerprint: str
    created_at: datetime
    private_key: str = field(default="", repr=False)

    @property
    def ssh_key(self) -> str:
        """What a guest may let its owner in by over SSH: a certificate is none."""
        return self.public_key.strip() if self.key_type == "ssh" else ""


@dataclass(frozen=True)
class QuotaView:
    """One limit of a project and what counts against it; a limit of -1 is none."""

    resource: str
    limit: int
    in_use: int = 0


@dataclass(frozen=True)
class GroupView:
    """A server group and the instances in it."""

    uuid: str
    name: str
    project_id: str
    user_id: str
    policy: str
    rules: Mapping[str, int]
    member_uuids: tuple[str, ...]


@dataclass(frozen=True)
class AggregateView:
    """An operator's group of hosts."""

    number: int
    uuid: str
    name: str
    metadata: Mapping[str, str]
    hosts: tuple[str, ...]
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True)
class ServiceView:
    """A process that belongs to a cell. One of a cell that does not answer has `is_known` False and little else."""

    number: int
    uuid: str
    binary: str
    host: str
    cell: str
    zone: str
    is_up: bool
    is_disabled: bool
    disabled_reason: str | None
    is_forced_down: bool
    is_simulated: bool
    version: int
    last_seen_at: datetime | None
    is_known: bool = True
    maintenance_note: str = ""


@dataclass(frozen=True)
class HypervisorView:
    """A compute node with the service that runs it. Memory in MB, disk in GB; totals are without overcommit."""

    number: int
    uuid: str
    node: str
    driver: str
    is_simulated: bool
    hypervisor_type: str
    hypervisor_version: int
    host_ip: str
    service: ServiceView
    vcpus: int
    vcpus_used: int
    memory_mb: int
    memory_mb_used: int
    disk_gb: int
    disk_gb_used: int
    disk_available_least_gb: int | None
    running_guests: int
    cpu_info: Mapping[str, Any]
    booted_at: int | None = None  # of the machine, in seconds since 1970; None when its agent does not tell


@dataclass(frozen=True)
class ZoneView:
    """An availability zone and the services in it."""

    name: str
    is_available: bool
    services: tuple[ServiceView, ...] = ()


@dataclass(frozen=True)
class ActionEventView:
    """One step of an action, under the Compute API's name of it. `result` is "Success", "Error" or None."""

    event: str
    started_at: datetime
    finished_at: datetime | None
    result: str | None
    host: str = ""
    details: str | None = None


@dataclass(frozen=True)
class ActionView:
    """One thing that was asked of an instance: the workflows of one request, newest change last."""

    request_id: str
    action: str
    instance_uuid: str
    user_id: str
    project_id: str
    started_at: datetime
    updated_at: datetime
    is_failed: bool
    events: tuple[ActionEventView, ...] = ()


@dataclass(frozen=True)
class StepView:
    """One attempt of one step, or a step that is only planned."""

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
    """A workflow run with its steps; `children` are the runs that it handed work to."""

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
    leftovers: list[str]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lease_expires_at: datetime | None = None
    last_event: int = 0
    parent_uuid: str = ""
    live_run_uuid: str = ""  # of an order to a live migration: the run that moves the guest
    step_number: int = 0  # of the step that is next or under way, from 1; 0 before the plan is known
    step_count: int = 0
    step_title: str = ""
    steps: list[StepView] = field(default_factory=list)
    children: list[RunView] = field(default_factory=list)
    locks: list[str] = field(default_factory=list)
    missing_cells: Mapping[str, str] = field(default_factory=dict)  # where more children may be, with why


@dataclass(frozen=True)
class EventView:
    """One numbered fact of the event log. `number` rises within `alias` only."""

    alias: str
    number: int
    topic: str
    kind: str
    created_at: datetime
    run_uuid: str = ""
    instance_uuid: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
