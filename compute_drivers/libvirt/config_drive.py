"""The disc that tells a guest who it is: metadata, keys, password and user data, as cloud-init reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from compute_drivers.config_disc import disc
from compute_drivers.guest_files import files_of
from conductor.core.compute_driver import GuestSpec
from conductor.core.errors import DriverError

NAME, RESCUE_NAME = "config.iso", "config-rescue.iso"


def write(
    path: Path, guest: GuestSpec, password: str = "", vendor_data: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Make the disc anew; only its owner may read the file. Raises BuildAborted, DriverError."""
    part = path.with_name(f"{path.name}.part")
    try:
        data = disc(files_of(guest, password, vendor_data))
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        os.replace(part, path)
    except OSError as error:
        raise DriverError(f"The config drive of the guest could not be made: {error.strerror}.") from error
    finally:
        part.unlink(missing_ok=True)
