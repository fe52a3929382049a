"""Tables of one cell: instances and their related rows, services, compute nodes, migrations."""

from __future__ import annotations

import uuid

from django.db import models

from conductor.core.states import PowerState, VmState

IS_ALIVE = models.Q(deleted_at__isnull=True)


class InstanceQuerySet(models.QuerySet["Instance"]):
    def alive(self) -> InstanceQuerySet:
        return self.filter(IS_ALIVE)


class Instance(models.Model):
    """A guest as its cell knows it. `flavor` and `image` are copies of the requested ones, and never change with
    these.
    """

    uuid = models.UUIDField(unique=True)
    project_id = models.CharField(max_length=64)
    user_id = models.CharField(max_length=64)
    name = models.CharField(max_length=255)
    hostname = models.CharField(max_length=255)
    description = models.CharField(max_length=255, null=True)
    vm_state = models.CharField(max_length=32, default=VmState.BUILDING)
    task_state = models.CharField(max_length=32, null=True)
    power_state = models.IntegerField(default=PowerState.NOSTATE)
    host = models.CharField(max_length=255, null=True, db_index=True)
    node = models.CharField(max_length=255, null=True)
    availability_zone = models.CharField(max_length=255, default="")
    pinned_availability_zone = models.CharField(max_length=255, default="")
    flavor = models.JSONField()  # FlavorSpec as JSON
    image = models.JSONField()  # ImageSpec as JSON
    networks = models.JSONField(default=list)  # requested: [{"network_id", "port_id", "fixed_ip"}]
    addresses = models.JSONField(default=list)  # plugged: NetworkPort as JSON
    metadata = models.JSONField(default=dict)
    tags = models.JSONField(default=list)
    scheduler_hints = models.JSONField(default=dict)
    security_groups = models.JSONField(default=list)
    key_name = models.CharField(max_length=255, null=True)
    public_key = models.TextField(default="")
    user_data = models.TextField(null=True)
    injected_files = models.JSONField(null=True)  # GuestFile as JSON
    config_drive = models.CharField(max_length=8, default="")
    disk_config = models.CharField(max_length=8, default="MANUAL")
    access_ip_v4 = models.CharField(max_length=64, default="")
    access_ip_v6 = models.CharField(max_length=64, default="")
    reservation_id = models.CharField(max_length=32, db_index=True)
    launch_index = models.PositiveIntegerField(default=0)
    is_locked = models.BooleanField(default=False)
    locked_by = models.CharField(max_length=8, default="")  # "owner" or "admin"
    locked_reason = models.CharField(max_length=255, null=True)
    previous_vm_state = models.CharField(max_length=32, default="")  # restored by unrescue, revert or unshelve
    rescue_image = models.JSONField(null=True)  # ImageSpec as JSON while rescued
    shelved_image_id = models.CharField(max_length=64, default="")
    shelved_at = models.DateTimeField(null=True)
    soft_deleted_at = models.DateTimeField(null=True, db_index=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    launched_at = models.DateTimeField(null=True)
    terminated_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)

    objects = InstanceQuerySet.as_manager()

    class Meta:
        indexes = [
            # For lists of a project with deleted servers, and without; of all projects; and both by state. Deleted ones
            # are kept for ever, so lists without them must not read them. SQLite would rather sort all live rows than
            # use the index of all projects if another index held them, all with the same null: so the index on
            # deletion times leaves them out.
            models.Index(fields=["project_id", "-created_at", "uuid"], name="instance_list"),
            models.Index(fields=["project_id", "-created_at", "uuid"], condition=IS_ALIVE, name="instance_live"),
            models.Index(fields=["-created_at", "uuid"], condition=IS_ALIVE, name="instance_alive"),
            models.Index(fields=["vm_state", "-created_at", "uuid"], condition=IS_ALIVE, name="instance_states"),
            models.Index(
                fields=["project_id", "vm_state", "-created_at", "uuid"],
                condition=IS_ALIVE,
                name="instance_project_states",
            ),
            models.Index(fields=["deleted_at"], condition=models.Q(deleted_at__isnull=False), name="instance_gone"),
        ]

    @property
    def is_volume_backed(self) -> bool:
        """Whether its root disk is a volume: of its flavor and image, the root disk's sizes do not count then."""
        return not self.image.get("image_id")


