"""Servers of bare metal and of containers from launch to delete, with the real client over the API."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from compute_drivers.container.paths import ContainerPaths
from compute_drivers.container.runtime import Runtime
from tests.acceptance.cloud import Cloud, copy_seeded
from tests.acceptance.conftest import nursery, seeded_data
from tests.acceptance.nursery import Nursery
from tests.compute_drivers.bare_metal import IMAGES
from tests.compute_drivers.containers import BANNER, ROOT
from tests.compute_drivers.controllers import DISK_GB, MEMORY_GB, SPARE, VCPUS, Rack, uuid_of
from tests.openstack_command import OpenStackCommand
from tests.waiting import wait_until

__all__ = ["nursery", "seeded_data"]

pytestmark = pytest.mark.compute_drivers

LARGE = SPARE - 1  # the machine that is wanted more
FIRST_ID = 100_000
METAL = {"CUSTOM_BAREMETAL": 1, "VCPU": 0, "MEMORY_MB": 0, "DISK_GB": 0}

SECONDS = 240.0


class People:
    """The `openstack` command as demo, or as the administrator."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.passwords = json.loads((cloud.data_dir / "passwords.json").read_text())
        self.command = OpenStackCommand()

    def say(self, line: str, *more: str, user: str = "demo") -> str:
        domains = {"OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default"}
        who = {"OS_USERNAME": user, "OS_PROJECT_NAME": user, "OS_PASSWORD": self.passwords[user]}
        place = {"OS_AUTH_URL": f"{self.cloud.url}/identity/v3", "OS_IDENTITY_API_VERSION": "3"}
        code, out, err = self.command.run([*line.split(), *more], {**domains, **who, **place})
        assert code == 0, f"openstack {line}\n{out}\n{err}\n{self.cloud.log_tail()}"
        return out

    def image(self, name: str, data: bytes, disk_format: str, kind: str) -> None:
        """Create a public image as the administrator."""
        given = {"name": name, "disk_format": disk_format, "container_format": "bare", "visibility": "public"}
        made = self.cloud.call("POST", "/image/v2/images", {**given, "img_hv_type": kind}, user="admin")
        assert made.status == 201, made.raw
        headers = {"X-Auth-Token": self.cloud.token("admin"), "Content-Type": "application/octet-stream"}
        place = f"{self.cloud.url}/image/v2/images/{made.json['id']}/file"
        with urlopen(Request(place, data, headers, method="PUT"), timeout=120) as answer:
            assert answer.status == 204

    def flavor(self, name: str, vcpus: int, ram: int, disk: int, **resources: int) -> None:
        body = {"flavor": {"name": name, "id": name, "vcpus": vcpus, "ram": ram, "disk": disk}}
        assert self.cloud.call("POST", "/compute/v2.1/flavors", body, user="admin").status == 200
        specs = {"extra_specs": {f"resources:{key}": str(amount) for key, amount in resources.items()}}
        if resources:
            made = self.cloud.call("POST", f"/compute/v2.1/flavors/{name}/os-extra_specs", specs, user="admin")
            assert made.status == 200, made.raw

    def launch(self, name: str, image: str, flavor: str) -> str:
        """Return the uuid of a server that is active."""
        line = f"server create --image {image} --flavor {flavor} --network private {name} --wait -f value -c id"
        return self.say(line).strip()

    def act(self, uuid: str, body: dict[str, Any], status: str) -> None:
        """Send an action, and return the server once it has the status and no task is running."""
        path, wanted = f"/compute/v2.1/servers/{uuid}/action", (status, None)

        def ask() -> Any:
            """Retry while the previous workflow still holds a lock."""
            answer = self.cloud.call("POST", path, body)
            return None if answer.status == 409 and b"is locked by workflow" in answer.raw else answer

        answer = wait_until("a lock", ask, SECONDS)
        assert answer.status in (202, 204), answer.raw
        wait_until(
            f"{body}: {status}", lambda: self.state(uuid) == wanted, SECONDS, pause=0.2, details=self.cloud.log_tail
        )

    def state(self, uuid: str) -> tuple[str, str | None]:
        server = self.cloud.server(uuid)
        assert server["status"] != "ERROR", self.cloud.log_tail()
        return server["status"], server["OS-EXT-STS:task_state"]


