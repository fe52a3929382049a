"""Actions of the API on a real server, checked from inside the guest."""

from __future__ import annotations

import base64
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import migrated
from tests.acceptance.cloud import Cloud
from tests.acceptance.real_server import PAIR, SECONDS, SERVERS, UPTIME, Real
from tests.compute_drivers.libvirtd import Daemon
from tests.guests import qemu_of
from tests.tiny_linux import STARTS_AGENT, agent_files, copy_image
from tests.waiting import wait_until

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHBvdGF0b2VzIGFuZCBsZWVrcyBtYWtlIHNvdXA= ana"
READ_WORD = "dd if=/dev/vda bs=1 skip=4096 count=8 2> /dev/null"
SERVICES = "/compute/v2.1/os-services"
SAYS_HELLO = b"#!/bin/sh\necho user data of $(hostname)\n"
PROCESSORS = "grep -c ^processor /proc/cpuinfo"
NMIS = "awk '/^ *NMI:/ {print $2}' /proc/interrupts"
MEMORY_MB = "awk '/MemTotal/ {print int($2/1024)}' /proc/meminfo"
# "same" when the password after it is root's.
IS_ROOTS = (
    "has=$(grep ^root: /etc/passwd | cut -d: -f2); salt=$(echo $has | cut -d'$' -f3); "
    '[ "$has" = "$(mkpasswd -m sha512 {} $salt)" ] && echo same'
)

HOST = """
[[host]]
name = "{name}"
driver = "libvirt"
zone = "live"
[host.options]
state_dir = "{folder}/{name}"
shared_dir = "{folder}/shared"
uri = "{uri}"
migration_uri = "{uri}"
migration_address = "unix"
"""


@pytest.fixture(scope="module")
def daemons() -> Iterator[dict[str, Daemon]]:
    """A libvirt for each of two hosts that share disks; what else is a host has its hypervisor inside."""
    with tempfile.TemporaryDirectory(prefix="nv-") as folder:  # short, as sockets need it
        made = {name: Daemon(Path(folder) / name) for name in PAIR}
        for daemon in made.values():
            daemon.start()
        yield made
        for daemon in made.values():
            daemon.stop()


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory, daemons: dict[str, Daemon]) -> Iterator[Cloud]:
    folder = tmp_path_factory.mktemp("actions") / "var"
    migrated.copy_files(folder)
    copy_image(folder / "tiny-linux")  # test_real_guest.py has it built by the first start
    (folder / "shared").mkdir()
    hosts = [HOST.format(name=name, folder=folder, uri=daemon.uri) for name, daemon in daemons.items()]
    (folder / "hosts.toml").write_text("".join(hosts))
    cloud = Cloud(
        folder,
        NOVELLA_REAL_HOST="on",
        NOVELLA_HOSTS_FILE=str(folder / "hosts.toml"),
        NOVELLA_RECLAIM_SECONDS="3600",
        NOVELLA_RECONCILE_SECONDS="3600",  # nothing is found by it: hosts report it
        NOVELLA_SHELVED_OFFLOAD_SECONDS="3600",
    ).start()
    for name, vcpus, ram, disk in (("one", 1, 128, 1), ("two", 2, 192, 2)):
        flavor = {"name": name, "vcpus": vcpus, "ram": ram, "disk": disk, "id": name}
        assert cloud.call("POST", "/compute/v2.1/flavors", {"flavor": flavor}, user="admin").status == 200
    key = {"keypair": {"name": "ana", "public_key": KEY, "type": "ssh"}}
    assert cloud.call("POST", "/compute/v2.1/os-keypairs", key).status in (200, 201)
    yield cloud
    for server in cloud.servers():
        cloud.call("POST", f"{SERVERS}/{server['id']}/action", {"forceDelete": None})
    wait_until("no servers", lambda: not cloud.servers())
    cloud.stop()


@pytest.fixture(scope="module")
def web(cloud: Cloud) -> Real:
    user_data = base64.b64encode(SAYS_HELLO).decode()
    zone = "az-1"  # where the host is that has its hypervisor inside
    launched = cloud.launch(
        "web-1", image="tiny-linux", flavor="one", key_name="ana", user_data=user_data, availability_zone=zone
    )
    assert launched.status == 202, launched.raw
    server = Real(cloud, launched.json["server"]["id"])
    server.wait("ACTIVE")
    return server


