"""Launch, console and deletion of a real guest with the real command-line client; nothing of it is left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests import migrated
from tests.acceptance.cloud import Cloud
from tests.browser.conftest import DESKTOP, wait_until_live
from tests.guests import qemu_of
from tests.openstack_command import OpenStackCommand
from tests.waiting import Stopwatch, wait_until

CONSOLE_SECONDS = 240.0
CREATE = "server create --image tiny-linux --flavor tiny --network private web-1 --wait"


@pytest.fixture(scope="module")
def real_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """The embedded default with this machine as a host; a machine that cannot run QEMU fails here, by name."""
    folder = tmp_path_factory.mktemp("real") / "var"
    migrated.copy_files(folder)
    cloud = Cloud(folder, NOVELLA_REAL_HOST="on").start()
    yield cloud
    for server in cloud.servers():
        cloud.call("DELETE", f"/compute/v2.1/servers/{server['id']}")
    wait_until("no servers", lambda: not cloud.servers())
    cloud.stop()


class Client:
    """The `openstack` command with the clouds.yaml that the product wrote."""

    def __init__(self, command: OpenStackCommand, cloud: Cloud, name: str) -> None:
        self.command = command
        self.environment = {"OS_CLIENT_CONFIG_FILE": str(cloud.data_dir / "clouds.yaml"), "OS_CLOUD": name}

    def text(self, line: str) -> str:
        code, out, err = self.command.run(line.split(), self.environment)
        assert code == 0, f"openstack {line}\n{out}\n{err}"
        return out

    def json(self, line: str) -> Any:
        return json.loads(self.text(f"{line} -f json"))


@pytest.fixture(scope="module")
def command() -> Iterator[OpenStackCommand]:
    started = OpenStackCommand()
    yield started
    started.close()


@pytest.fixture(scope="module")
def member(command: OpenStackCommand, real_cloud: Cloud) -> Client:
    return Client(command, real_cloud, "novella")


@pytest.fixture(scope="module")
def admin(command: OpenStackCommand, real_cloud: Cloud) -> Client:
    return Client(command, real_cloud, "novella-admin")


@pytest.fixture(scope="module")
def web_1(member: Client) -> str:
    """The uuid of a server that the client made and waited for."""
    member.text(CREATE)
    return member.text("server show web-1 -f value -c id").strip()


def test_the_real_client_creates_a_server_and_reads_its_console(
    real_cloud: Cloud, member: Client, admin: Client, web_1: str, record_property: Callable[[str, object], None]
) -> None:
    server = admin.json(f"server show {web_1}")
    assert server["status"] == "ACTIVE"
    host = server["OS-EXT-SRV-ATTR:host"]
    assert not host.startswith("sim-")
    (address,) = server["addresses"]["private"]
    watch = Stopwatch()
    wait_until(
        "the hostname on the console",
        lambda: "hostname web-1" in _console(real_cloud, web_1),
        CONSOLE_SECONDS,
        pause=0.5,
    )
    record_property("hostname_on_console_seconds", round(watch.seconds, 1))
    text = member.text("console log show web-1")
    assert "Linux version" in text
    assert f"hostname web-1 address {address}" in text  # the address from DHCP is the port's
    assert qemu_of(web_1)


def test_a_person_launches_in_the_browser_watches_and_reads_the_console(real_cloud: Cloud, browser: Browser) -> None:
    page = browser.new_context(base_url=real_cloud.url, viewport=DESKTOP).new_page()
    page.goto("/sign-in?next=/servers/launch")
    page.get_by_label("User name").fill("demo")
    page.get_by_label("Password").fill(json.loads((real_cloud.data_dir / "passwords.json").read_text())["demo"])
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("Name", exact=True).fill("web-3")
    page.get_by_text("tiny-linux", exact=True).click()
    page.get_by_role("button", name="Launch server").click()
    expect(page.get_by_role("heading", name="Create web-3")).to_be_visible()
    wait_until_live(page)
    for step in ("Select hosts", "Create in cell", "Plug networks", "Spawn on host", "Activate"):
        expect(page.locator("main")).to_contain_text(step)
    # Without a reload: the rest comes over the socket.
    expect(page.locator("#workflow-head")).to_contain_text("done", timeout=CONSOLE_SECONDS * 1000)
    page.get_by_role("link", name="Open server").click()
    page.get_by_role("link", name="Console").click()
    expect(page.locator("main")).to_contain_text("novella: hostname web-3 address", timeout=CONSOLE_SECONDS * 1000)
    expect(page.locator("main")).to_contain_text("Linux version")
    page.context.close()
    (server,) = real_cloud.servers("web-3")
    assert real_cloud.call("DELETE", f"/compute/v2.1/servers/{server['id']}").status == 204
    real_cloud.wait_until_gone(server["id"])


def test_a_real_guest_survives_kill_9_of_all_processes_and_is_found_again(real_cloud: Cloud, web_1: str) -> None:
    (process,) = qemu_of(web_1)
    real_cloud.kill_9()
    real_cloud.start()
    assert real_cloud.server(web_1)["status"] == "ACTIVE"
    assert qemu_of(web_1) == [process]


def test_the_real_client_deletes_it_and_nothing_is_left(real_cloud: Cloud, member: Client, web_1: str) -> None:
    member.text("server delete --wait web-1")
    assert qemu_of(web_1) == []
    assert _files_of(real_cloud.data_dir / "libvirt", web_1) == []
    real_cloud.wait_until_clean()


def test_lists_of_the_openstack_client(member: Client, admin: Client) -> None:
    assert {"tiny", "small", "medium", "large"} <= {row["Name"] for row in member.json("flavor list")}
    assert {"tiny-linux", "simulated-linux"} <= {row["Name"] for row in member.json("image list")}
    assert {row["Name"] for row in member.json("network list")} == {"private", "public"}
    assert len(admin.json("hypervisor list")) == 5
    services = admin.json("compute service list")
    assert {row["State"] for row in services if row["Binary"] == "nova-compute"} == {"up"}
    zones = {row["Zone Name"] for row in member.json("availability zone list --compute")}
    assert {"az-1", "az-2"} <= zones


def _console(cloud: Cloud, uuid: str) -> str:
    answer = cloud.call("POST", f"/compute/v2.1/servers/{uuid}/action", {"os-getConsoleOutput": {}})
    assert answer.status == 200, answer.raw
    return str(answer.json["output"])


def _files_of(directory: Path, uuid: str) -> list[Path]:
    return [path for path in directory.rglob("*") if uuid in path.name]
