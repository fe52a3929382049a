"""A real Linux guest: it gets host name and address by DHCP, and prints them on its console."""

from __future__ import annotations

import base64
import os
import re
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from compute_drivers.libvirt import attachments, guest_agent
from compute_drivers.libvirt.driver import LibvirtDriver
from conductor.conformance.actions import SnapshotImageStore
from conductor.conformance.driver import RecordedProgress
from conductor.core.compute_driver import GuestInfo, GuestSpec, NetworkPort, VolumeConnection
from conductor.core.errors import DriverError
from conductor.core.states import PowerState
from tests.compute_drivers.real_guests import SECONDS, SHELF, ask, files_of, wait_for
from tests.fixtures.tiny_guests import linux
from tests.tiny_linux import STARTS_AGENT, agent_files
from tests.waiting import Stopwatch, wait_until

FIRST = NetworkPort("p1", "private", "fa:16:3e:00:00:01", "10.64.0.3", 20, "10.64.0.0/20", "10.64.0.1")
SECOND = NetworkPort("p2", "back", "fa:16:3e:00:00:02", "192.168.7.20", 24, "192.168.7.0/24")
READS = r"""#!/bin/sh
drive=openstack/latest
value() {{ sed -n "s/^ \"$1\": \"\(.*\)\",*$/\1/p" /mnt/$drive/$2; }}
echo "its uuid: $(value uuid meta_data.json)"
echo "its rack: $(value rack vendor_data.json)"
for host in 10.64.0.1 127.0.0.1 192.0.2.1; do nc -w 2 $host {port} < /dev/null || echo "way to $host: closed"; done
"""
UNADDRESSED = NetworkPort("p3", "bare", "fa:16:3e:00:00:03", "", 0, "")