def test_the_guest_has_read_its_config_drive(web: Real) -> None:
    reported = web.line.ask("cat /run/report")
    assert f"disc uuid {web.uuid} name web-1" in reported
    assert "disc key ssh-ed25519" in reported
    assert "user data of web-1" in reported
    assert web.line.ask("cat /root/.ssh/authorized_keys") == KEY
    assert (web.line.number(PROCESSORS), web.line.number("cat /sys/block/vda/size")) == (1, 2 << 20)


def test_pause_and_suspend_stop_the_guest_and_it_continues(web: Real) -> None:
    before = web.line.number(UPTIME)
    web.line.ask("echo kept > /run/mark")
    web.act({"pause": None}, "PAUSED")
    web.act({"unpause": None}, "ACTIVE")
    web.act({"suspend": None}, "SUSPENDED")
    assert qemu_of(web.uuid) == []
    web.act({"resume": None}, "ACTIVE")
    assert web.line.ask("cat /run/mark") == "kept"
    assert web.line.number(UPTIME) >= before


def test_volumes_and_ports_come_and_go_while_it_runs(web: Real) -> None:
    cloud, (uuid, larger) = web.cloud, (_new_volume(web.cloud, size) for size in (1, 3))
    attachments = f"{SERVERS}/{web.uuid}/os-volume_attachments"
    attached = cloud.call("POST", attachments, {"volumeAttachment": {"volumeId": uuid}})
    assert attached.status in (200, 202), attached.raw
    wait_until("attached", lambda: _volume(cloud, uuid)["status"] == "in-use")
    assert web.line.number("until test -e /sys/block/vdb/size; do sleep 0.1; done; cat /sys/block/vdb/size") == 2 << 20
    body = {"os-extend": {"new_size": 2}}
    assert cloud.call("POST", f"/volume/v3/volumes/{uuid}/action", body, version="volume 3.60").status == 202
    wait_until("it grew", lambda: web.line.number("cat /sys/block/vdb/size") == 4 << 20)
    web.line.ask("printf moved | dd of=/dev/vdb conv=notrunc 2> /dev/null; sync")
    body = {"volumeAttachment": {"volumeId": larger}}
    assert cloud.call("PUT", f"{attachments}/{uuid}", body, user="admin").status == 202
    wait_until("swapped", lambda: [_volume(cloud, one)["status"] for one in (uuid, larger)] == ["available", "in-use"])
    assert web.line.ask("head -c 5 /dev/vdb") == "moved"
    assert cloud.call("DELETE", f"{attachments}/{larger}").status == 202
    wait_until("detached", lambda: _volume(cloud, larger)["status"] == "available")
    assert web.line.ask("ls /sys/block | grep -c vdb") == "0"
    for one in (uuid, larger):
        cloud.call("DELETE", f"/volume/v3/volumes/{one}")
    _plug_a_port(web)


def _plug_a_port(web: Real) -> None:
    cloud = web.cloud
    network = cloud.call("GET", "/network/v2.0/networks?name=private").json["networks"][0]["id"]
    body = {"interfaceAttachment": {"net_id": network}}
    answer = cloud.call("POST", f"{SERVERS}/{web.uuid}/os-interface", body)
    assert answer.status == 200, answer.raw
    web.wait("ACTIVE")
    found = answer.json["interfaceAttachment"]
    wait_until(
        "the card is there", lambda: found["mac_addr"] in web.line.ask("cat /sys/class/net/eth*/address").split()
    )
    assert cloud.call("DELETE", f"{SERVERS}/{web.uuid}/os-interface/{found['port_id']}").status == 202
    ports = f"{SERVERS}/{web.uuid}/os-interface"
    wait_until("unplugged", lambda: found["port_id"] not in cloud.call("GET", ports).raw.decode())
    assert found["mac_addr"] not in web.line.ask("cat /sys/class/net/eth*/address").split()


def test_the_guest_boots_after_soft_and_hard_reboots_and_a_stop(web: Real) -> None:
    web.line.ask("echo gone > /run/mark")
    web.act({"reboot": {"type": "SOFT"}}, "ACTIVE")
    assert web.line.ask("cat /run/mark 2> /dev/null || echo new") == "new"
    web.act({"os-stop": None}, "SHUTOFF")
    assert qemu_of(web.uuid) == []
    web.act({"os-start": None}, "ACTIVE")
    web.act({"reboot": {"type": "HARD"}}, "ACTIVE")
    assert web.has_booted()


