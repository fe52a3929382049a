"""Attributes of images by their public names: their fields, and the callers that may set them, and when."""

from __future__ import annotations

from dataclasses import dataclass

DISK_FORMATS = ("ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop")
CONTAINER_FORMATS = ("ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed")
VISIBILITIES = ("public", "private", "shared", "community")
STATUSES = ("queued", "saving", "uploading", "importing", "active", "deactivated", "deleted")
KERNEL, RAMDISK = "kernel_id", "ramdisk_id"
PARTS = (KERNEL, RAMDISK)  # properties that name other images
RESERVED_PREFIX = "os_glance_"  # of the service's own properties
MAX_PROPERTIES = 128
MAX_PROPERTY_CHARACTERS = 1 << 17  # of all names and values of an image together
MAX_TAGS = 128


@dataclass(frozen=True, slots=True)
class Attribute:
    """Storage of an attribute. `is_frozen` ones cannot change once the image has data."""

    field: str
    is_frozen: bool = False
    is_for_admins: bool = False


WRITABLE = {
    "name": Attribute("name"),
    "visibility": Attribute("visibility"),
    "protected": Attribute("is_protected"),
    "os_hidden": Attribute("is_hidden"),
    "min_disk": Attribute("min_disk_gb"),
    "min_ram": Attribute("min_ram_mb"),
    "disk_format": Attribute("disk_format", is_frozen=True),
    "container_format": Attribute("container_format", is_frozen=True),
    "owner": Attribute("project_id", is_for_admins=True),
    "tags": Attribute("tags"),
}

READ_ONLY = frozenset(
    [
        "id",
        "status",
        "size",
        "virtual_size",
        "checksum",
        "os_hash_algo",
        "os_hash_value",
        "created_at",
        "updated_at",
        "deleted_at",
        "deleted",
        "is_public",
        "self",
        "file",
        "schema",
        "direct_url",
        "locations",
        "stores",
    ]
)

# Words of an older API that clients still send: ignored in lists. All other unknown words are properties.
IGNORED_FILTERS = frozenset({"changes-since", "deleted", "is_public"})
