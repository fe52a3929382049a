"""Bare metal for tests: guests that machines can run, and hosts of machines that controllers show."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from compute_drivers.config_drive import build_iso
from compute_drivers.redfish.driver import RedfishDriver
from conductor.core.compute_driver import GuestSpec, NetworkPort
from conductor.core.request_spec import FlavorSpec, ImageSpec
from tests.compute_drivers.controllers import DISK_GB, MEMORY_GB, PASSWORD, SPARE, USER, VCPUS, Rack, uuid_of

Machines = Callable[..., dict[str, Any]]

ISO = build_iso({"boot": b"loader"})
IMAGES = {"installer": ISO, "other": build_iso({"boot": b"other"}), "text": b"no disc at all" * 5000}


def open_image(image_id: str) -> BinaryIO:
    return io.BytesIO(IMAGES.get(image_id, ISO))


def guest_of(uuid: str, image_id: str = "installer", **values: Any) -> GuestSpec:
    flavor = FlavorSpec("1", "metal", VCPUS, MEMORY_GB * 1024, root_gb=100)
    image = ImageSpec(image_id, disk_format="iso")
    return GuestSpec(**{
        "instance_uuid": uuid, "name": "web-1", "hostname": "web-1", "project_id": "shop", "flavor": flavor,
        "image": image, **values,
    })  # fmt: skip


def port(number: int) -> NetworkPort:
    mac = f"fa:16:3e:00:00:0{number}"
    return NetworkPort(str(uuid4()), "net", mac, f"10.1.0.{number + 5}", 24, "10.1.0.0/24")


def options_in(folder: Path, rack: Rack, *numbers: int, options: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Options of a host with the machines of these numbers; `fields` are of each machine, which may report its size."""
    size = (
        {} if fields.pop("reports_size", False) else {"vcpus": VCPUS, "memory_mb": MEMORY_GB * 1024, "disk_gb": DISK_GB}
    )
    (folder / "password").write_text(f"{PASSWORD}\n")
    lines = []
    for number in numbers:
        values = {
            "name": f"m{number}",
            "bmc": rack.url,
            "system": f"/redfish/v1/Systems/{uuid_of(number)}",
            "username": USER,
            "password_file": str(folder / "password"),
            "verify": False,
            **size,
            **fields,
        }
        lines += ["[[machine]]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
    (folder / "machines.toml").write_text("\n".join(lines))
    return {
        "machines_file": str(folder / "machines.toml"),
        "state_dir": str(folder / "state"),
        "media_dir": str(rack.media_dir),
        "media_url": rack.media_url,
        "erase": "never",
        "request_seconds": 5.0,
        **options,
    }


@contextmanager
def host(options: dict[str, Any], name: str = "rack-9") -> Iterator[RedfishDriver]:
    """Yield a started host; whatever is left on it is destroyed."""
    driver = RedfishDriver(name, options, open_image)
    driver.start()
    yield driver
    for guest in driver.guests():
        driver.destroy(guest.instance_uuid)
    driver.stop()


def assert_clean(rack: Rack, driver: RedfishDriver, number: int = SPARE) -> None:
    """Check that the machine is off, empty, boots as set up, and that nothing of a guest is left on the host."""
    state = rack.state(number)
    assert (state["power_state"], state.get("boot_device", "Hdd"), rack.media(number)) == ("Off", "Hdd", {})
    assert driver.guests() == []
    assert list((Path(driver.options["state_dir"]) / "machines").iterdir()) == []
    assert list((rack.media_dir / driver.host).iterdir()) == []
