"""What the API can do to a server, done to a real one, which is asked from inside what it saw."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests import migrated
from tests.acceptance.cloud import Cloud, wait_until
from tests.acceptance.serial_line import SerialLine
from tests.guests import qemu_of
from tests.tiny_linux import copy_image

SERVERS = "/compute/v2.1/servers"
SECONDS = 240.0
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHBvdGF0b2VzIGFuZCBsZWVrcyBtYWtlIHNvdXA= ana"
SAYS_HELLO = b"#!/bin/sh\necho user data of $(hostname)\n"
UPTIME = "cut -d. -f1 /proc/uptime"
PROCESSORS = "grep -c ^processor /proc/cpuinfo"
MEMORY_MB = "awk '/MemTotal/ {print int($2/1024)}' /proc/meminfo"


class Real:
    """One server of the cloud: actions go by the API, questions by its serial line."""

    def __init__(self, cloud: Cloud, uuid: str) -> None:
        self.cloud, self.uuid = cloud, uuid
        self.line = SerialLine(cloud.data_dir / "libvirt", uuid)

    def act(self, body: Any, status: str, *, user: str = "demo", version: str = "2.90") -> None:
        """An action, and the server once it has the status and nothing is under way."""
        path = f"{SERVERS}/{self.uuid}/action"

        def ask() -> Any:
            """Again where the workflow before this one holds a lock for its last moment."""
            answer = self.cloud.call("POST", path, body, user=user, version=version)
            return None if answer.status == 409 and b"is locked by workflow" in answer.raw else answer

        answer = wait_until("a lock", ask)
        assert answer.status in (200, 202, 204), answer.raw
        self.wait(status)

    def wait(self, status: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            server = self.cloud.server(self.uuid)
            assert server["status"] != "ERROR" or status == "ERROR", f"{server.get('fault')}\n{self.cloud.log_tail()}"
            is_there = server["status"] == status and server["OS-EXT-STS:task_state"] is None
            return server if is_there else None

        found: dict[str, Any] = wait_until(f"{self.uuid} {status}\n{self.cloud.log_tail()}", look, SECONDS, pause=0.25)
        return found

    def has_booted(self) -> bool:
        """Wait until its shell answers, and until it has been up for less than `SECONDS`."""
        return self.line.number(UPTIME) < SECONDS


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    folder = tmp_path_factory.mktemp("actions") / "var"
    migrated.copy_files(folder)
    copy_image(folder / "tiny-linux")  # test_real_guest.py has it built by the first start
    cloud = Cloud(folder, NOVELLA_REAL_HOST="on").start()
    for name, vcpus, ram, disk in (("one", 1, 128, 1), ("two", 2, 192, 2)):
        flavor = {"name": name, "vcpus": vcpus, "ram": ram, "disk": disk, "id": name}
        assert cloud.call("POST", "/compute/v2.1/flavors", {"flavor": flavor}, user="admin").status == 200
    key = {"keypair": {"name": "ana", "public_key": KEY, "type": "ssh"}}
    assert cloud.call("POST", "/compute/v2.1/os-keypairs", key).status in (200, 201)
    yield cloud
    for server in cloud.servers():
        cloud.call("DELETE", f"{SERVERS}/{server['id']}")
    wait_until("no servers", lambda: not cloud.servers())
    cloud.stop()


@pytest.fixture(scope="module")
def web(cloud: Cloud) -> Real:
    user_data = base64.b64encode(SAYS_HELLO).decode()
    launched = cloud.launch("web-1", image="tiny-linux", flavor="one", key_name="ana", user_data=user_data)
    assert launched.status == 202, launched.raw
    server = Real(cloud, launched.json["server"]["id"])
    server.wait("ACTIVE")
    return server


def test_it_read_its_config_drive(web: Real) -> None:
    said = web.line.ask("cat /run/said")
    assert f"disc uuid {web.uuid} name web-1" in said
    assert "disc key ssh-ed25519" in said
    assert "user data of web-1" in said
    assert web.line.ask("cat /root/.ssh/authorized_keys") == KEY
    assert (web.line.number(PROCESSORS), web.line.number("cat /sys/block/vda/size")) == (1, 2 << 20)


def test_it_stands_still_and_goes_on(web: Real) -> None:
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
    cloud = web.cloud
    volume = cloud.call("POST", "/volume/v3/volumes", {"volume": {"size": 1, "name": "data"}}, version="3.60")
    uuid = volume.json["volume"]["id"]
    wait_until("the volume", lambda: _volume(cloud, uuid)["status"] == "available")
    attached = cloud.call(
        "POST", f"{SERVERS}/{web.uuid}/os-volume_attachments", {"volumeAttachment": {"volumeId": uuid}}
    )
    assert attached.status in (200, 202), attached.raw
    wait_until("attached", lambda: _volume(cloud, uuid)["status"] == "in-use")
    assert web.line.number("sleep 1; cat /sys/block/vdb/size") == 2 << 20
    assert cloud.call("DELETE", f"{SERVERS}/{web.uuid}/os-volume_attachments/{uuid}").status == 202
    wait_until("detached", lambda: _volume(cloud, uuid)["status"] == "available")
    assert web.line.ask("ls /sys/block | grep -c vdb") == "0"
    cloud.call("DELETE", f"/volume/v3/volumes/{uuid}")
    _plug_a_port(web)


def _plug_a_port(web: Real) -> None:
    cloud = web.cloud
    network = cloud.call("GET", "/network/v2.0/networks?name=private").json["networks"][0]["id"]
    body = {"interfaceAttachment": {"net_id": network}}
    answer = cloud.call("POST", f"{SERVERS}/{web.uuid}/os-interface", body)
    assert answer.status == 200, answer.raw
    web.wait("ACTIVE")
    found = answer.json["interfaceAttachment"]
    assert found["mac_addr"] in web.line.ask("sleep 1; cat /sys/class/net/eth*/address").split()
    assert cloud.call("DELETE", f"{SERVERS}/{web.uuid}/os-interface/{found['port_id']}").status == 202
    ports = f"{SERVERS}/{web.uuid}/os-interface"
    wait_until("unplugged", lambda: found["port_id"] not in cloud.call("GET", ports).raw.decode())
    assert found["mac_addr"] not in web.line.ask("cat /sys/class/net/eth*/address").split()


def test_it_boots_again_softly_and_hard_and_after_a_stop(web: Real) -> None:
    web.line.ask("echo gone > /run/mark")
    web.act({"reboot": {"type": "SOFT"}}, "ACTIVE")
    assert web.line.ask("cat /run/mark 2> /dev/null || echo new") == "new"
    web.act({"os-stop": None}, "SHUTOFF")
    assert qemu_of(web.uuid) == []
    web.act({"os-start": None}, "ACTIVE")
    web.act({"reboot": {"type": "HARD"}}, "ACTIVE")
    assert web.has_booted()


def test_it_is_resized_reverted_and_resized_for_good(web: Real) -> None:
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
    assert web.line.ask("dd if=/dev/vda bs=1 skip=4096 count=8 2> /dev/null") == "precious"
    assert list((web.cloud.data_dir / "libvirt" / "kept").iterdir()) == []


def test_it_is_rescued_and_comes_back(web: Real) -> None:
    web.act({"rescue": {"adminPass": "correct-horse"}}, "RESCUE")
    assert web.line.number("cat /sys/block/vdb/size") * 512 == 2 << 30  # its own disk is the second
    assert "disc password set" in web.line.ask("cat /run/said")
    web.act({"unrescue": None}, "ACTIVE")
    assert web.line.number("cat /sys/block/vda/size") * 512 == 2 << 30


def test_a_password_without_an_agent_is_refused_in_a_sentence_and_the_server_goes_on(web: Real) -> None:
    path = f"{SERVERS}/{web.uuid}/action"
    answer = web.cloud.call("POST", path, {"changePassword": {"adminPass": "correct-horse"}})
    assert answer.status == 202, answer.raw
    web.wait("ACTIVE")
    told = _last_fault(web, "changePassword")
    assert "No agent answers inside of the guest" in told
    assert "correct-horse" not in told


def test_an_image_of_it_and_a_rebuild(web: Real) -> None:
    answer = web.cloud.call("POST", f"{SERVERS}/{web.uuid}/action", {"createImage": {"name": "copy"}})
    assert answer.status == 202, answer.raw
    wait_until("the image", lambda: _images(web.cloud, "copy", "active"), SECONDS)
    web.wait("ACTIVE")
    (image,) = web.cloud.call("GET", "/image/v2/images?name=tiny-linux").json["images"]
    web.act({"rebuild": {"imageRef": image["id"]}}, "ACTIVE")
    assert web.line.ask("dd if=/dev/vda bs=1 skip=4096 count=8 2> /dev/null | tr -d '\\000'") == ""


def test_a_guest_that_ends_by_itself_is_seen_at_once(web: Real) -> None:
    (process,) = qemu_of(web.uuid)
    web.line.ask("(sleep 1; poweroff -f) & true")
    wait_until("its end", lambda: process not in qemu_of(web.uuid))
    began = time.monotonic()
    wait_until("SHUTOFF", lambda: web.cloud.server(web.uuid)["status"] == "SHUTOFF", SECONDS)
    assert time.monotonic() - began < 30.0
    web.act({"os-start": None}, "ACTIVE")


def test_nothing_is_left_of_it(web: Real) -> None:
    assert web.cloud.call("DELETE", f"{SERVERS}/{web.uuid}").status == 204
    web.cloud.wait_until_gone(web.uuid)
    assert qemu_of(web.uuid) == []
    assert [path for path in (web.cloud.data_dir / "libvirt").rglob("*") if web.uuid in path.name] == []
    assert web.cloud.leftovers() == {}


def _volume(cloud: Cloud, uuid: str) -> dict[str, Any]:
    found: dict[str, Any] = cloud.call("GET", f"/volume/v3/volumes/{uuid}", version="3.60").json["volume"]
    return found


def _images(cloud: Cloud, name: str, status: str) -> list[dict[str, Any]]:
    found = cloud.call("GET", f"/image/v2/images?name={name}").json["images"]
    return [image for image in found if image["status"] == status]


def _last_fault(web: Real, action: str) -> str:
    """The message of the newest action of that name, with those of its events."""
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