class InstanceFault(models.Model):
    """A reason why an instance is in error. The newest is shown. `details` is for operators.

    `message` is the English text, cut to the length that clients get. `wording` is JSON of its code and values, for
    pages.
    """

    instance_uuid = models.UUIDField(db_index=True)
    code = models.PositiveIntegerField(default=500)
    message = models.CharField(max_length=255)
    wording = models.TextField(default="")
    details = models.TextField(default="")
    decision_uuid = models.UUIDField(null=True)
    created_at = models.DateTimeField()


class ConsoleLog(models.Model):
    """The tail of a guest's serial console output; `offset` is the position of `text`'s first byte."""

    instance_uuid = models.UUIDField(unique=True)
    host = models.CharField(max_length=255, default="")  # a guest rebuilt on another host has a new console
    offset = models.BigIntegerField(default=0)
    text = models.TextField(default="")
    updated_at = models.DateTimeField()


class BlockDevice(models.Model):
    """A volume of an instance: `uuid` is the attachment's id. `boot_index` 0 is the root disk."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    instance_uuid = models.UUIDField(db_index=True)
    volume_uuid = models.UUIDField(db_index=True)
    device_name = models.CharField(max_length=64)
    boot_index = models.IntegerField(default=-1)
    tag = models.CharField(max_length=60, null=True)
    delete_on_termination = models.BooleanField(default=False)
    connection = models.JSONField(default=dict)  # core.VolumeConnection as JSON
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["instance_uuid", "volume_uuid"], name="one_device_per_volume"),
            models.UniqueConstraint(fields=["instance_uuid", "device_name"], name="one_volume_per_device_name"),
        ]


class Migration(models.Model):
    """One move: a resize, a cold or live migration, or an evacuation.

    While a move is in progress, its uuid is the consumer in placement of the instance's allocations at the source.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    instance_uuid = models.UUIDField(db_index=True)
    run_uuid = models.UUIDField(null=True)  # the newest workflow of it
    migration_type = models.CharField(max_length=16)  # core.states.MigrationType
    status = models.CharField(max_length=32)  # core.states.MigrationStatus
    source_host = models.CharField(max_length=255, db_index=True)
    source_node = models.CharField(max_length=255, default="")
    destination_host = models.CharField(max_length=255, null=True, db_index=True)
    destination_node = models.CharField(max_length=255, null=True)
    destination_ip = models.CharField(max_length=64, default="")
    old_flavor = models.JSONField(null=True)  # FlavorSpec as JSON; equal to the new one for a move without resize
    new_flavor = models.JSONField(null=True)
    was_running = models.BooleanField(default=True)
    memory_total = models.BigIntegerField(null=True)  # bytes, of a live migration
    memory_processed = models.BigIntegerField(null=True)
    memory_remaining = models.BigIntegerField(null=True)
    disk_total = models.BigIntegerField(null=True)
    disk_processed = models.BigIntegerField(null=True)
    disk_remaining = models.BigIntegerField(null=True)
    details = models.JSONField(default=dict)  # for its next workflow: the former state of ports and volumes
    project_id = models.CharField(max_length=64, db_index=True)
    user_id = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_index=True)
    updated_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["status", "updated_at"], name="migration_status")]


