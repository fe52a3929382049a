"""The main job with the real command-line client on a real guest: launch, active, console, delete, nothing left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.acceptance.cloud import Cloud, wait_until
from tests.browser.conftest import DESKTOP, wait_until_live
from tests.guests import qemu_of

CLIENT = Path(sys.executable).with_name("openstack")
CONSOLE_SECONDS = 120.0


@pytest.fixture(scope="module")
def real_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """The embedded default with this machine as a host; a machine that cannot run QEMU fails here, by name."""
    cloud = Cloud(tmp_path_factory.mktemp("real") / "var", NOVELLA_REAL_HOST="on").start()
    yield cloud
    for server in cloud.servers():
        cloud.call("DELETE", f"/compute/v2.1/servers/{server['id']}")
    wait_until("no servers", lambda: not cloud.servers())
    cloud.stop()


class Client:
    """The `openstack` command with the clouds.yaml that the product wrote."""

    def __init__(self, cloud: Cloud, name: str) -> None:
        self.environment = {
            **os.environ,
            "OS_CLIENT_CONFIG_FILE": str(cloud.data_dir / "clouds.yaml"),
            "OS_CLOUD": name,
        }

    def text(self, *words: str) -> str:
        done = subprocess.run(
            [str(CLIENT), *words], env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"openstack {' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.text(*words, "-f", "json"))


def test_create_console_delete_with_the_real_client(
    real_cloud: Cloud, record_property: Callable[[str, object], None]
) -> None:
    member, admin = Client(real_cloud, "novella"), Client(real_cloud, "novella-admin")
    began = time.monotonic()
    member.text(
        "server", "create", "--image", "tiny-linux", "--flavor", "tiny", "--network", "private", "web-1", "--wait"
    )
    record_property("create_wait_seconds", round(time.monotonic() - began, 1))
    uuid = member.text("server", "show", "web-1", "-f", "value", "-c", "id").strip()
    server = admin.json("server", "show", uuid)
    assert server["status"] == "ACTIVE"
    host = server["OS-EXT-SRV-ATTR:host"]
    assert not host.startswith("sim-")
    (address,) = server["addresses"]["private"]

    def console() -> str | None:
        text = member.text("console", "log", "show", "web-1")
        return text if "hostname web-1" in text else None

    text = wait_until("the hostname on the console", console, CONSOLE_SECONDS)
    record_property("hostname_on_console_seconds", round(time.monotonic() - began, 1))
    assert "Linux version" in text
    assert address in text  # the guest got by DHCP what the port says
    assert qemu_of(uuid)
    began = time.monotonic()
    member.text("server", "delete", "--wait", "web-1")
    record_property("delete_wait_seconds", round(time.monotonic() - began, 1))
    assert qemu_of(uuid) == []
    assert _files_of(real_cloud.data_dir / "libvirt", uuid) == []
    assert real_cloud.leftovers() == {}


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
    for step in ("Choose hosts", "Create in cell", "Plug networks", "Spawn on host", "Activate"):
        expect(page.locator("main")).to_contain_text(step)
    # Nobody reloads: what follows comes over the socket.
    expect(page.locator("#workflow-head")).to_contain_text("done", timeout=60_000)
    page.get_by_role("link", name="Open server").click()
    page.get_by_role("link", name="Console").click()
    expect(page.locator("main")).to_contain_text("novella: hostname web-3 address", timeout=CONSOLE_SECONDS * 1000)
    expect(page.locator("main")).to_contain_text("Linux version")


def test_a_real_guest_survives_kill_9_of_everything_and_is_found_again(real_cloud: Cloud) -> None:
    uuid = real_cloud.launch("web-2", image="tiny-linux").json["server"]["id"]
    real_cloud.wait_for_status(uuid, "ACTIVE")
    (process,) = qemu_of(uuid)
    real_cloud.kill_9()
    real_cloud.start()
    assert real_cloud.server(uuid)["status"] == "ACTIVE"
    assert qemu_of(uuid) == [process]
    assert real_cloud.call("DELETE", f"/compute/v2.1/servers/{uuid}").status == 204
    real_cloud.wait_until_gone(uuid)
    assert qemu_of(uuid) == []


def test_what_the_client_lists(real_cloud: Cloud) -> None:
    member, admin = Client(real_cloud, "novella"), Client(real_cloud, "novella-admin")
    assert {"tiny", "small", "medium", "large"} <= {row["Name"] for row in member.json("flavor", "list")}
    assert {"tiny-linux", "simulated-linux"} <= {row["Name"] for row in member.json("image", "list")}
    assert {row["Name"] for row in member.json("network", "list")} == {"private", "public"}
    assert len(admin.json("hypervisor", "list")) == 5
    services = admin.json("compute", "service", "list")
    assert {row["State"] for row in services if row["Binary"] == "nova-compute"} == {"up"}
    zones = {row["Zone Name"] for row in member.json("availability", "zone", "list", "--compute")}
    assert {"az-1", "az-2"} <= zones


def _files_of(directory: Path, uuid: str) -> list[Path]:
    return [path for path in directory.rglob("*") if uuid in path.name]