def test_the_guest_has_the_name_and_addresses_of_its_ports_and_its_metadata_but_no_way_to_the_host(
    driver: LibvirtDriver,
    tiny_linux: Path,
    record_property: Callable[[str, object], None],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as of_host:
        script = base64.b64encode(READS.format(port=of_host.getsockname()[1]).encode()).decode()
        guest = linux(tiny_linux, ports=(FIRST, SECOND, UNADDRESSED), user_data=script)
        agent = LibvirtDriver(driver.host, {**driver.options, "vendor_data": {"rack": "r7"}}, SHELF.open)
        agent.start()
        _boots_and_reads(agent, guest, record_property)
        agent.stop()
        of_host.setblocking(False)
        with pytest.raises(BlockingIOError):
            of_host.accept()
    driver.destroy(guest.instance_uuid)
    assert files_of(driver, guest.instance_uuid) == []


def _boots_and_reads(driver: LibvirtDriver, guest: GuestSpec, record_property: Callable[[str, object], None]) -> None:
    watch = Stopwatch()
    driver.spawn(guest, RecordedProgress())
    record_property("spawn_seconds", round(watch.seconds, 2))
    text = wait_for(driver, guest.instance_uuid, b"novella: up after").decode()
    record_property("spawn_to_hostname_on_console_seconds", round(watch.seconds, 2))
    assert re.search(r"Linux version \d+\.\d+", text)
    assert "novella: hostname web-42 address 10.64.0.3 192.168.7.20\r\n" in text
    assert "novella: eth2 got no address\r\n" in text
    assert "[vda] 2097152 512-byte logical blocks" in text  # the flavor's one GB, not the image's one MiB
    assert "does not load" not in text
    for output in (
        f"its uuid: {guest.instance_uuid}",
        "its rack: r7",
        *(f"way to {host}: closed" for host in ("10.64.0.1", "127.0.0.1", "192.0.2.1")),
    ):
        assert f"novella: {output}\r\n" in text


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver leaves a slow guest the time that it needs."""
    monkeypatch.setattr(attachments, "DETACH_SECONDS", SECONDS)
    for name in ("TIMEOUT_SECONDS", "READ_TIMEOUT_SECONDS"):
        monkeypatch.setattr(guest_agent, name, int(SECONDS))


@pytest.mark.usefixtures("_patient")
def test_the_guest_sees_what_is_done_to_it(driver: LibvirtDriver, tiny_linux: Path, tmp_path: Path) -> None:
    """One guest in all cases, because each boot takes long; its kernel prints what it sees on the console."""
    agent = agent_files(tmp_path)
    guest = linux(tiny_linux, more=agent, ports=(FIRST,), user_data=base64.b64encode(STARTS_AGENT).decode())
    loud = {
        "os_command_line": "console=ttyS0 no_timer_check panic=-1 ignore_loglevel",
        "hw_qemu_guest_agent": "yes",
        "os_require_quiesce": "yes",
    }
    guest = replace(guest, image=replace(guest.image, properties=loud))
    driver.spawn(guest, RecordedProgress())
    listener = Listener(driver, guest)
    listener.hears(b"address 10.64.0.3\r\n")
    listener.hears(b"novella: up after")
    _reports_its_addresses(driver, listener)
    _set_a_password(driver, listener)
    _stand_still_for_a_snapshot(driver, listener)
    _plug_a_volume(driver, listener, tmp_path / "volume.raw")
    _plug_a_port(driver, listener)
    _reboot_softly(driver, listener)


class Listener:
    """Hears each word of a guest once, in their order."""

    def __init__(self, driver: LibvirtDriver, guest: GuestSpec) -> None:
        self.driver, self.guest, self.uuid = driver, guest, guest.instance_uuid
        self.heard = 0

    def hears(self, words: bytes) -> None:
        text = wait_for(self.driver, self.uuid, words, after=self.heard)
        self.heard = text.index(words, self.heard) + len(words)


def _reports_its_addresses(driver: LibvirtDriver, listener: Listener) -> None:
    """Check that the guest's addresses are reported, also one that it gave itself."""
    ask(driver, listener.uuid, b"\nip address add 192.0.2.7/32 dev eth0; echo given $((1 + 1))\n", b"given 2")
    expected = [{"mac_address": FIRST.mac_address, "addresses": [FIRST.ip_address, "192.0.2.7"]}]
    wait_until(
        "its agent reports both",
        lambda: driver.diagnostics(listener.uuid)["nics"] == expected,
        SECONDS,
        details=lambda: driver.diagnostics(listener.uuid)["nics"],
    )


def _set_a_password(driver: LibvirtDriver, listener: Listener) -> None:
    """Set a password by the guest agent, then check root's entry on the serial console."""
    driver.set_admin_password(listener.uuid, "correct horse")
    ask(driver, listener.uuid, b"\necho root has $(grep -c '^root:[$]' /etc/passwd) password\n", b"root has 1 password")
    assert b"correct horse" not in driver.console_log(listener.uuid, 0)


def _stand_still_for_a_snapshot(driver: LibvirtDriver, listener: Listener) -> None:
    """Check that the guest agent freezes the file systems; without it there is no snapshot of this guest."""
    shelf = SnapshotImageStore()
    driver.snapshot(listener.uuid, "copy-1", shelf.store, RecordedProgress())
    listener.hears(b"files: freeze")
    listener.hears(b"files: thaw")
    ask(driver, listener.uuid, b"\nkillall qemu-ga; echo agents: $(pidof qemu-ga | wc -w)\n", b"agents: 0")
    with pytest.raises(DriverError, match=r"\(os_require_quiesce\)\. No agent answers inside of the guest"):
        driver.snapshot(listener.uuid, "copy-2", shelf.store, RecordedProgress())
    assert set(shelf.images) == {"copy-1"}


def _plug_a_volume(driver: LibvirtDriver, listener: Listener, path: Path) -> None:
    path.write_bytes(bytes(2 << 20))
    volume = VolumeConnection(str(uuid4()), str(path), 1, device_name="/dev/vdb", serial="novella-volume")
    for _ in range(2):
        driver.attach_volume(listener.uuid, volume)
        listener.hears(b"[vdb] 4096 512-byte logical blocks")
        os.truncate(path, 3 << 20)
        driver.attach_volume(listener.uuid, volume)
        listener.hears(b"[vdb] new size: 6144 512-byte logical blocks")
        os.truncate(path, 2 << 20)
        driver.detach_volume(listener.uuid, volume.volume_uuid)
    _swap_a_volume(driver, listener, volume)


def _swap_a_volume(driver: LibvirtDriver, listener: Listener, first: VolumeConnection) -> None:
    """Swap a volume for a larger one: later writes are on that alone. The first may be attached again beside it."""
    path, too_small = Path(first.path).with_name("second.raw"), Path(first.path).with_name("small.raw")
    Path(first.path).write_bytes(b"whole".ljust(2 << 20))
    path.write_bytes(bytes(3 << 20))
    too_small.write_bytes(bytes(1 << 20))
    second = replace(first, volume_uuid=str(uuid4()), path=str(path))
    driver.attach_volume(listener.uuid, first)
    listener.hears(b"[vdb] 4096 512-byte logical blocks")
    with pytest.raises(DriverError, match="has 1048576 bytes, fewer than the 2097152 of the first"):
        driver.swap_volume(listener.uuid, first.volume_uuid, replace(second, path=str(too_small)), RecordedProgress())
    driver.swap_volume(listener.uuid, first.volume_uuid, second, RecordedProgress())
    asks = b"\necho it is $(head -c 5 /dev/vdb); echo fresh > /dev/vdb; sync; echo written $((1 + 1))\n"
    ask(driver, listener.uuid, asks, b"it is whole", b"written 2")
    assert [Path(one.path).read_bytes()[:5] for one in (first, second)] == [b"whole", b"fresh"]
    driver.attach_volume(listener.uuid, replace(first, device_name="/dev/vdc"))
    listener.hears(b"[vdc] 4096 512-byte logical blocks")
    for volume in (first, second):
        driver.detach_volume(listener.uuid, volume.volume_uuid)


def _plug_a_port(driver: LibvirtDriver, listener: Listener) -> None:
    driver.attach_interface(listener.uuid, SECOND)
    listener.hears(b"0000:00:11.0: [1af4:1000]")
    driver.detach_interface(listener.uuid, SECOND.port_uuid)
    driver.attach_interface(listener.uuid, SECOND)  # the slot is free again
    listener.hears(b"0000:00:11.0: [1af4:1000]")


def _reboot_softly(driver: LibvirtDriver, listener: Listener) -> None:
    # A guest that does not shut down is reset after so long: the test's own time limit is over by then.
    driver.reboot(replace(listener.guest, ports=(FIRST, SECOND)), is_hard=False, timeout_seconds=3600.0)
    listener.hears(b"reboot: Power down")  # it was asked, and went by itself
    listener.hears(b"0000:00:11.0: [1af4:1000]")
    assert driver.guests() == [GuestInfo(listener.uuid, PowerState.RUNNING)]