def test_a_resize_is_reverted_and_another_is_confirmed(web: Real) -> None:
    small, large = (1, 1 << 30), (2, 2 << 30)

    def size() -> tuple[int, int]:
        return web.line.number(PROCESSORS), web.line.number("cat /sys/block/vda/size") * 512

    memory = web.line.number(MEMORY_MB)
    web.line.ask("printf precious | dd of=/dev/vda bs=1 seek=4096 conv=notrunc 2> /dev/null; sync")
    assert size() == small
    web.act({"resize": {"flavorRef": "two"}}, "VERIFY_RESIZE")
    assert size() == large
    assert web.line.number(MEMORY_MB) > memory + 48
    web.act({"revertResize": None}, "ACTIVE")
    assert size() == small
    assert web.line.number(MEMORY_MB) == memory
    web.act({"resize": {"flavorRef": "two"}}, "VERIFY_RESIZE")
    web.act({"confirmResize": None}, "ACTIVE")
    assert size() == large
    assert web.line.ask(READ_WORD) == "precious"
    assert list((web.cloud.data_dir / "libvirt" / "kept").iterdir()) == []


def test_the_guest_is_rescued_and_unrescued(web: Real) -> None:
    web.act({"rescue": {"adminPass": "correct-horse"}}, "RESCUE")
    assert web.line.number("cat /sys/block/vdb/size") * 512 == 2 << 30  # its own disk is the second
    assert "disc password set" in web.line.ask("cat /run/report")
    web.act({"unrescue": None}, "ACTIVE")
    assert web.line.number("cat /sys/block/vda/size") * 512 == 2 << 30


def test_setting_a_password_without_a_guest_agent_is_refused_and_the_server_runs_on(web: Real) -> None:
    path = f"{SERVERS}/{web.uuid}/action"
    answer = web.cloud.call("POST", path, {"changePassword": {"adminPass": "correct-horse"}})
    assert answer.status == 202, answer.raw
    web.wait("ACTIVE")
    observed = _last_fault(web, "changePassword")
    assert "No agent answers inside of the guest" in observed
    assert "correct-horse" not in observed


