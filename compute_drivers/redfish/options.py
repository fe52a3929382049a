"""What a host may tell the redfish driver."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from compute_drivers.options import option

ONCE, ALWAYS, NEVER = "once", "always", "never"


@dataclass(frozen=True, kw_only=True)
class RedfishOptions:
    """`machines_file` names the machines, `state_dir` remembers which of them has which guest.

    Controllers fetch media from `media_url`, where a web server shows what is in `media_dir`. `erase` has no default:
    whether the next owner of a machine may find the data of the one before is nothing to be decided by accident.
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
