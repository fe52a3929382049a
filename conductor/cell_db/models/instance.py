"""Instances, their faults and what their consoles said."""

from __future__ import annotations

from django.db import models

from conductor.core.states import PowerState, VmState


class InstanceQuerySet(models.QuerySet["Instance"]):
    def alive(self) -> InstanceQuerySet:
        return self.filter(deleted_at__isnull=True)


class Instance(models.Model):
    """A guest as its cell knows it. `flavor` and `image` keep what was asked, whatever becomes of the originals."""

    uuid = models.UUIDField(unique=True)
    project_id = models.CharField(max_length=64, db_index=True)
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
    networks = models.JSONField(default=list)  # asked: [{"network_id", "port_id", "fixed_ip"}]
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
    previous_vm_state = models.CharField(max_length=32, default="")  # what unrescue, revert or unshelve goes back to
    rescue_image = models.JSONField(null=True)  # ImageSpec as JSON while rescued
    shelved_image_id = models.CharField(max_length=64, default="")
    shelved_at = models.DateTimeField(null=True)
    soft_deleted_at = models.DateTimeField(null=True, db_index=True)
    created_at = models.DateTimeField(db_index=True)
    updated_at = models.DateTimeField()
    launched_at = models.DateTimeField(null=True)
    terminated_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)

    objects = InstanceQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["project_id", "-created_at", "uuid"], name="instance_list"),
            # Lists of all projects. SQLite would rather sort all that lives than walk this one, had it an index
            # in which the living are, all with the same null: so that of times of deletion is without them.
            models.Index(
                fields=["-created_at", "uuid"], condition=models.Q(deleted_at__isnull=True), name="instance_alive"
            ),
            models.Index(fields=["deleted_at"], condition=models.Q(deleted_at__isnull=False), name="instance_gone"),
        ]


class InstanceFault(models.Model):
    """Why an instance is in error. The newest is shown; `details` is for operators."""

    instance_uuid = models.UUIDField(db_index=True)
    code = models.PositiveIntegerField(default=500)
    message = models.CharField(max_length=255)
    details = models.TextField(default="")
    decision_uuid = models.UUIDField(null=True)
    created_at = models.DateTimeField()


class ConsoleLog(models.Model):
    """The tail of what a guest wrote to its serial console; `offset` is the position of `text`'s first byte."""

    instance_uuid = models.UUIDField(unique=True)
    host = models.CharField(max_length=255, default="")  # a guest built elsewhere has another console
    offset = models.BigIntegerField(default=0)
    text = models.TextField(default="")
    updated_at = models.DateTimeField()
