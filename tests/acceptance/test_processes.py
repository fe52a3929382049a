"""Separate processes: their services, events between pages, hosts' data, and how each process ends."""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import signal
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from conductor.rpc import envelope
from tests.acceptance.broker_thief import BrokerThief
from tests.acceptance.deployment import Deployment
from tests.acceptance.nursery import Nursery, inherited_environment
from tests.waiting import wait_until

SECONDS = 120.0


@pytest.fixture(scope="module", params=["redis", "rabbitmq"])
def cloud(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, nursery: Nursery
) -> Iterator[Deployment]:
    """A cloud with each broker. With Redis, events use the channel layer; with RabbitMQ, web processes poll the log."""
    hosts = {"cell1": ["h1"], "cell2": ["h2"]}
    folder = tmp_path_factory.mktemp(request.param)
    with Deployment(folder, broker=request.param, hosts=hosts, nursery=nursery) as made:
        yield made


def sign_in(cloud: Deployment, web: int) -> str:
    """Return the cookies of demo's session, got as a browser does."""
    url = f"{cloud.api(web).url}/sign-in"
    jar = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    page = browser.open(url).read().decode()
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert found is not None
    password = json.loads((cloud.data_dir / "passwords.json").read_text())["demo"]
    form = {"csrfmiddlewaretoken": found[1], "username": "demo", "password": password, "next": "/"}
    browser.open(url, urllib.parse.urlencode(form).encode()).read()
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar)


@contextmanager
def open_page(cloud: Deployment, web: int) -> Iterator[ClientConnection]:
    """Open a socket that follows demo's list of servers."""
    url = cloud.api(web).url
    headers = {"Cookie": sign_in(cloud, web)}
    with connect(f"ws{url.removeprefix('http')}/live", additional_headers=headers, origin=url) as page:  # type: ignore[arg-type]
        page.send(json.dumps({"subscribe": "servers", "view": "list"}))
        assert json.loads(page.recv(timeout=SECONDS))["kind"] == "current"
        yield page


def test_every_page_gets_events_of_every_process(cloud: Deployment) -> None:
    """Launch through one web process; pages of both web processes get the events of the conductors."""
    with open_page(cloud, 0) as first, open_page(cloud, 1) as second:
        uuid = cloud.api(0).launch("live-1").json["server"]["id"]
        for page in (first, second):
            wait_until(f"{uuid} active on the page", lambda page=page: "active" in shown(page, uuid))
    assert cloud.api(1).call("DELETE", f"/compute/v2.1/servers/{uuid}").status == 204
    cloud.api(0).wait_until_gone(uuid)


def shown(page: ClientConnection, uuid: str) -> str:
    """Return the text of the server's row in the next message; empty for a message about something else."""
    data = json.loads(page.recv(timeout=SECONDS))
    return "".join(str(row["html"]).lower() for row in data.get("rows", ()) if row["id"] == f"server-{uuid}")


def test_conductors_and_hosts_are_listed(cloud: Deployment) -> None:
    def seen() -> dict[str, str]:
        services = cloud.api(1).call("GET", "/compute/v2.1/os-services", user="admin").json["services"]
        return {f"{one['binary']} {one['host']}": f"{one['zone']} {one['state']}" for one in services}

    conductors = ["api-1", "api-2", "cell1-1", "cell1-2", "cell2-1", "cell2-2"]
    wanted = {f"nova-conductor {name}": "internal up" for name in conductors}
    wanted |= {"nova-compute h1": "az-1 up", "nova-compute h2": "az-1 up"}
    wait_until("all are listed", lambda: seen() == wanted, details=seen)


def test_a_compute_process_opens_no_database(cloud: Deployment) -> None:
    uuid = cloud.api(0).launch("held-1").json["server"]["id"]
    cloud.api(0).wait_for_status(uuid, "ACTIVE")
    assert cloud.database.port in ports_of(cloud, "cell1")
    for number in (0, 1):
        assert cloud.database.port not in ports_of(cloud, "host", number)
        names = [name for name in open_files(cloud, "host", number) if ".sqlite3" in name]
        assert names
        assert all(name.startswith(str(cloud.data_dir / "agents")) for name in names), names
    assert cloud.api(0).call("DELETE", f"/compute/v2.1/servers/{uuid}").status == 204
    cloud.api(0).wait_until_gone(uuid)


def open_files(cloud: Deployment, role: str, index: int = 0) -> list[str]:
    child = cloud.of(role)[index].child
    assert child is not None
    folder = Path(f"/proc/{child.pid}/fd")
    return [os.readlink(path) for path in folder.iterdir() if path.is_symlink() and path.exists()]


def ports_of(cloud: Deployment, role: str, index: int = 0) -> set[int]:
    """Return the remote ports of a process's TCP connections, from the kernel's table of sockets."""
    own = {name.removeprefix("socket:[").rstrip("]") for name in open_files(cloud, role, index)}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(line[2].rpartition(":")[2], 16) for line in lines if line[9] in own}


def test_one_process_for_all_is_refused_beside_them(cloud: Deployment, nursery: Nursery, tmp_path: Path) -> None:
    output = refusal(nursery, ["up"], cloud.environment(cloud.members[0]), tmp_path / "output")
    assert output.startswith("CommandError: NOVELLA_DATA: another Novella runs on ")


WEB, CONDUCTOR, HOST = ["web", "--port", "1"], ["conductor"], ["compute", "--host=h", "--cell=c", "--driver=fake"]


