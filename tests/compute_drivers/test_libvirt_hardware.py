"""Guests that ask for much, on this machine: what they get can be seen from its processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from compute_drivers.libvirt import host_inventory
from compute_drivers.libvirt.driver import LibvirtDriver
from conductor.conformance.driver import RecordedProgress
from conductor.core.compute_driver import GuestSpec, NetworkPort, VolumeConnection
from conductor.core.errors import DriverError
from conductor.core.hardware.grants import HardwareGrant
from conductor.core.hardware.request import InstanceCell, InstanceTopology
from conductor.core.hardware.wire import grant_to_json
from conductor.core.request_spec import FlavorSpec
from tests.compute_drivers.real_guests import DISK, IMAGE, SHELF, state_dir, wait_for
from tests.guests import TICK, guest_of, image_of, qemu_of

PORT = NetworkPort("p", "private", "fa:16:3e:00:00:01", "10.64.0.5", 20, "10.64.0.0/20", "10.64.0.1")
SPECS = {
    "hw:cpu_sockets": "1",
    "hw:cpu_cores": "2",
    "hw:watchdog_action": "reset",
    "hw:boot_menu": "false",
    "hw_video:ram_max_mb": "32",
    "quota:disk_total_bytes_sec": "10485760",
}
PROPERTIES = {
    "hw_disk_bus": "scsi",
    "hw_vif_model": "e1000",
    "hw_video_ram": "16",
    "hw_pointer_model": "usbtablet",
    "hw_qemu_guest_agent": "yes",
}


def demanding() -> GuestSpec:
    flavor = FlavorSpec("7", "demanding", vcpus=2, memory_mb=64, root_gb=1, extra_specs=SPECS)
    image = image_of("demanding", DISK, properties=PROPERTIES)
    SHELF.images[image.image_id] = DISK
    return guest_of(str(uuid4()), image, flavor=flavor, ports=(PORT,))


def test_a_guest_with_all_supported_hardware_requests_starts(driver: LibvirtDriver) -> None:
    cpu = min(host_inventory.numa_cells()[0].cpus)
    cell = InstanceCell(0, frozenset(), frozenset({0, 1}), 64, cpu_policy="dedicated", pins=((0, cpu), (1, cpu)))
    spec = demanding()
    guest = GuestSpec.from_json({**spec.to_json(), "hardware": grant_to_json(HardwareGrant(InstanceTopology((cell,))))})
    driver.spawn(guest, RecordedProgress())
    wait_for(driver, guest.instance_uuid, TICK)
    (process,) = qemu_of(guest.instance_uuid)
    words = Path(f"/proc/{process}/cmdline").read_bytes().decode().replace("\0", " ")
    for part in ("scsi-hd", "i6300esb", "virtio-tablet", "virtio-rng", "org.qemu.guest_agent.0", "e1000"):
        assert part in words, part
    with driver.node.guest(guest.instance_uuid, "ask QEMU") as found:
        bounds = {drive["inserted"]["bps"] for drive in found._ask("query-block") if "scsi" in drive["qdev"]}
    assert bounds == {10 << 20}
    assert "sockets=1" in words
    assert "cores=2" in words
    assert _allowed(process, "CPU 0/TCG") == {str(cpu)}
    with pytest.raises(DriverError, match="No agent answers inside of the guest"):
        driver.set_admin_password(guest.instance_uuid, "correct horse")


def test_with_secure_boot_only_signed_loaders_start(driver: LibvirtDriver, tmp_path: Path) -> None:
    assert "COMPUTE_SECURITY_UEFI_SECURE_BOOT" in driver.report().traits, "the test needs: apt-get install ovmf"
    flavor = FlavorSpec("8", "safe", vcpus=1, memory_mb=128, root_gb=1, extra_specs={"os:secure_boot": "required"})
    guest = guest_of(str(uuid4()), IMAGE, flavor=flavor, ports=(PORT,))
    driver.spawn(guest, RecordedProgress())
    assert TICK not in wait_for(driver, guest.instance_uuid, b"Security Violation")
    volume = VolumeConnection(str(uuid4()), str(tmp_path / "volume.raw"), 1, device_name="/dev/vdb")
    Path(volume.path).write_bytes(bytes(1 << 20))
    driver.attach_volume(guest.instance_uuid, volume)
    with pytest.raises(DriverError, match="takes a port only while it is off"):
        driver.attach_interface(guest.instance_uuid, replace(PORT, port_uuid="other"))
    driver.destroy(guest.instance_uuid)
    assert [path for path in state_dir(driver).rglob("*") if guest.instance_uuid in path.name] == []


def _allowed(process: int, thread: str) -> set[str]:
    """Return the processors on which the threads of that name may run."""
    found = set()
    for task in Path(f"/proc/{process}/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        if fields["Name"] == thread:
            found.add(fields["Cpus_allowed_list"])
    return found


def test_missing_huge_pages_are_reported_with_a_clear_error(driver: LibvirtDriver) -> None:
    """And where it has them, the guest runs on them."""
    cell = InstanceCell(0, frozenset({0, 1}), frozenset(), 64, page_size_kb=2048)
    spec = demanding()
    guest = GuestSpec.from_json({**spec.to_json(), "hardware": grant_to_json(HardwareGrant(InstanceTopology((cell,))))})
    has = any(pages.size_kb == 2048 and pages.total >= 32 for pages in host_inventory.numa_cells()[0].pages)
    if has:
        driver.spawn(guest, RecordedProgress())
        wait_for(driver, guest.instance_uuid, TICK)
        return
    with pytest.raises(DriverError, match="The hypervisor could not start the guest"):
        driver.spawn(guest, RecordedProgress())
    assert driver.guests() == []
