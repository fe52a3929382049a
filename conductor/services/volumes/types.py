"""Values of volumes: requests, and views for callers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A requested device. `boot_index` None or below 0: not a boot device; 0 is the root disk."""

    source: str
    destination: str
    uuid: str = ""
    size_gb: int | None = None
    boot_index: int | None = None
    device_name: str = ""
    delete_on_termination: bool = False
    tag: str | None = None
    is_swap: bool = False
    volume_type: str = ""  # name or id, of a created volume
    image_uuid: str = ""  # the image that lists it, if any

    @property
    def is_root(self) -> bool:
        return self.boot_index == 0