@pytest.fixture(scope="module")
def with_agent(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image tiny-linux, with the agent for guests in its first file system."""
    (plain,) = cloud.call("GET", "/image/v2/images?name=tiny-linux").json["images"]
    first = (cloud.data_dir / "tiny-linux" / "ramdisk.cpio.gz").read_bytes()
    ramdisk = {"name": "with-agent-ramdisk", "disk_format": "ari", "container_format": "ari"}
    wanted = {name: plain[name] for name in ("disk_format", "container_format", "min_ram", "kernel_id")}
    wanted |= {"name": "with-agent", "hw_qemu_guest_agent": "yes"}
    wanted["ramdisk_id"] = _new_image(cloud, ramdisk, first + agent_files(tmp_path_factory.mktemp("agent")))
    return _new_image(cloud, wanted, (cloud.data_dir / "tiny-linux" / "disk.raw").read_bytes())


def _new_image(cloud: Cloud, wanted: dict[str, Any], data: bytes) -> str:
    uuid: str = cloud.call("POST", "/image/v2/images", wanted).json["id"]
    assert cloud.call("PUT", f"/image/v2/images/{uuid}/file", data).status == 204
    return uuid


def test_an_image_of_it_and_a_rebuild_from_one_with_an_agent(web: Real, with_agent: str) -> None:
    answer = web.cloud.call("POST", f"{SERVERS}/{web.uuid}/action", {"createImage": {"name": "copy"}})
    assert answer.status == 202, answer.raw
    wait_until("the image", lambda: _images(web.cloud, "copy", "active"), SECONDS)
    web.wait("ACTIVE")
    user_data = base64.b64encode(STARTS_AGENT).decode()
    web.act({"rebuild": {"imageRef": with_agent, "user_data": user_data}}, "ACTIVE")
    assert web.line.ask(f"{READ_WORD} | tr -d '\\000'") == ""


def test_a_password_is_set_by_the_agent_inside(web: Real) -> None:
    wait_until("the agent", lambda: web.line.ask("pidof qemu-ga"))
    assert web.line.ask(IS_ROOTS.format("battery-staple")) == ""
    web.act({"changePassword": {"adminPass": "battery-staple"}}, "ACTIVE")
    assert web.line.ask(IS_ROOTS.format("battery-staple")) == "same"


def test_backups_rotate_and_a_crash_dump_interrupts_the_guest(web: Real) -> None:
    for name in ("monday", "tuesday"):
        backup = {"name": name, "backup_type": "daily", "rotation": 1}
        web.act({"createBackup": backup}, "ACTIVE")
        wait_until(name, lambda: _images(web.cloud, name, "active"), SECONDS)  # noqa: B023
    assert _images(web.cloud, "monday", "active") == []
    before = web.line.number(NMIS)
    web.act({"trigger_crash_dump": None}, "ACTIVE")
    wait_until("its NMI", lambda: web.line.number(NMIS) > before)  # its kernel would dump if sysctl were set


def test_a_guest_that_shuts_itself_down_is_noticed_at_once(web: Real) -> None:
    (process,) = qemu_of(web.uuid)
    web.line.ask("(sleep 5; poweroff -f) & true")
    wait_until("its end", lambda: process not in qemu_of(web.uuid))
    wait_until("SHUTOFF", lambda: web.cloud.server(web.uuid)["status"] == "SHUTOFF", SECONDS)
    web.act({"os-start": None}, "ACTIVE")


def test_a_root_volume_survives_shelving_and_is_refilled_by_a_rebuild(cloud: Cloud) -> None:
    (image,) = cloud.call("GET", "/image/v2/images?name=tiny-linux").json["images"]
    root = {"boot_index": 0, "uuid": image["id"], "source_type": "image", "destination_type": "volume"}
    root |= {"volume_size": 1, "delete_on_termination": True}
    wanted = {"flavor": "one", "availability_zone": "az-1", "imageRef": "", "block_device_mapping_v2": [root]}
    launched = cloud.launch("rooted", image="tiny-linux", **wanted)
    assert launched.status == 202, launched.raw
    server = Real(cloud, launched.json["server"]["id"])
    server.wait("ACTIVE")
    (volume,) = (one["id"] for one in cloud.server(server.uuid)["os-extended-volumes:volumes_attached"])
    server.line.ask("printf precious | dd of=/dev/vda bs=1 seek=4096 conv=notrunc 2> /dev/null; sync")
    server.act({"shelve": None}, "SHELVED_OFFLOADED")  # there is nothing on its host to keep
    assert (qemu_of(server.uuid), _volume(cloud, volume)["status"]) == ([], "in-use")
    server.act({"unshelve": None}, "ACTIVE")
    assert server.line.ask(READ_WORD) == "precious"
    server.act({"rebuild": {"imageRef": image["id"]}}, "ACTIVE", version="2.93")
    assert server.line.ask(f"{READ_WORD} | tr -d '\\000'") == ""
    cloud.call("POST", f"{SERVERS}/{server.uuid}/action", {"forceDelete": None})
    cloud.wait_until_gone(server.uuid)
    wait_until("its volume gone", lambda: cloud.call("GET", f"/volume/v3/volumes/{volume}").status == 404)


@pytest.fixture(scope="module")
def mover(cloud: Cloud) -> Real:
    """A server on one of two hosts that share disks."""
    launched = cloud.launch("mover", image="tiny-linux", flavor="one", availability_zone="live")
    assert launched.status == 202, launched.raw
    server = Real(cloud, launched.json["server"]["id"])
    server.wait("ACTIVE")
    server.line.ask("printf precious | dd of=/dev/vda bs=1 seek=4096 conv=notrunc 2> /dev/null; sync")
    return server


def _other(server: Real) -> str:
    return next(name for name in PAIR if name != server.host)


def test_a_live_migration_does_not_interrupt_the_guest(mover: Real) -> None:
    destination = _other(mover)
    mover.line.ask("echo kept > /run/mark")
    before = mover.line.number(UPTIME)
    body = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
    mover.act(body, "ACTIVE", user="admin")
    assert mover.host == destination
    assert mover.line.ask("cat /run/mark") == "kept"
    assert mover.line.number(UPTIME) >= before
    assert len(qemu_of(mover.uuid)) == 1


def test_a_cold_migration_keeps_the_disk(mover: Real) -> None:
    destination = _other(mover)
    mover.act({"migrate": None}, "VERIFY_RESIZE", user="admin")
    mover.act({"confirmResize": None}, "ACTIVE")
    assert mover.host == destination
    assert mover.line.ask(READ_WORD) == "precious"
    assert mover.line.ask("cat /run/mark 2> /dev/null || echo new") == "new"


def test_shelving_and_unshelving(mover: Real) -> None:
    mover.act({"shelve": None}, "SHELVED")
    mover.act({"shelveOffload": None}, "SHELVED_OFFLOADED", user="admin")
    assert qemu_of(mover.uuid) == []
    mover.act({"unshelve": None}, "ACTIVE")
    assert mover.line.ask(READ_WORD) == "precious"


def test_a_soft_deleted_server_is_restored(mover: Real) -> None:
    assert mover.cloud.call("DELETE", f"{SERVERS}/{mover.uuid}").status == 204
    mover.wait("SOFT_DELETED")
    assert qemu_of(mover.uuid) == []
    mover.act({"restore": None}, "ACTIVE")
    assert mover.line.ask(READ_WORD) == "precious"


def test_a_server_of_a_dead_host_is_evacuated_with_its_shared_disk(mover: Real, daemons: dict[str, Daemon]) -> None:
    dead, taker = mover.host, _other(mover)
    daemons[dead].kill_9()
    for process in qemu_of(mover.uuid):
        os.kill(process, signal.SIGKILL)
    (service,) = mover.cloud.call("GET", f"{SERVICES}?host={dead}", user="admin").json["services"]
    path = f"{SERVICES}/{service['id']}"
    assert mover.cloud.call("PUT", path, {"forced_down": True}, user="admin").status == 200
    mover.act({"evacuate": {}}, "ACTIVE", user="admin")
    assert mover.host == taker
    assert mover.line.ask(READ_WORD) == "precious"
    daemons[dead].start()
    # It is refused until the host has cleared away what it finds of the guest.
    up = {"forced_down": False}
    wait_until("up again", lambda: mover.cloud.call("PUT", path, up, user="admin").status == 200, SECONDS)
    assert len(qemu_of(mover.uuid)) == 1


def test_deleted_servers_leave_nothing_behind(web: Real, mover: Real) -> None:
    for server in (web, mover):
        server.cloud.call("POST", f"{SERVERS}/{server.uuid}/action", {"forceDelete": None})
        server.cloud.wait_until_gone(server.uuid)
        assert qemu_of(server.uuid) == []
        for place in ("libvirt", "shared", *PAIR):
            assert [path for path in (server.cloud.data_dir / place).rglob("*") if server.uuid in path.name] == []
    web.cloud.wait_until_clean()


def _new_volume(cloud: Cloud, size: int) -> str:
    body = {"volume": {"size": size, "name": "data"}}
    uuid: str = cloud.call("POST", "/volume/v3/volumes", body, version="3.60").json["volume"]["id"]
    wait_until("the volume", lambda: _volume(cloud, uuid)["status"] == "available")
    return uuid


def _volume(cloud: Cloud, uuid: str) -> dict[str, Any]:
    found: dict[str, Any] = cloud.call("GET", f"/volume/v3/volumes/{uuid}", version="3.60").json["volume"]
    return found


def _images(cloud: Cloud, name: str, status: str) -> list[dict[str, Any]]:
    found = cloud.call("GET", f"/image/v2/images?name={name}").json["images"]
    return [image for image in found if image["status"] == status]


def _last_fault(web: Real, action: str) -> str:
    """Return the message of the newest action of that name, with those of its events."""
    path = f"{SERVERS}/{web.uuid}/os-instance-actions"

    def look() -> str:
        actions = web.cloud.call("GET", path, user="admin").json["instanceActions"]
        newest = next((found for found in actions if found["action"] == action), None)
        if newest is None:
            return ""
        shown = web.cloud.call("GET", f"{path}/{newest['request_id']}", user="admin").json["instanceAction"]
        events = shown.get("events", [])
        return " ".join(str(event.get("details") or event.get("traceback") or "") for event in events).strip()

    return str(wait_until(f"the fault of {action}", look))
