"""Rules of image properties, for every writer: the Image API, uploads of volumes, and images of servers."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, Invalid, NotFound
from conductor.image.attributes import (
    MAX_PROPERTIES,
    MAX_PROPERTY_CHARACTERS,
    PARTS,
    READ_ONLY,
    RESERVED_PREFIX,
    WRITABLE,
)
from conductor.image.queries import get_visible


def require_writable(name: str) -> None:
    """Raise Forbidden for a name that only the service writes."""
    if name.startswith(RESERVED_PREFIX):
        raise Forbidden(f"Attribute '{name}' is reserved.")
    if name in READ_ONLY:
        raise Forbidden(f"Attribute '{name}' is read-only.")


def require_valid(context: RequestContext, properties: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Raise Invalid for too many or too long properties, or a new kernel or ramdisk that the caller does not see."""
    if len(properties) > MAX_PROPERTIES:
        raise Invalid(f"An image can have up to {MAX_PROPERTIES} properties, not {len(properties)}.")
    size = _characters_of(properties)
    if size > max(MAX_PROPERTY_CHARACTERS, _characters_of(before)):
        raise Invalid(
            f"The properties of an image can have up to {MAX_PROPERTY_CHARACTERS} characters together, not {size}."
        )
    for name in PARTS:
        if properties.get(name) and properties[name] != before.get(name) and not _is_seen(context, properties[name]):
            raise Invalid(f"Property {name} names no image that you see: {properties[name][:60]}.", field=name)


def of_server_image(
    context: RequestContext, given: Mapping[str, str], inherited: Mapping[str, str], own: Mapping[str, str]
) -> dict[str, str]:
    """Return the properties of a new image of a server.

    `given` is what the caller sends, `inherited` what the server's image or root volume has, and `own` what the service
    sets itself, which always counts.

    Raises Invalid for a given name that is no property, and as `require_valid`.
    """
    for name in given:
        if not _is_property(name):
            raise Invalid(f"Image metadata cannot set '{name[:255]}': only the image service does.", field="metadata")
    properties = {**inherited, **given, **own}
    require_valid(context, properties, inherited)
    return properties


def of_root_volume(context: RequestContext, metadata: Mapping[str, str]) -> dict[str, str]:
    """Return what an image of a server inherits from its root volume, whose image metadata the owner may write.

    Without names that are no properties, and without kernels and ramdisks that the caller does not see.
    """
    return {
        name: value
        for name, value in metadata.items()
        if _is_property(name) and (name not in PARTS or _is_seen(context, value))
    }


def _characters_of(properties: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in properties.items())


def _is_property(name: str) -> bool:
    return not (name.startswith(RESERVED_PREFIX) or name in READ_ONLY or name in WRITABLE)


def _is_seen(context: RequestContext, ref: str) -> bool:
    try:
        get_visible(context, ref)
    except NotFound:
        return False
    return True
