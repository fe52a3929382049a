"""Audit of accepted actions on servers: each action that the Compute API offers leaves one record, and so do disks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conductor.cell_db.models import Service
from conductor.cells.lookup import journal_aliases
from conductor.image import seed as image_seed
from conductor.image.models import Image
from conductor.journal.models import AuditRecord
from conductor.network.models import Network
from portal.api.compute.views import consoles
from portal.api.compute.views.server_actions import OFFERED
from tests.api.network.calls import V2, make, make_network
from tests.compute_rows import seed_cloud
from tests.fleet import silence
from tests.integration.flows.moving import CELL, instance_of, run_to_the_end
from tests.integration.flows.storing import StorageHosts

SERVERS = "/compute/v2.1/servers"
VOLUMES = "/volume/v3/volumes"
# They answer a question or open a console (which is audited as such), and the last one was removed.
CHANGE_NOTHING = {"os-getConsoleOutput", "resetNetwork", *consoles.OFFERED}
PASSWORD = "correct-horse-battery"
Act = Callable[..., None]


class ObedientHosts(StorageHosts):
    """Hosts that execute every command and remember nothing."""

    def __getattr__(self, name: str) -> Callable[[str, Any], None]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda host, body: None


@pytest.fixture
def hosts(people: Any, settings: Any, tmp_path: Any) -> ObedientHosts:
    settings.NOVELLA_IMAGE_DIR = tmp_path / "images"
    settings.NOVELLA_DATA = tmp_path
    settings.NOVELLA_RECLAIM_SECONDS, settings.NOVELLA_SHELVED_OFFLOAD_SECONDS = 3600, -1
    image_seed.seed(people.admin.context().project_id, None)
    seed_cloud(people, "sim-1", "sim-2", "sim-3")
    return ObedientHosts()


@pytest.fixture
def web(hosts: ObedientHosts, api_client: Any) -> str:
    wanted = {
        "name": "web",
        "flavorRef": "1",
        "imageRef": str(Image.objects.get(name="simulated-linux").uuid),
        "networks": [{"uuid": str(Network.objects.get(name="private").uuid)}],
    }
    answer = api_client("ana", version="2.90").post(SERVERS, {"server": wanted})
    assert answer.status_code == 202, answer.content
    run_to_the_end(hosts)
    uuid: str = answer.json()["server"]["id"]
    return uuid


def on_record(uuid: str) -> list[AuditRecord]:
    return [row for alias in journal_aliases() for row in AuditRecord.objects.using(alias).filter(instance_uuid=uuid)]


@pytest.fixture
def call(web: str, hosts: ObedientHosts, api_client: Any) -> Iterator[Act]:
    """`call(method, path, body)` is accepted and leaves one record of its caller."""

    def called(method: str, path: str, body: Any = None, *, who: str = "ana", version: str = "2.90") -> None:
        before = {row.uuid for row in on_record(web)}
        answer = api_client(who, version=version).call(method, path, *([] if body is None else [body]))
        assert answer.status_code in (200, 202, 204), (path, body, answer.content)
        (made,) = [row for row in on_record(web) if row.uuid not in before]
        owner = instance_of(web).project_id
        assert made.action.startswith("server."), (path, body, made.action)
        assert (made.result, made.user_name, made.project_id, bool(made.signature)) == ("done", who, owner, True)
        assert PASSWORD not in str(vars(made))
        run_to_the_end(hosts)

    return called


def walk(web: str, addresses: tuple[str, str]) -> Iterator[tuple[str, Any, dict[str, str]]]:
    """Yield each action with its body, in an order in which every one is accepted."""
    admin, old = {"who": "admin"}, {"version": "2.43"}
    image = str(Image.objects.get(name="simulated-linux").uuid)
    for name in ("os-stop", "os-start", "pause", "unpause", "suspend", "resume", "lock", "unlock"):
        yield name, None, {}
    yield "trigger_crash_dump", None, {}
    for kind in ("SOFT", "HARD"):
        yield "reboot", {"type": kind}, {}
    yield "changePassword", {"adminPass": PASSWORD}, {}
    yield "rescue", {"adminPass": PASSWORD}, {}
    yield "unrescue", None, {}
    yield "rebuild", {"imageRef": image, "adminPass": PASSWORD}, {}
    yield "createImage", {"name": "gold"}, {}
    yield "createBackup", {"name": "nightly", "backup_type": "daily", "rotation": 1}, {}
    yield "removeSecurityGroup", {"name": "default"}, {}
    yield "addSecurityGroup", {"name": "default"}, {}
    yield "addFloatingIp", {"address": addresses[0]}, old
    yield "removeFloatingIp", {"address": addresses[0]}, old
    yield "addFixedIp", {"networkId": addresses[1]}, old
    yield "removeFixedIp", {"address": instance_of(web).addresses[0]["ip_address"]}, old
    yield "injectNetworkInfo", None, admin
    yield "os-resetState", {"state": "active"}, admin
    yield "shelve", None, {}
    yield "unshelve", None, {}
    yield "shelve", None, {}
    yield "shelveOffload", None, admin
    yield "unshelve", None, {}
    for end in ("confirmResize", "revertResize"):
        yield "resize", {"flavorRef": "2" if end == "revertResize" else "3"}, {}
        yield end, None, {}
    yield "migrate", None, admin
    yield "confirmResize", None, {}
    yield "os-migrateLive", {"host": None, "block_migration": "auto"}, admin
    home = instance_of(web).host
    assert home is not None
    silence(home)
    Service.objects.using(CELL).filter(host=home).update(is_forced_down=True)
    yield "evacuate", {}, admin


def test_every_action_of_a_server_that_is_accepted_is_on_record(
    web: str, hosts: ObedientHosts, call: Act, api_client: Any
) -> None:
    outside, _ = make_network(api_client("admin"), "192.0.2.0/26", **{"router:external": True})
    ana = api_client("ana")
    inner = Network.objects.get(name="private")
    router = make(ana, "routers", external_gateway_info={"network_id": outside})["id"]
    subnet = {"subnet_id": str(inner.subnets.get().uuid)}
    assert api_client("admin").put(f"{V2}/routers/{router}/add_router_interface", subnet).status_code == 200
    address = make(ana, "floatingips", floating_network_id=outside)["floating_ip_address"]
    tried = set()
    for name, body, how in walk(web, (address, str(inner.uuid))):
        call("POST", f"{SERVERS}/{web}/action", {name: body}, **how)
        tried.add(name)
    call("DELETE", f"{SERVERS}/{web}")
    for name in ("restore", "forceDelete"):
        call("POST", f"{SERVERS}/{web}/action", {name: None})
        tried.add(name)
    assert tried | CHANGE_NOTHING == set(OFFERED), "walk through new actions too"


def test_attaching_and_detaching_volumes_and_ports_is_audited(
    web: str, hosts: ObedientHosts, call: Act, api_client: Any
) -> None:
    ana = api_client("ana")
    volume = ana.post(VOLUMES, {"volume": {"size": 1}}).json()["volume"]["id"]
    run_to_the_end(hosts)
    call("PUT", f"{SERVERS}/{web}", {"server": {"name": "shop"}})
    call("POST", f"{SERVERS}/{web}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume}})
    call("DELETE", f"{SERVERS}/{web}/os-volume_attachments/{volume}")
    call("POST", f"{SERVERS}/{web}/os-interface", {"interfaceAttachment": {}})
    port = ana.get(f"{SERVERS}/{web}/os-interface").json()["interfaceAttachments"][-1]["port_id"]
    call("DELETE", f"{SERVERS}/{web}/os-interface/{port}")
