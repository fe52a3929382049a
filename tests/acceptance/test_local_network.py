"""A new user on a machine with OVN creates a floating IP and a rule, and opens a web page of the guest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import migrated
from tests.acceptance.cloud import PROJECT, Cloud
from tests.acceptance.real_server import Real
from tests.services.namespaces import NetworkNamespace
from tests.tiny_linux import copy_image
from tests.waiting import wait_until

SECONDS = 240.0
NETWORK = "/network/v2.0"
ON_OVN = "OVN; floating IPs answer here, at 198.18.0.1/20."


class Machine:
    """A network namespace as a machine, with clouds on it."""

    def __init__(self, namespace: NetworkNamespace) -> None:
        self.namespace = namespace

    def cloud(self, folder: Path, **variables: str) -> Cloud:
        migrated.copy_files(folder)
        copy_image(folder / "tiny-linux")
        cloud = Cloud(folder, None, NOVELLA_REAL_HOST="on", NOVELLA_SIMULATED_HOSTS="0", **variables)
        cloud.program = self.namespace.inside(sys.executable, PROJECT / "manage.py")
        return cloud

    def devices(self) -> list[str]:
        """Devices that Open vSwitch makes."""
        lines = self.namespace.ip("-brief", "link").splitlines()
        return sorted(line.split()[0] for line in lines if line.startswith(("br-", "ovs-")))


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """Machine whose namespace this thread has entered, so that it reaches the clouds at their loopback addresses."""
    namespace = NetworkNamespace.create()
    try:
        with namespace.entered():
            yield Machine(namespace)
    finally:
        namespace.delete()


@pytest.fixture(scope="module")
def cloud(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    made = machine.cloud(tmp_path_factory.mktemp("first") / "var", NOVELLA_LOCAL_NETWORK="ovn").start()
    yield made
    if not made.is_alive:
        made.start()
    for server in made.servers():
        made.call("DELETE", f"/compute/v2.1/servers/{server['id']}")
    wait_until("no servers", lambda: not made.servers())
    assert made.stop() == 0, made.log_tail()
    assert machine.devices() == []


@pytest.fixture(scope="module")
def web_1(cloud: Cloud) -> Real:
    answer = cloud.launch("web-1", image="tiny-linux")
    assert answer.status == 202, answer.raw
    server = Real(cloud, answer.json["server"]["id"])
    server.wait("ACTIVE")
    return server


@pytest.fixture(scope="module")
def address(cloud: Cloud, web_1: Real) -> str:
    """A floating IP of the server."""
    network, port = only(cloud, "networks?name=public"), only(cloud, f"ports?device_id={web_1.uuid}")
    wanted = {"floating_network_id": network["id"], "port_id": port["id"]}
    answer = cloud.call("POST", f"{NETWORK}/floatingips", {"floatingip": wanted})
    assert answer.status == 201, answer.raw
    return str(answer.json["floatingip"]["floating_ip_address"])


def only(cloud: Cloud, path: str) -> dict[str, Any]:
    (found,) = cloud.call("GET", f"{NETWORK}/{path}").json[path.partition("?")[0].replace("-", "_")]
    return dict(found)


def curl(address: str) -> subprocess.CompletedProcess[str]:
    words = ["curl", "--silent", "--show-error", "--max-time", "5", "--noproxy", "*", f"http://{address}/"]
    return subprocess.run(words, capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]})


def test_the_start_prints_which_network_its_host_has(cloud: Cloud, machine: Machine) -> None:
    assert ON_OVN in cloud.log_path.read_text()
    assert machine.devices() == ["br-int", "br-novella", "ovs-netdev"]


def test_a_page_of_the_guest_answers_from_outside_once_a_rule_allows_it(
    cloud: Cloud, web_1: Real, address: str
) -> None:
    assert web_1.has_booted()
    assert curl(address).returncode == 28, "no rule allows it yet: no packet comes back"
    group = only(cloud, "security-groups?name=default")
    rule = {"security_group_id": group["id"], "direction": "ingress", "protocol": "tcp"}
    ports = {"port_range_min": 80, "port_range_max": 80}
    assert cloud.call("POST", f"{NETWORK}/security-group-rules", {"security_group_rule": rule | ports}).status == 201
    page = answer_of(address)
    assert "web-1" in page
    assert web_1.line.number("cat /sys/class/net/eth0/mtu") == only(cloud, "networks?name=private")["mtu"]
    assert cloud.call("GET", f"{NETWORK}/ports?device_id={web_1.uuid}").json["ports"][0]["status"] == "ACTIVE"


def test_a_second_cloud_on_the_machine_has_the_user_network_and_prints_why(
    machine: Machine, cloud: Cloud, tmp_path: Path
) -> None:
    second = machine.cloud(tmp_path / "var", NOVELLA_LOCAL_NETWORK="auto").start()
    assert "QEMU's user network, not OVN: another Novella on this machine has it." in second.log_path.read_text()
    assert second.stop() == 0
    required = machine.cloud(tmp_path / "required", NOVELLA_LOCAL_NETWORK="ovn")
    with pytest.raises(AssertionError, match="NOVELLA_LOCAL_NETWORK: OVN cannot be started: another Novella"):
        required.start()


def test_after_a_kill_the_next_start_cleans_up_and_the_page_answers_again(
    cloud: Cloud, web_1: Real, address: str
) -> None:
    cloud.kill_9()
    assert "web-1" in answer_of(address), "the guest and its network go on without the cloud"
    cloud.start()
    assert cloud.server(web_1.uuid)["status"] == "ACTIVE"
    assert "web-1" in answer_of(address)


def test_an_interrupted_start_removes_its_network(tmp_path: Path) -> None:
    namespace = NetworkNamespace.create()
    machine = Machine(namespace)
    cloud = machine.cloud(tmp_path / "var", NOVELLA_LOCAL_NETWORK="ovn")
    try:
        with cloud.log_path.open("a") as log:
            process = subprocess.Popen([*cloud.program, "up"], env=cloud.environment(), stdout=log, stderr=log)
        wait_until("OVN runs", lambda: ON_OVN in cloud.log_path.read_text(), SECONDS, details=cloud.log_tail)
        process.terminate()
        assert process.wait(SECONDS) is not None
        assert machine.devices() == []
        assert not (cloud.data_dir / "ovn").exists()
    finally:
        namespace.delete()


def answer_of(address: str) -> str:
    """Return the page, once it is there."""
    page: str = wait_until(
        f"a page at {address}", lambda: curl(address).stdout, SECONDS, pause=0.5, details=lambda: curl(address).stderr
    )
    return page
