"""Names of the locks that workflows take."""

from __future__ import annotations


def instance_resource(instance_uuid: str) -> str:
    """Return the name of an instance's lock."""
    return f"instance:{instance_uuid}"