def lines(name: str, driver: str, options: dict[str, Any]) -> str:
    """Return one host of the file of hosts."""
    given = [f"options.{key} = {json.dumps(value)}" for key, value in options.items()]
    return "\n".join(["[[host]]", f'name = "{name}"', f'driver = "{driver}"', *given, ""])


@pytest.fixture(scope="module")
def run_dir() -> Iterator[Path]:
    """A folder that root of the containers can traverse, unlike pytest's own folders."""
    folder = Path(tempfile.mkdtemp(prefix="novella-test-", dir="/run"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def people(
    seeded_data: Path,
    nursery: Nursery,
    run_dir: Path,
    options_of: Callable[..., dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[People]:
    """One cloud for all tests: two hosts with a machine each, and one with containers."""
    folder = tmp_path_factory.mktemp("journeys")
    cleaned = {"erase": "always", "look_seconds": 1.0}
    large = options_of(
        LARGE, options=cleaned, memory_mb=2 * MEMORY_GB * 1024, vcpus=VCPUS, disk_gb=2 * DISK_GB, reports_size=True
    )
    boxes = {"state_dir": str(folder / "boxes"), "run_dir": str(run_dir), "shutdown_seconds": 0.0}
    hosts = folder / "hosts.toml"
    hosts.write_text(
        lines("rack-8", "redfish", large)
        + lines("rack-9", "redfish", options_of(SPARE, options=cleaned))
        + lines("box-1", "container", boxes)
    )
    variables = {"NOVELLA_SIMULATED_HOSTS": "0", "NOVELLA_HOSTS_FILE": str(hosts)}
    cloud = Cloud(copy_seeded(seeded_data, folder / "var"), nursery, **variables).start()
    made = People(cloud)
    yield made
    for server in cloud.servers():
        cloud.call("DELETE", f"/compute/v2.1/servers/{server['id']}")
    wait_until("no servers", lambda: not cloud.servers(), SECONDS, details=cloud.log_tail)
    made.command.close()
    assert cloud.stop() == 0, cloud.log_tail()
    subprocess.run(["ip", "netns", "delete", f"novella-{paths(folder / 'boxes', run_dir).key}"], check=True)


def paths(state_dir: Path, run_dir: Path) -> ContainerPaths:
    return ContainerPaths(state_dir.absolute(), run_dir.absolute(), FIRST_ID)


def test_a_machine_is_built_used_and_cleaned(people: People, rack: Rack) -> None:
    cloud = people.cloud
    people.image("installer", IMAGES["installer"], "iso", "baremetal")
    people.image("other", IMAGES["other"], "iso", "baremetal")
    people.flavor("metal", VCPUS, 1024, 100, **METAL)
    rack.between.breaks = {f"{uuid_of(LARGE)}/Actions/ComputerSystem.Reset": 500}
    try:
        uuid = people.launch("metal-1", "installer", "metal")
    finally:
        rack.between.breaks = {}
    assert cloud.server(uuid)["OS-EXT-SRV-ATTR:host"] == "rack-9"
    # The host that failed has given back what it took: the machine, and the port, which is at the other one.
    assert (rack.state(LARGE)["power_state"], rack.media(LARGE)) == ("Off", {})
    (port,) = cloud.call("GET", f"/network/v2.0/ports?device_id={uuid}", user="admin").json["ports"]
    assert port["binding:host_id"] == "rack-9"
    assert cloud.rows("api", "select count(*) from placement_allocation where amount > 0") == [(1,)]
    assert (rack.state(SPARE)["power_state"], set(rack.media(SPARE))) == ("On", {"Cd", "Floppy"})
    people.act(uuid, {"os-stop": None}, "SHUTOFF")
    assert rack.state(SPARE)["power_state"] == "Off"
    people.act(uuid, {"os-start": None}, "ACTIVE")
    assert (rack.state(SPARE)["power_state"], "Cd" in rack.media(SPARE)) == ("On", False)
    assert people.say("console log show metal-1").strip() == ""
    people.say("server rebuild --image other metal-1 --wait")
    assert rack.state(SPARE)["power_state"] == "On"
    assert "Cd" in rack.media(SPARE)
    rack.between.erased.clear()
    people.say("server delete --wait metal-1")
    assert (rack.state(SPARE)["power_state"], rack.media(SPARE)) == ("Off", {})
    assert len(rack.between.erased) == 2
    cloud.wait_until_clean()


def test_a_container_is_launched_limited_resized_copied_and_deleted(people: People, run_dir: Path) -> None:
    cloud = people.cloud
    people.image("busybox", ROOT, "raw", "lxc")
    people.flavor("small-box", 1, 64, 1)
    people.flavor("large-box", 2, 128, 2)
    uuid = people.launch("box", "busybox", "small-box")
    state_dir = next(folder for folder in cloud.data_dir.parent.iterdir() if folder.name == "boxes")
    runtime = Runtime("runc", paths(state_dir, run_dir).runtime_dir)

    def inside(script: str) -> str:
        done = runtime.run_inside(uuid, "/bin/sh", "-c", script)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    assert inside("hostname") == "box"
    (address,) = cloud.server(uuid)["addresses"]["private"]
    assert f"inet {address['addr']}/" in inside("ip address show eth0")
    wait_until(
        "its first words", lambda: BANNER.decode().strip() in people.say("console log show box"), SECONDS, pause=1.0
    )
    assert bounds(uuid) == {"memory": 64 << 20, "processors": 1.0}
    blocks = int(inside("df / | sed 1d").split()[1])
    inside("echo kept > /etc/mark")
    people.act(uuid, {"os-stop": None}, "SHUTOFF")
    people.act(uuid, {"os-start": None}, "ACTIVE")
    people.act(uuid, {"pause": None}, "PAUSED")
    people.act(uuid, {"unpause": None}, "ACTIVE")
    people.say("server resize --flavor large-box --wait box")
    people.act(uuid, {"confirmResize": None}, "ACTIVE")
    assert bounds(uuid) == {"memory": 128 << 20, "processors": 2.0}
    assert int(inside("df / | sed 1d").split()[1]) > 1.5 * blocks
    assert inside("cat /etc/mark") == "kept"
    people.say("server image create --name box-copy --wait box")
    (copy,) = cloud.call("GET", "/image/v2/images?name=box-copy").json["images"]
    assert (copy["status"], copy["disk_format"], copy["size"] > 100_000) == ("active", "raw", True)
    people.say("server delete --wait box")
    assert runtime.states() == {}
    wait_until("its bounds to go", lambda: cgroups_of(uuid) == [], pause=0.1)
    assert list(state_dir.rglob(f"*{uuid}*")) == []
    cloud.wait_until_clean()


def cgroups_of(uuid: str) -> list[Path]:
    return [path for depth in ("", "*/") for path in Path("/sys/fs/cgroup").glob(f"{depth}novella/{uuid}")]


def bounds(uuid: str) -> dict[str, float]:
    """Return the kernel's limits of the container, with cgroups of either version."""
    found: dict[str, float] = {}
    for folder in cgroups_of(uuid):
        given = {path.name: path.read_text().split() for path in folder.iterdir() if path.name in KNOBS}
        if "memory.max" in given or "memory.limit_in_bytes" in given:
            found["memory"] = int((given.get("memory.max") or given["memory.limit_in_bytes"])[0])
        if "cpu.max" in given:
            found["processors"] = int(given["cpu.max"][0]) / int(given["cpu.max"][1])
        elif "cpu.cfs_quota_us" in given:
            found["processors"] = int(given["cpu.cfs_quota_us"][0]) / int(given["cpu.cfs_period_us"][0])
    return found


KNOBS = frozenset({"memory.max", "memory.limit_in_bytes", "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"})
