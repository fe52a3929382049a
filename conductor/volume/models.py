"""Volumes with their types and snapshots, their attachments, and messages about them."""

from __future__ import annotations

import uuid

from django.db import models


class QosSpec(models.Model):
    """Quality of service of a type: `consumer` is front-end, back-end or both."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255, unique=True)
    consumer = models.CharField(max_length=16, default="back-end")
    specs = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_index=True)


class VolumeType(models.Model):
    """A kind of volumes. `extra_specs` that begin with a capability's name choose where its volumes may be."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255, unique=True)
    description = models.CharField(max_length=255, null=True)
    is_public = models.BooleanField(default=True)
    extra_specs = models.JSONField(default=dict)
    encryption = models.JSONField(null=True)  # stored only: no volume can be created of such a type
    qos_spec = models.ForeignKey(QosSpec, null=True, on_delete=models.PROTECT, related_name="types")
    created_at = models.DateTimeField(db_index=True)
    updated_at = models.DateTimeField()


class TypeAccess(models.Model):
    """A project that may use a private type."""

    type = models.ForeignKey(VolumeType, on_delete=models.CASCADE, related_name="accesses")
    project_id = models.CharField(max_length=64, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["type", "project_id"], name="volume_type_access_once")]


class Volume(models.Model):
    """A disk that outlives servers. `status` is one of states.STATUSES; the row is deleted with the volume."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    project_id = models.CharField(max_length=64, db_index=True)
    user_id = models.CharField(max_length=64)
    name = models.CharField(max_length=255, default="")
    description = models.CharField(max_length=255, null=True)
    size_gb = models.PositiveIntegerField()
    status = models.CharField(max_length=32)
    availability_zone = models.CharField(max_length=255, default="nova")
    is_bootable = models.BooleanField(default=False)
    metadata = models.JSONField(default=dict)
    image_metadata = models.JSONField(default=dict)  # of the image that its data came from, one level of texts
    source_kind = models.CharField(max_length=16, default="")  # one of states.SOURCES; "" for a blank one
    source_uuid = models.UUIDField(null=True)
    volume_type = models.ForeignKey(VolumeType, null=True, on_delete=models.PROTECT)  # None: the default one
    is_multiattach = models.BooleanField(default=False)
    is_readonly = models.BooleanField(null=True)  # None: never set
    is_status_forced = models.BooleanField(default=False)  # set by an operator: the sweep leaves such a volume alone
    group_uuid = models.UUIDField(null=True, db_index=True)
    created_at = models.DateTimeField(db_index=True)
    updated_at = models.DateTimeField()


class Snapshot(models.Model):
    """A volume's data at one moment, as an independent copy."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    volume = models.ForeignKey(Volume, on_delete=models.CASCADE, related_name="snapshots")
    project_id = models.CharField(max_length=64, db_index=True)
    user_id = models.CharField(max_length=64)
    name = models.CharField(max_length=255, default="")
    description = models.CharField(max_length=255, null=True)
    size_gb = models.PositiveIntegerField()
    status = models.CharField(max_length=32)  # one of states.SNAPSHOT_STATUSES
    progress = models.CharField(max_length=8, default="")  # as set by a client; "" where the status implies it
    is_status_forced = models.BooleanField(default=False)
    metadata = models.JSONField(default=dict)
    group_snapshot_uuid = models.UUIDField(null=True, db_index=True)
    created_at = models.DateTimeField(db_index=True)
    updated_at = models.DateTimeField()


class ImageSnapshot(models.Model):
    """Snapshot data that an image of a server boots from, with the attributes of its volume.

    The data stay as long as this row does, also where the snapshot itself is deleted. Only `createImage` creates such
    rows: a list that a user wrote into the properties of an image keeps nothing.
    """

    image_uuid = models.UUIDField(db_index=True)
    snapshot_uuid = models.UUIDField(unique=True)
    project_id = models.CharField(max_length=64, db_index=True)
    size_gb = models.PositiveIntegerField()
    volume_type = models.ForeignKey(VolumeType, null=True, on_delete=models.SET_NULL)  # None: the default one
    is_bootable = models.BooleanField(default=False)
    image_metadata = models.JSONField(default=dict)
    is_released = models.BooleanField(default=False)  # the image is deleted: no new volume uses the data
    created_at = models.DateTimeField()


