"""Values of servers: requests, and views for callers. Callers never get rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from conductor.core.compute_driver import GuestFile
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.services.volumes.types import DeviceRequest


@dataclass(frozen=True)
class NetworkRequest:
    """A network, or an existing port, to attach; with an address and a device tag, where requested."""

    network_id: str = ""
    port_id: str = ""
    fixed_ip: str = ""
    tag: str | None = None


@dataclass(frozen=True)
class InstanceCreate:
    """A launch with a valid form.

    `networks` None is "auto", () none. A repeated request with the same `run_uuid` launches nothing.
    """

    name: str
    flavor_ref: str
    image_ref: str = ""
    min_count: int = 1
    max_count: int = 1
    networks: tuple[NetworkRequest, ...] | None = None
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
    devices: tuple[DeviceRequest, ...] = ()
    requested_host: str = ""  # checked by the scheduler
    forced_host: str = ""  # not checked by the scheduler
    forced_node: str = ""  # the same, by the name of a node
    is_canary: bool = False  # the forced host may be disabled
    run_uuid: str = ""


@dataclass(frozen=True)
class LaunchResult:
    """Result of a launch: uuids in order, and the workflow that builds them."""

    instance_uuids: tuple[str, ...]
    reservation_id: str
    run_uuid: str


@dataclass(frozen=True)
class ServerFault:
    """Error of an instance in the error state."""

    code: int
    message: str
    created_at: datetime
    details: str = ""
    decision_uuid: str = ""


@dataclass(frozen=True)
class InstanceData:
    """An instance, as a build request or in a cell, with the same fields.

    Attributes:
        addresses: core.NetworkPort values as JSON.
        volumes: Ids, each with whether the volume is deleted with the instance.
        run_uuid: The newest workflow on it.
        is_simulated: Whether its host is simulated.
        is_partial: Its cell is down.
        host_status: UP, UNKNOWN, MAINTENANCE, DOWN, or "" without a host.
    """

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
    fault: ServerFault | None = None
    run_uuid: str = ""
    group_uuid: str = ""
    host_status: str = ""
    is_partial: bool = False
    volumes: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True)
class InstanceQuery:
    """Filters (by names of `filters.FILTERS`), order (key, is_descending) and page of an instance list."""

    all_projects: bool = False
    # True for only deleted ones, False for none of them; None for both if changes are listed
    is_deleted: bool | None = None
    with_soft_deleted: bool = True
    filters: Mapping[str, Any] = field(default_factory=dict)
    statuses: tuple[str, ...] = ()
    changes_since: datetime | None = None
    changes_before: datetime | None = None
    sort: tuple[tuple[str, bool], ...] = (("created_at", True),)
    limit: int = 1000
    marker: str = ""
    with_runs: bool = True
    with_partial: bool = True  # include those of cells that are down, with the API database's facts
    must_be_whole: bool = False  # raise CellUnavailable rather than return a list without cells that are down


@dataclass(frozen=True)
class FlavorView:
    """A flavor with its visibility."""

    spec: FlavorSpec
    is_public: bool
    is_disabled: bool
    rxtx_factor: float
    description: str | None


@dataclass(frozen=True)
class KeyPairView:
    """The public half of a user's key pair. `private_key` is only set in the response that generated it."""

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
        """The key for SSH sign-in; "" for a certificate."""
        return self.public_key.strip() if self.key_type == "ssh" else ""


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
class ActionEventView:
    """One step of an action, with the Compute API's name for it. `result` is "Success", "Error" or None."""

    event: str
    started_at: datetime
    finished_at: datetime | None
    result: str | None
    host: str = ""
    details: str | None = None


@dataclass(frozen=True)
class ActionView:
    """One action on an instance: the workflows of one request, newest change last."""

    request_id: str
    action: str
    instance_uuid: str
    user_id: str
    project_id: str
    started_at: datetime
    updated_at: datetime
    is_failed: bool
    events: tuple[ActionEventView, ...] = ()
