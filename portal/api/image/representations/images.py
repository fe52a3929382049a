"""JSON of images and their members, and bodies parsed into images and changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from conductor.core.errors import Invalid
from conductor.image.attributes import READ_ONLY
from conductor.image.models import Image, ImageMember, ImageTask
from conductor.image.operations import ImageChange
from conductor.image.tasks import KEPT
from portal.api.image.schemas.images import ATTRIBUTES, CREATE, OLD_PATCH, PATCH, PROPERTIES
from portal.api.validation import validate

STORE = "files"  # the only store for the data of images


def moment(value: datetime) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def image(row: Image) -> dict[str, Any]:
    path = f"/v2/images/{row.uuid}"
    stores = {"stores": STORE} if row.size is not None else {}
    return {
        **row.properties,
        "id": str(row.uuid),
        "name": row.name,
        "status": row.status,
        "visibility": row.visibility,
        "owner": row.project_id,
        "size": row.size,
        "virtual_size": row.virtual_size,
        "disk_format": row.disk_format,
        "container_format": row.container_format,
        "min_disk": row.min_disk_gb,
        "min_ram": row.min_ram_mb,
        "checksum": row.checksum,
        "os_hash_algo": "sha512" if row.os_hash_value else None,
        "os_hash_value": row.os_hash_value,
        "os_hidden": row.is_hidden,
        "protected": row.is_protected,
        "tags": row.tags,
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "self": path,
        "file": f"{path}/file",
        "schema": "/v2/schemas/image",
        **stores,
    }


def member(row: ImageMember) -> dict[str, Any]:
    return {
        "member_id": row.project_id,
        "image_id": str(row.image.uuid),
        "status": row.status,
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "schema": "/v2/schemas/member",
    }


def task(row: ImageTask, *, is_whole: bool = False) -> dict[str, Any]:
    """Return a finished import. Lists show fewer members of each."""
    image_id = str(row.image.uuid)
    shown = {
        "id": str(row.uuid),
        "type": "api_image_import",
        "status": "success",
        "owner": row.project_id,
        "created_at": moment(row.created_at),
        "updated_at": moment(row.created_at),
        "expires_at": moment(row.created_at + KEPT),
        "self": f"/v2/tasks/{row.uuid}",
        "schema": "/v2/schemas/task",
    }
    if not is_whole:
        return shown
    return {
        **shown,
        "image_id": image_id,
        "user_id": row.user_id,
        "request_id": row.request_id,
        "input": {"image_id": image_id, "import_req": {"method": {"name": row.method}}},
        "result": {"image_id": image_id},
        "message": "",
    }


def wanted_image(body: Any) -> dict[str, Any]:
    """Return the attributes and properties of a new image. Raises Invalid."""
    given = dict(validate(body, CREATE))
    for name, value in given.items():
        if name not in CREATE["properties"]:
            _check_property(name, value)
    return _plain(given)


def old_changes(body: Any) -> list[ImageChange]:
    """Parse changes in the older format, `{"replace": "/name", "value": …}`. Raises Invalid."""
    newer = []
    for number, operation in enumerate(validate(body, OLD_PATCH)):
        words = [word for word in ("add", "replace", "remove") if word in operation]
        if len(words) != 1:
            raise Invalid(f"Operation {number} must have exactly one of add, replace and remove.")
        values = {"value": operation["value"]} if "value" in operation else {}
        newer.append({"op": words[0], "path": operation[words[0]], **values})
    return changes(newer)


def changes(body: Any) -> list[ImageChange]:
    """Parse a JSON patch. Raises Invalid naming the operation that is wrong."""
    return [_change(number, operation) for number, operation in enumerate(validate(body, PATCH))]


def _change(number: int, operation: Mapping[str, Any]) -> ImageChange:
    name = operation["path"][1:].replace("~1", "/").replace("~0", "~")
    if operation["op"] == "remove":
        return ImageChange("remove", name)
    if "value" not in operation:
        raise Invalid(f"Invalid input for field/attribute [{number}]. 'value' is a required property.")
    value = operation["value"]
    if name in ATTRIBUTES:
        validate({name: value}, CREATE)
    else:
        _check_property(name, value)
    return ImageChange(operation["op"], name, _plain({name: value})[name])


def _check_property(name: str, value: Any) -> None:
    if name not in READ_ONLY:
        validate({name: value}, PROPERTIES)


def _plain(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: "" if name == "name" and value is None else value for name, value in given.items()}


def split_operator(value: str) -> Sequence[str]:
    """Split `in:a,"b,c"` into [a, b,c]; any other value is returned as a single item."""
    if not value.startswith("in:"):
        return [value]
    words, word, is_quoted = [], "", False
    for character in value[len("in:") :]:
        if character == '"':
            is_quoted = not is_quoted
        elif character == "," and not is_quoted:
            words.append(word)
            word = ""
        else:
            word += character
    if is_quoted:
        raise Invalid("Invalid filter value: a quotation mark is not closed.")
    return [*words, word]
