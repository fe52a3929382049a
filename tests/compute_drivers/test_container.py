"""The container driver on real containers, with a root file system that is one busybox."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from compute_drivers.container import disks, runtime
from compute_drivers.container.driver import ContainerDriver
from compute_drivers.container.paths import NEW_DISK
from conductor.conformance.actions import SnapshotImageStore
from conductor.conformance.driver import DriverConformance, MakeGuest, RecordedProgress
from conductor.core.compute_driver import ComputeDriver, GuestInfo, GuestSpec, PortAddress
from conductor.core.consoles import ConsoleKind
from conductor.core.errors import BuildAborted, DriverError, StaleToken
from conductor.core.request_spec import FlavorSpec
from conductor.core.states import PowerState
from tests.compute_drivers.containers import (
    BANNER,
    FAREWELL,
    IMAGE,
    PORT,
    SECONDS,
    SHELF,
    TICK,
    WRONG,
    archive,
    entry,
    inside,
    left_of,
    shells_of,
    shelved,
    wait_for,
)
from tests.guests import guest_of
from tests.waiting import assert_stays, wait_until

SEED = "/var/lib/cloud/seed/config_drive/openstack/latest"
QUICK = {"shutdown_seconds": 0.0}


@pytest.fixture(scope="module")
def run_dir() -> Iterator[Path]:
    """A folder that root of the containers can traverse, unlike pytest's own folders."""
    folder = Path(tempfile.mkdtemp(prefix="novella-test-", dir="/run"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def started(host: str, folder: Path, run_dir: Path, **options: object) -> ContainerDriver:
    driver = ContainerDriver(host, {"state_dir": str(folder), "run_dir": str(run_dir), **QUICK, **options}, SHELF.open)
    driver.start()
    return driver


def ended(driver: ContainerDriver) -> None:
    for guest in driver.guests():
        driver.destroy(guest.instance_uuid)
    driver.stop()
    subprocess.run(["ip", "netns", "delete", f"novella-{driver.node.paths.key}"], check=True)


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory, run_dir: Path) -> Iterator[ContainerDriver]:
    driver = started("box-1", tmp_path_factory.mktemp("containers"), run_dir)
    yield driver
    ended(driver)


class TestConformance(DriverConformance):
    @pytest.fixture
    def driver(self, containers: ContainerDriver) -> ComputeDriver:
        return containers

    @pytest.fixture
    def other(self, tmp_path: Path, run_dir: Path) -> Iterator[ComputeDriver]:
        driver = started("box-2", tmp_path / "second", run_dir)
        yield driver
        ended(driver)

    @pytest.fixture
    def make_guest(self) -> MakeGuest:
        return lambda uuid: guest_of(uuid, IMAGE, ports=(PORT,))


@pytest.fixture
def driver(containers: ContainerDriver) -> Iterator[ContainerDriver]:
    """A driver whose remaining guests are destroyed, after which nothing of them may be left."""
    yield containers
    for guest in containers.guests():
        containers.destroy(guest.instance_uuid)
        assert left_of(containers, guest.instance_uuid) == []


def new(driver: ContainerDriver, **values: Any) -> GuestSpec:
    """Return a container that runs."""
    guest = guest_of(str(uuid4()), values.pop("image", IMAGE), **{"ports": (PORT,), **values})
    driver.spawn(guest, RecordedProgress())
    return guest


def test_a_container_is_isolated_and_limited(driver: ContainerDriver) -> None:
    guest = new(driver, hostname="web-7", public_key="ssh-ed25519 AAAA ana", metadata={"tier": "front"})
    uuid = guest.instance_uuid
    assert wait_for(driver, uuid, TICK).startswith(BANNER)
    output = inside(driver, uuid, "hostname; id; cat /proc/1/cmdline; ls /proc | grep -c '^[0-9]' || true")
    assert output.startswith("web-7\nuid=0(root) gid=0")
    pid = driver.node.runtime.pid(uuid)
    assert Path(f"/proc/{pid}/uid_map").read_text().split() == ["0", "100000", "65536"]
    owner = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Uid:"))
    assert owner.split()[1:] == ["100000"] * 4
    cards = inside(driver, uuid, "ip address show eth0; ip route")
    assert "link/ether fa:16:3e:00:00:01" in cards
    assert "inet 10.64.0.5/20" in cards
    assert "default via 10.64.0.1" in cards
    cgroups = list(Path("/sys/fs/cgroup").glob(f"*/novella/{uuid}"))
    limits = {name: (path / name).read_text().strip() for path in cgroups for name in LIMITS if (path / name).exists()}
    assert limits == {"memory.limit_in_bytes": str(64 << 20), "cpu.cfs_quota_us": "100000", "pids.max": "4096"}
    seed = json.loads(inside(driver, uuid, f"cat {SEED}/meta_data.json"))
    assert (seed["hostname"], seed["meta"], seed["keys"][0]["data"]) == ("web-7", {"tier": "front"}, guest.public_key)
    for refused in (
        f"echo x > {SEED}/meta_data.json",
        "mknod /tmp/d b 7 0",
        "mount -t tmpfs t /mnt",
        "sed p /proc/kcore",
    ):
        assert driver.node.runtime.run_inside(
            uuid, "/bin/sh", "-c", f"{refused} 2>/dev/null; [ -s /proc/kcore ]"
        ).returncode
    driver.destroy(uuid)
    assert left_of(driver, uuid) == []


def test_a_disk_has_the_size_of_the_flavor(driver: ContainerDriver) -> None:
    uuid = new(driver).instance_uuid
    assert int(inside(driver, uuid, "df -k / | sed -n '$s/^[^ ]* *\\([0-9]*\\).*/\\1/p'")) < 1 << 20
    (place,) = driver.node.paths.mounts_of(uuid)
    with (place / "fill").open("wb") as file, pytest.raises(OSError, match="No space left"):
        os.posix_fallocate(file.fileno(), 0, 1 << 30)
    disk = driver.node.paths.folder_of(uuid) / "disk.ext4"
    assert disk.stat().st_size == 1 << 30


def test_ports_are_plugged_and_unplugged_as_network_cards(driver: ContainerDriver) -> None:
    uuid = new(driver).instance_uuid
    more = (PortAddress("10.64.0.7", "10.64.0.0/20"), PortAddress("fd00::6", "fd00::/64"), PortAddress("10.9.0.1"))
    second = replace(PORT, port_uuid="q", mac_address="fa:16:3e:00:00:02", ip_address="10.64.0.6", more=more)
    driver.attach_interface(uuid, second)
    card = set(re.findall(r"(?:ether|inet6?) ([^f\s]\S+|f[ad]\S+)", inside(driver, uuid, "ip address show eth1")))
    assert card == {"fa:16:3e:00:00:02", "10.64.0.6/20", "10.64.0.7/20", "fd00::6/64"}
    driver.detach_interface(uuid, "p")
    driver.attach_interface(uuid, replace(PORT, port_uuid="r", mac_address="fa:16:3e:00:00:03", ip_address=""))
    cards = inside(driver, uuid, "ip link")
    assert [f"00:0{n}" in cards for n in (1, 2, 3)] == [False, True, True]
    with pytest.raises(BuildAborted, match=re.escape("Port s has no usable MAC address.")):
        driver.attach_interface(uuid, replace(PORT, port_uuid="s", mac_address="no"))
    assert inside(driver, uuid, "ip link") == cards


def test_a_console_is_a_shell_that_ends_with_its_socket(driver: ContainerDriver) -> None:
    uuid = new(driver).instance_uuid
    with driver.open_console(uuid, ConsoleKind.SERIAL) as line:
        line.settimeout(SECONDS)
        line.sendall(b"echo $((6 * 7)) of $(hostname) on $(tty 2>/dev/null)\n")
        heard = b""
        while b"42 of web-1" not in heard:
            heard += line.recv(4096)
        assert shells_of(uuid) == 1
    wait_until("the shell has ended", lambda: shells_of(uuid) == 0, SECONDS)
    with pytest.raises(DriverError, match="no screen"):
        driver.open_console(uuid, ConsoleKind.VNC)


def test_a_container_gets_time_to_shut_down_and_its_console_log_is_kept(driver: ContainerDriver) -> None:
    guest = new(driver)
    uuid = guest.instance_uuid
    wait_for(driver, uuid, TICK)
    driver.power_off(uuid, SECONDS)
    text = driver.console_log(uuid, 0)
    assert text.endswith(FAREWELL)
    assert driver.guests() == [GuestInfo(uuid, PowerState.SHUTDOWN)]
    assert driver.node.paths.mounts_of(uuid) == []
    driver.power_on(guest)
    wait_for(driver, uuid, BANNER, after=len(text))
    driver.reboot(guest, is_hard=False, timeout_seconds=SECONDS)
    assert driver.console_log(uuid, len(text)).count(FAREWELL) == 1
    driver.pause(uuid)
    still = driver.console_log(uuid, 0)
    assert_stays("a paused container writes nothing", lambda: driver.console_log(uuid, 0) == still)
    driver.unpause(uuid)
    wait_for(driver, uuid, TICK, after=len(still))


def test_a_container_that_ends_by_itself_is_off_and_starts_again(driver: ContainerDriver) -> None:
    guest = new(driver)
    uuid = guest.instance_uuid
    inside(driver, uuid, "echo mine > /etc/note")
    os.kill(driver.node.runtime.pid(uuid), signal.SIGKILL)
    is_off = [GuestInfo(uuid, PowerState.SHUTDOWN)]
    wait_until("it is off", lambda: driver.guests() == is_off, SECONDS, details=driver.guests)
    driver.power_on(guest)
    assert inside(driver, uuid, "cat /etc/note") == "mine\n"


def test_a_snapshot_keeps_files_and_owners_and_starts(driver: ContainerDriver) -> None:
    uuid, shelf = new(driver).instance_uuid, SnapshotImageStore()
    script = "echo kept > /etc/note; echo hers > /tmp/a; chown 1000:1000 /tmp/a; chmod 4750 /tmp/a; ln /tmp/a /tmp/b"
    inside(driver, uuid, script)
    driver.snapshot(uuid, "copy", shelf.store, RecordedProgress())
    disk_format, data = shelf.images["copy"]
    assert disk_format == "raw"
    driver.destroy(uuid)
    again = new(driver, image=shelved("copy", data)).instance_uuid
    output = inside(driver, again, "cat /etc/note; stat -c '%u %g %a %h' /tmp/a /tmp/b")
    assert output == "kept\n1000 1000 4750 2\n1000 1000 4750 2\n"


def test_a_rescue_system_has_the_files_of_the_guest_and_its_password(driver: ContainerDriver) -> None:
    guest = new(driver)
    uuid = guest.instance_uuid
    inside(driver, uuid, "echo precious > /etc/note")
    driver.rescue(guest, "correct horse", RecordedProgress())
    output = inside(driver, uuid, f"cd /mnt; cat etc/note; echo saved > etc/note; cat {SEED}/meta_data.json")
    assert output.startswith("precious\n")
    assert json.loads(output.removeprefix("precious\n"))["admin_pass"] == "correct horse"
    driver.unrescue(guest, is_running=True)
    assert inside(driver, uuid, "cat /etc/note") == "saved\n"
    assert sorted(path.name for path in driver.node.paths.folder_of(uuid).glob("*resc*")) == []


def test_a_password_is_set_by_the_guest_and_cannot_carry_another(driver: ContainerDriver) -> None:
    uuid = new(driver).instance_uuid
    driver.set_admin_password(uuid, "correct horse")
    after = inside(driver, uuid, "cat /etc/passwd")
    assert after.startswith("root:$6$")
    with pytest.raises(DriverError, match="adminPass"):
        driver.set_admin_password(uuid, "x\nana:owned")
    inside(driver, uuid, "printf '#!/bin/sh\\ncat >&2; exit 1\\n' > /bin/chpasswd")
    with pytest.raises(DriverError, match="did not take the password") as refused:
        driver.set_admin_password(uuid, "battery staple")
    assert "battery" not in refused.value.message
    assert inside(driver, uuid, "cat /etc/passwd") == after


def test_a_resize_changes_bounds_and_disk_and_never_shrinks(driver: ContainerDriver) -> None:
    guest = new(driver)
    uuid = guest.instance_uuid
    inside(driver, uuid, "echo mine > /etc/note; sync")
    larger = replace(guest, flavor=FlavorSpec("2", "large", vcpus=2, memory_mb=128, root_gb=2))
    disks = driver.migrate_out(guest, "box-1", RecordedProgress())
    driver.migrate_in(larger, disks, RecordedProgress(), is_running=True)
    driver.confirm_migration(uuid)
    assert inside(driver, uuid, "cat /etc/note") == "mine\n"
    assert int(inside(driver, uuid, "df -k / | sed -n '$s/^[^ ]* *\\([0-9]*\\).*/\\1/p'")) > 1_800_000
    assert Path(f"/sys/fs/cgroup/memory/novella/{uuid}/memory.limit_in_bytes").read_text().strip() == str(128 << 20)
    disks = driver.migrate_out(larger, "box-1", RecordedProgress())
    with pytest.raises(BuildAborted, match=re.escape("has 2 GB and cannot shrink to 1 GB")):
        driver.migrate_in(guest, disks, RecordedProgress(), is_running=True)
    driver.revert_migration(larger, is_running=True)
    assert inside(driver, uuid, "cat /etc/note") == "mine\n"


LIMITS = ("memory.limit_in_bytes", "cpu.cfs_quota_us", "pids.max")


@pytest.mark.parametrize("case", WRONG)
def test_an_impossible_build_fails_with_one_clear_error_and_leaves_nothing(driver: ContainerDriver, case: str) -> None:
    image, values, kind, complaint = WRONG[case]
    guest = guest_of(str(uuid4()), image, **values)
    with pytest.raises(kind, match=re.escape(complaint)) as refused:
        driver.spawn(guest, RecordedProgress())
    assert type(refused.value) is kind
    assert str(driver.node.paths.state_dir) not in refused.value.message
    assert driver.guests() == []
    assert left_of(driver, guest.instance_uuid) == []


@pytest.mark.parametrize("case", ["a disk", "no command", "no image", "a volume", "swap"])
def test_a_build_is_refused_before_anything_is_prepared(driver: ContainerDriver, case: str) -> None:
    image, values, kind, complaint = WRONG[case]
    with pytest.raises(kind, match=re.escape(complaint)):
        driver.check_build(guest_of(str(uuid4()), image, **values))


def test_a_build_is_refused_for_which_less_memory_is_free_now(driver: ContainerDriver) -> None:
    with pytest.raises(DriverError, match="of free memory now; the server needs 1073741824"):
        driver.check_build(guest_of(str(uuid4()), IMAGE, flavor=FlavorSpec("9", "huge", 1, 1 << 30)))


def test_an_image_that_is_larger_than_the_disk_is_refused_before_it_fills_it(driver: ContainerDriver) -> None:
    swelling = entry("zeros", type=tarfile.REGTYPE)
    swelling.size = 3 << 30
    guest = guest_of(str(uuid4()), shelved("swelling", archive(None, swelling, mode="w")))
    with pytest.raises(BuildAborted, match="does not fit on the disk"):
        driver.spawn(guest, RecordedProgress())
    assert left_of(driver, guest.instance_uuid) == []


def test_an_image_reaches_nothing_outside_of_its_disk_and_brings_no_devices(driver: ContainerDriver) -> None:
    name = f"novella-escaped-{uuid4()}"
    outside = Path("/tmp", name)
    device = entry("root/disk", type=tarfile.BLKTYPE, devmajor=7, devminor=0)
    link = entry("etc/copy", type=tarfile.LNKTYPE, linkname="../../../../../../../etc/passwd")
    escapes = [
        entry("out", type=tarfile.SYMTYPE, linkname="/tmp"),
        entry(f"out/{name}", type=tarfile.DIRTYPE),
        entry(f"../{name}", type=tarfile.DIRTYPE),
    ]
    with contextlib.suppress(DriverError):
        guest = new(driver, image=shelved("escapes", archive(None, device, *escapes)))
        assert "disk" not in inside(driver, guest.instance_uuid, "ls /root")
    with contextlib.suppress(DriverError):
        guest = new(driver, image=shelved("links", archive(None, link)))
        assert "ana" in inside(driver, guest.instance_uuid, "cat /etc/copy")
    assert not outside.exists()
    assert not (driver.node.paths.mounts_dir / name).exists()


def test_a_build_interrupted_at_any_place_leaves_nothing(driver: ContainerDriver) -> None:
    counting = RecordedProgress()
    driver.spawn(guest_of(str(uuid4()), IMAGE), counting)
    (first,) = driver.guests()
    for stop_at in range(1, len(counting.calls) + 1):
        guest = guest_of(str(uuid4()), IMAGE)
        with pytest.raises(StaleToken):
            driver.spawn(guest, RecordedProgress(stop_at))
        assert driver.guests() == [first]
        assert left_of(driver, guest.instance_uuid) == []


def test_remains_of_a_killed_container_build_are_found_replaced_and_destroyed(driver: ContainerDriver) -> None:
    """As after a kill in the middle of a build: a disk half-written and mounted, and a container not started."""
    begun, dropped = guest_of(str(uuid4()), IMAGE), guest_of(str(uuid4()), IMAGE)
    for guest in (begun, dropped):
        disk = driver.builder.make_folder(guest) / NEW_DISK
        disks.create(disk, 1, 100_000)
        disks.mount(disk, driver.node.paths.mount_of(disk))
    assert {found.power_state for found in driver.guests()} == {PowerState.NOSTATE}
    again = ContainerDriver(driver.host, driver.options, driver.open_image)
    again.start()
    assert [again.node.paths.mounts_of(guest.instance_uuid) for guest in (begun, dropped)] == [[], []]
    again.spawn(begun, RecordedProgress())
    again.destroy(dropped.instance_uuid)
    assert again.guests() == [GuestInfo(begun.instance_uuid, PowerState.RUNNING)]
    assert left_of(driver, dropped.instance_uuid) == []


RUNTIMES = {
    "gone": (None, "is not installed on this host"),
    "mute": ("#!/bin/sh\nexit 0\n", "is no container runtime"),
    "failing": (
        "#!/bin/sh\necho 'time=x level=error msg=\"no such /secret/place: cgroups are broken\"' >&2\nexit 1\n",
        "cgroups are broken",
    ),
    "hanging": ("#!/bin/sh\nexec sleep 60\n", "did not end within"),
}


@pytest.mark.parametrize("how", RUNTIMES)
def test_a_broken_runtime_is_reported_as_one_clear_error(
    driver: ContainerDriver, tmp_path: Path, run_dir: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    script, complaint = RUNTIMES[how]
    program = tmp_path / "runtime"
    if script is not None:
        program.write_text(script)
        program.chmod(0o755)
    dead = ContainerDriver("box-3", {**driver.options, "runtime": str(program)}, SHELF.open)
    guest = new(driver)
    with monkeypatch.context() as impatient:
        impatient.setattr(runtime, "SECONDS", 0.5)
        for call in (dead.start, dead.report, dead.guests, lambda: dead.destroy(guest.instance_uuid)):
            with pytest.raises(DriverError) as refused:
                call()
            assert how == "mute" or complaint in refused.value.message
            assert "/secret" not in refused.value.message
    assert driver.guests() == [GuestInfo(guest.instance_uuid, PowerState.RUNNING)]


# Refuses the first two times, as runc does while the processes of a container come and go.
CANNOT_FREEZE_YET = """#!/bin/sh
tries="$(dirname "$0")/tries"
case " $* " in *" pause "*)
    echo >> "$tries"
    if [ "$(wc -l < "$tries")" -le 2 ]; then echo 'level=error msg="unable to freeze"' >&2; exit 1; fi;;
esac
exec runc "$@"
"""


def test_a_container_that_cannot_be_frozen_yet_is_paused_as_soon_as_it_can(
    driver: ContainerDriver, tmp_path: Path
) -> None:
    guest = new(driver)
    program = tmp_path / "runtime"
    program.write_text(CANNOT_FREEZE_YET)
    program.chmod(0o755)
    ContainerDriver("box-1", {**driver.options, "runtime": str(program)}, SHELF.open).pause(guest.instance_uuid)
    assert (tmp_path / "tries").read_text().count("\n") == 3
    assert driver.guests() == [GuestInfo(guest.instance_uuid, PowerState.PAUSED)]


def test_the_report_has_the_resources_of_the_machine(driver: ContainerDriver) -> None:
    report = driver.report()
    assert (report.hypervisor_type, report.supported_instances) == ("lxc", (("x86_64", "lxc", "exe"),))
    assert report.hypervisor_version >= 1_001_000
    assert report.inventory["VCPU"].total == len(os.sched_getaffinity(0))
    assert report.traits >= {"COMPUTE_NODE", "COMPUTE_IMAGE_TYPE_RAW"}
    assert not ContainerDriver.is_simulated


def test_only_root_can_run_it(driver: ContainerDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(DriverError, match="an agent that root runs"):
        driver.start()