class Service(models.Model):
    """A process that belongs to the cell: a compute agent or a conductor; of cell0 also a scheduler."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    binary = models.CharField(max_length=64)
    host = models.CharField(max_length=255)
    availability_zone = models.CharField(max_length=255, default="nova")
    version = models.PositiveIntegerField(default=1)
    is_disabled = models.BooleanField(default=False)
    disabled_reason = models.CharField(max_length=255, null=True)
    # Why the host is out of service and the planned work, in an operator's words, until it is back.
    maintenance_note = models.CharField(max_length=1000, default="", db_default="")
    is_forced_down = models.BooleanField(default=False)
    is_simulated = models.BooleanField(default=False)
    report_number = models.BigIntegerField(default=0)
    # Of the last processed report: the host's inventory, the full comparison, and its guests when none needed work.
    report_digest = models.CharField(max_length=72, default="")
    unsettled = models.JSONField(default=dict)  # unmatched guests, and how often in a row: {"unmanaged", "missing"}
    guests = models.JSONField(null=True)  # of the newest report: power state by instance uuid; null: never reported
    kept = models.JSONField(null=True)  # instances whose disks the host keeps for a revert; null: never reported
    figures = models.JSONField(null=True)  # of a scheduler's newest report: fields of cells.schedulers.Scheduler
    last_seen_at = models.DateTimeField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["binary", "host"], name="one_service_per_host")]


class ComputeNode(models.Model):
    """A hypervisor under a host, as its agent last reported it. `report` is the NodeReport as JSON."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)  # also the resource provider's uuid
    host = models.CharField(max_length=255, db_index=True)
    node = models.CharField(max_length=255)
    driver = models.CharField(max_length=64)
    is_simulated = models.BooleanField(default=False)
    hypervisor_type = models.CharField(max_length=64)
    hypervisor_version = models.PositiveIntegerField(default=0)
    host_ip = models.CharField(max_length=64, default="127.0.0.1")
    report = models.JSONField(default=dict)
    failed_builds = models.PositiveIntegerField(default=0, db_default=0)  # consecutive, up to `build_failed_at`
    build_failed_at = models.DateTimeField(null=True)
    running_guests = models.PositiveIntegerField(default=0)
    change_number = models.BigIntegerField(default=0, db_index=True)  # rises with each change that schedulers must read
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host", "node"], name="one_node_per_host_and_name")]


class GuestCount(models.Model):
    """Usage of one host's guests: `guests` maps instance uuid to figures, in the order of `core.guest_usage.NAMES`.

    One row per host and measurement, not per guest: ten thousand servers make a handful of rows in a second.
    """

    host = models.CharField(max_length=255)
    counted_at = models.FloatField()  # in seconds since 1970, by the host's clock
    guests = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host", "counted_at"], name="one_count_of_host_at_a_time")]


class Drain(models.Model):
    """Settings of one host's drain, and an operator's changes since.

    `refused` has the reason why an instance cannot leave, by its uuid. Once `deadline_at` has passed it `is_late`: no
    further move begins.
    """

    run_uuid = models.UUIDField(unique=True)
    host = models.CharField(max_length=255, db_index=True)
    most_at_once = models.PositiveIntegerField(default=2)
    allows_cold = models.BooleanField(default=True)  # whether guests may be off while they move
    is_paused = models.BooleanField(default=False)
    deadline_at = models.DateTimeField(null=True)
    is_late = models.BooleanField(default=False, db_default=False)
    stays_closed = models.BooleanField(default=False)  # the host stays disabled even if the drain is cancelled
    was_disabled = models.BooleanField(default=False)  # before it began
    reason_before = models.CharField(max_length=255, null=True)
    refused = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()


class ConsoleAddress(models.Model):
    """Address and credentials of a host's console relay, for console proxies; `key` is a secret that no page shows."""

    host = models.CharField(max_length=255, unique=True)
    address = models.CharField(max_length=255)
    tcp_port = models.PositiveIntegerField()
    fingerprint = models.CharField(max_length=64)  # SHA-256 of the host's certificate
    key = models.CharField(max_length=64)
    updated_at = models.DateTimeField()


class ReceivedMessage(models.Model):
    """One received message of a kind without an order. It is stored for as long as it could be replayed."""

    digest = models.CharField(max_length=64, primary_key=True)  # SHA-256 of key id and nonce
    received_at = models.DateTimeField(db_index=True)
