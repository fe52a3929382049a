"""Images, their properties and members; and metadata definitions."""

from __future__ import annotations

import uuid

from django.db import models


class Image(models.Model):
    """A disk, kernel or ramdisk that guests start from. `properties` are top-level keys of the Image API."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255, default="")
    project_id = models.CharField(max_length=64, db_index=True)
    status = models.CharField(max_length=16, default="queued")  # one of attributes.STATUSES
    visibility = models.CharField(max_length=16, default="shared")  # public, private, shared, community
    disk_format = models.CharField(max_length=16, null=True)
    container_format = models.CharField(max_length=16, null=True)
    size = models.BigIntegerField(null=True)
    virtual_size = models.BigIntegerField(null=True)
    checksum = models.CharField(max_length=32, null=True)  # md5 of the data
    os_hash_value = models.CharField(max_length=128, null=True)  # sha512 of the data
    min_disk_gb = models.PositiveIntegerField(default=0)
    min_ram_mb = models.PositiveIntegerField(default=0)
    is_protected = models.BooleanField(default=False)
    is_hidden = models.BooleanField(default=False)
    is_simulated = models.BooleanField(default=False)  # starts on simulated hosts only
    tags = models.JSONField(default=list)
    properties = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_index=True)
    updated_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True)


class ImageMember(models.Model):
    """A project that a shared image was offered to; only accepted ones show in that project's list."""

    image = models.ForeignKey(Image, on_delete=models.CASCADE, related_name="members")
    project_id = models.CharField(max_length=64, db_index=True)
    status = models.CharField(max_length=16, default="pending")  # pending, accepted, rejected
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["image", "project_id"], name="image_member_once")]


class ImageTask(models.Model):
    """An import of an image's data, for clients that poll its result; kept for tasks.KEPT."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    image = models.ForeignKey(Image, on_delete=models.CASCADE, related_name="tasks")
    method = models.CharField(max_length=32)
    project_id = models.CharField(max_length=64)
    user_id = models.CharField(max_length=64)
    request_id = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_index=True)


class Namespace(models.Model):
    """A namespace of metadata definitions: properties, their meaning, and the resource types that they apply to."""

    name = models.CharField(max_length=80, unique=True)
    display_name = models.CharField(max_length=80, null=True)
    description = models.CharField(max_length=500, null=True)
    visibility = models.CharField(max_length=16, default="private")  # public, private
    is_protected = models.BooleanField(default=False)
    project_id = models.CharField(max_length=64, db_index=True)
    created_at = models.DateTimeField(db_index=True)
    updated_at = models.DateTimeField()


class Definition(models.Model):
    """One definition: an object, a property, a tag, or a resource type."""

    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="definitions")
    kind = models.CharField(max_length=16)  # one of metadefs.KINDS
    name = models.CharField(max_length=80)
    body = models.JSONField(default=dict)  # all fields but the name
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["namespace", "kind", "name"], name="definition_once")]
