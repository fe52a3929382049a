"""What workflows lock, by name."""

from __future__ import annotations


def instance_resource(instance_uuid: str) -> str:
    """The lock of whoever works on an instance."""
    return f"instance:{instance_uuid}"