class VolumeAttachment(models.Model):
    """Attachment of a volume to an instance. `uuid` is that of the cell's block device.

    `status` is one of states.LENT_STATUSES. Only one that is reserved without an instance has none.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    volume = models.ForeignKey(Volume, on_delete=models.CASCADE, related_name="attachments")
    instance_uuid = models.UUIDField(db_index=True, null=True)
    host = models.CharField(max_length=255, default="")
    device = models.CharField(max_length=64)
    attached_at = models.DateTimeField(null=True)
    status = models.CharField(max_length=16, default="in-use")
    mode = models.CharField(max_length=2, default="rw")
    connector = models.JSONField(null=True)  # of an attachment that its owner created: how to open the volume


class Backup(models.Model):
    """A copy of a volume's data that outlives the volume. `status` is one of backups.STATUSES.

    `data_uuid` names the data: that of the backup itself, unless it is another record of the same data.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    project_id = models.CharField(max_length=64, db_index=True)
    user_id = models.CharField(max_length=64)
    name = models.CharField(max_length=255, null=True)
    description = models.CharField(max_length=255, null=True)
    volume_uuid = models.UUIDField(db_index=True)  # which may be deleted
    snapshot_uuid = models.UUIDField(null=True)
    data_uuid = models.UUIDField(db_index=True)
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="dependents")
    container = models.CharField(max_length=255, null=True)
    availability_zone = models.CharField(max_length=255, null=True)
    size_gb = models.PositiveIntegerField()
    object_count = models.PositiveIntegerField(default=0)
    status = models.CharField(max_length=32)
    is_status_forced = models.BooleanField(default=False)
    fail_reason = models.CharField(max_length=255, null=True)
    metadata = models.JSONField(default=dict)
    volume_facts = models.JSONField(default=dict)  # attributes of the volume, for volumes restored from the backup
    data_timestamp = models.DateTimeField()
    created_at = models.DateTimeField(db_index=True)
    updated_at = models.DateTimeField()


class Transfer(models.Model):
    """A volume that its owner transfers to another project by a key."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    volume = models.ForeignKey(Volume, on_delete=models.CASCADE, related_name="transfers")
    name = models.CharField(max_length=255, null=True)
    salt = models.CharField(max_length=32)
    key_hash = models.CharField(max_length=64)  # the key itself is shown once, and not stored
    with_snapshots = models.BooleanField(default=True)
    source_project_id = models.CharField(max_length=64, db_index=True)
    destination_project_id = models.CharField(max_length=64, null=True)
    is_accepted = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_index=True)


class VolumeMessage(models.Model):
    """A message to a project that gives the reason why its accepted request failed."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    project_id = models.CharField(max_length=64, db_index=True)
    request_id = models.CharField(max_length=64)
    event_id = models.CharField(max_length=64)
    resource_type = models.CharField(max_length=32)
    resource_uuid = models.UUIDField(null=True)
    level = models.CharField(max_length=16, default="ERROR")
    text = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_index=True)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "volume_message"


class VolumeQuotaClass(models.Model):
    """A limit of all projects without their own; the one class that counts is called default."""

    name = models.CharField(max_length=255)
    resource = models.CharField(max_length=300)
    limit = models.IntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "resource"], name="volume_class_limit_once")]


class VolumeService(models.Model):
    """An operator's settings of a volume service: whether it takes new volumes."""

    binary = models.CharField(max_length=64)
    host = models.CharField(max_length=255)
    is_disabled = models.BooleanField(default=False)
    disabled_reason = models.CharField(max_length=255, null=True)
    is_frozen = models.BooleanField(default=False)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["binary", "host"], name="volume_service_once")]


class GroupType(models.Model):
    """A kind of groups."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255, unique=True)
    description = models.CharField(max_length=255, null=True)
    is_public = models.BooleanField(default=True)
    specs = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_index=True)


class VolumeGroup(models.Model):
    """Volumes that are snapshotted together."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    project_id = models.CharField(max_length=64, db_index=True)
    user_id = models.CharField(max_length=64)
    name = models.CharField(max_length=255, null=True)
    description = models.CharField(max_length=255, null=True)
    status = models.CharField(max_length=32)
    group_type = models.ForeignKey(GroupType, on_delete=models.PROTECT)
    volume_types = models.JSONField(default=list)  # uuids
    availability_zone = models.CharField(max_length=255, default="nova")
    source_group_uuid = models.UUIDField(null=True)
    source_snapshot_uuid = models.UUIDField(null=True)
    created_at = models.DateTimeField(db_index=True)


class GroupSnapshot(models.Model):
    """The snapshots of a group's volumes, taken together."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    group = models.ForeignKey(VolumeGroup, on_delete=models.CASCADE, related_name="group_snapshots")
    project_id = models.CharField(max_length=64, db_index=True)
    user_id = models.CharField(max_length=64)
    name = models.CharField(max_length=255, null=True)
    description = models.CharField(max_length=255, null=True)
    status = models.CharField(max_length=32)
    created_at = models.DateTimeField(db_index=True)
