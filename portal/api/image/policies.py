"""Policies of the image API."""

from __future__ import annotations

from portal.api.authorization import ADMIN, MEMBER, READER, RuleTable

_CATALOGS = ("namespace", "namespaces", "objects", "properties", "tags", "resource_types")
_CATALOG = ("namespace", "object", "property", "tag", "resource_type")
# The image service itself checks ownership, and the fields that only administrators may set.
RULES: RuleTable = {
    "get_images": READER,
    "get_image": READER,
    "download_image": READER,
    "get_members": READER,
    "get_schema": READER,
    "add_image": MEMBER,
    "modify_image": MEMBER,
    "upload_image": MEMBER,
    "delete_image": MEMBER,
    "modify_tags": MEMBER,
    "deactivate": MEMBER,
    "reactivate": MEMBER,
    "stage_image": MEMBER,
    "import_image": MEMBER,
    "get_tasks": ADMIN,
    "get_task": ADMIN,
    **dict.fromkeys((f"get_metadef_{noun}" for noun in _CATALOGS), READER),
    **dict.fromkeys((f"{verb}_metadef_{noun}" for verb in ("add", "modify", "delete") for noun in _CATALOG), ADMIN),
    "add_member": MEMBER,
    "modify_member": MEMBER,
    "delete_member": MEMBER,
}
