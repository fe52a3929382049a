"""Options of a host that the redfish driver takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from compute_drivers.options import option

ONCE, ALWAYS, NEVER = "once", "always", "never"


@dataclass(frozen=True, kw_only=True)
class RedfishOptions:
    """Options of a host with the redfish driver.

    Attributes:
        machines_file: The file with the machines.
        state_dir: Folder for assignments of machines and for images.
        media_dir: Folder for media, which a web server publishes at `media_url` for the controllers.
        erase: Whether drives are erased before a machine is free again. It has no default, so that no operator leaves
            data to the next owner by accident.
    """

    machines_file: Path = option()
    state_dir: Path = option()
    media_dir: Path = option()
    media_url: str = option()
    erase: str = option(choices=(ALWAYS, NEVER))
    boot: str = option(ONCE, choices=(ONCE, ALWAYS))
    config_drive: bool = option(True)
    resource_class: str = option("CUSTOM_BAREMETAL")
    architecture: str = option("x86_64", choices=("x86_64", "aarch64"))
    request_seconds: float = option(30.0, least=0.1)
    power_seconds: float = option(300.0, least=0.1)
    erase_seconds: float = option(14400.0, least=1.0)
    look_seconds: float = option(60.0, least=0.0)
    image_cache_gb: int = option(0, least=0)
    image_cache_seconds: int = option(86400, least=0)
