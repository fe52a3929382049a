"""Image API: who may do what."""

from __future__ import annotations

from portal.api.authorization import MEMBER, READER, RuleTable

# What belongs to whom, and what only administrators may set, is the image service's business.
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
    "add_member": MEMBER,
    "modify_member": MEMBER,
    "delete_member": MEMBER,
}