@pytest.mark.parametrize(
    ("missing", "command"),
    [
        ("NOVELLA_BROKER_URL", WEB),
        ("NOVELLA_BROKER_URL", CONDUCTOR),
        ("NOVELLA_BROKER_URL", HOST),
        ("NOVELLA_DATABASE_URL", WEB),
        ("NOVELLA_DATABASE_URL", CONDUCTOR),
    ],
)
def test_without_a_broker_and_a_database_server_no_process_can_be_apart(
    missing: str, command: list[str], nursery: Nursery, tmp_path: Path
) -> None:
    own = {
        "NOVELLA_DATA": str(tmp_path / "var"),
        "NOVELLA_REAL_HOST": "off",
        "NOVELLA_BROKER_URL": "redis://127.0.0.1:1",
    }
    log = tmp_path / "refused.log"
    refused = refusal(nursery, command, inherited_environment() | own | {missing: ""}, log)
    assert refused.startswith(f"CommandError: {missing}: not set")
    assert not (tmp_path / "var" / "api.sqlite3").exists()


def refusal(nursery: Nursery, command: list[str], environment: dict[str, str], log: Path) -> str:
    """Return the one line with which a command does not start."""
    assert nursery.spawn(command, environment, log).wait(SECONDS) == 1, log.read_text()
    (line,) = log.read_text().splitlines()
    return line


def test_a_host_works_with_an_account_that_reaches_no_other_hosts_queue(cloud: Deployment) -> None:
    """A stolen account of `broker_accounts` reads nothing of other hosts, and what it writes changes nothing."""
    client = cloud.api(0)
    token = cloud.manage("hosts", "enroll", "h2", "--cell", "cell2", "--token").split()[-1]
    url = cloud.make_broker_account("h2")
    assert cloud.kill("host", 1, signal.SIGTERM) == 0
    cloud.manage("hosts", "redeem", "--url", client.url, "--token", token)
    cloud.restart("host", 1, NOVELLA_BROKER_URL=url)
    seen = heard_at(cloud, "h2")
    uuid = client.launch("own-account").json["server"]["id"]
    client.wait_for_status(uuid, "ACTIVE")
    wait_until("h2 is heard with its own account", lambda: heard_at(cloud, "h2") > seen)
    thief = BrokerThief(url)
    for queue in ("compute.h1", "conductor.cell1", "conductor.cell2", "conductor"):
        assert thief.is_kept_from_reading(queue), queue
    before = cloud.guests(), cloud.rows("cell1", CONSOLE_ADDRESSES), cloud.rows("cell2", CONSOLE_ADDRESSES)
    for host, cell in (("h1", "cell1"), ("h2", "cell2")):
        for guest in cloud.guests():
            thief.write(f"compute.{host}", "compute_message", forged_destroy(host, cell, guest))
        thief.write(f"conductor.{cell}", "conductor_message", forged_announcement(host, cell))
    wait_until("the agent refused", lambda: "commands refused: " in cloud.of("host")[1].log_path.read_text())
    wait_until("it is on record", lambda: "host:h2" in refused_senders(cloud))
    assert (cloud.guests(), cloud.rows("cell1", CONSOLE_ADDRESSES), cloud.rows("cell2", CONSOLE_ADDRESSES)) == before
    assert client.call("DELETE", f"/compute/v2.1/servers/{uuid}").status == 204
    client.wait_until_gone(uuid)
    assert cloud.kill("host", 1, signal.SIGTERM) == 0
    cloud.restart("host", 1)


CONSOLE_ADDRESSES = "select host, address, tcp_port from cell_db_consoleaddress order by host"


def heard_at(cloud: Deployment, host: str) -> str:
    services = cloud.api(0).call("GET", "/compute/v2.1/os-services", user="admin").json["services"]
    (seen,) = [str(one["updated_at"]) for one in services if one["host"] == host]
    return seen


def forged_destroy(host: str, cell: str, guest: str) -> dict[str, Any]:
    """Return a command as the product would send it, but without a signature."""
    command = {"step_key": "forged", "fencing_token": 10**9, "run_uuid": guest, "cell": cell, "host": host}
    return {"message": "destroy_instance", "version": "1.0", "body": {**command, "instance_uuid": guest}}


def forged_announcement(host: str, cell: str) -> dict[str, Any]:
    """Return a console port for another host's guests, signed with a key that was never enrolled."""
    announcement = {"host": host, "address": "192.0.2.66", "tcp_port": 66, "fingerprint": "f" * 64, "key": "k" * 43}
    body = {"cell": cell, "message": "consoles_offered", "version": "1.0", "body": announcement}
    signer = envelope.signer(envelope.host_sender(host), envelope.SigningKey.new())
    return signer.seal("consoles_offered", f"conductor.{cell}", body)


def refused_senders(cloud: Deployment) -> set[str]:
    """Return the senders that refused messages claimed, as far as the audit log has them."""
    query = "/api/audit?action=message.refuse"
    records = cloud.api(0).call("GET", query, user="admin").json["records"]
    return {row["sender"] for record in records for row in record["details"]["refusals"]}


def test_every_process_ends_cleanly_and_another_goes_on(cloud: Deployment) -> None:
    """Last: one of each role is ended in the middle of work, and none of it waits for a lease."""
    client = cloud.api(1)
    uuids = [client.launch(f"end-{number}").json["server"]["id"] for number in range(6)]
    for role in ("web", "api", "cell1", "cell2"):
        assert cloud.kill(role, 0, signal.SIGTERM) == 0, cloud.log_tail()
    for uuid in uuids:
        client.wait_for_status(uuid, "ACTIVE")
        assert client.call("DELETE", f"/compute/v2.1/servers/{uuid}").status == 204
    cloud.wait_until_clean()
    for number in (0, 1):
        assert cloud.kill("host", number, signal.SIGTERM) == 0, cloud.log_tail()
    for member in cloud.members:
        text = member.log_path.read_text()
        assert "Traceback" not in text, member.log_tail()
