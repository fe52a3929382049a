"""Draws the screens of the documentation: `make pictures`. Not part of the suite, which leaves the tree as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import pytest
from django.test import Client

from conductor.cell_db.models import ComputeNode, Service
from conductor.journal.models import WorkflowRun
from conductor.placement.allocations import Claim, claim
from conductor.rpc.versions import SERVICE_VERSION
from conductor.services.operations import announcements
from conductor.services.quotas import requests
from conductor.services.servers import flavors
from tests import factories
from tests.browser.conftest import DESKTOP, PHONE, OpenPage, wait_until_live
from tests.fleet import add_host, silence
from tests.people import PASSWORD
from tests.waiting import wait_until

SCREENS = Path(__file__).parents[2] / "docs" / "reference" / "screens"
IS_DRAWN = "document.fonts.status === 'loaded' && document.querySelectorAll('.htmx-request').length === 0"
SIZE = {"width": 1280, "height": 720}
LARGEST = 300_000
LARGEST_SCREEN = 150_000
QUALITY = 55  # of a JPEG: the letters stay sharp, and all screens together take a few megabytes
SIZES = {"desk": DESKTOP, "phone": PHONE}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
# Each screen of the tour: its user, and its address, with ids of resources in `shop`.
TOUR: dict[str, tuple[str, str]] = {
    "sign-in": ("", "/sign-in"),
    "home": ("ana", "/"),
    "servers": ("ana", "/servers"),
    "launch": ("ana", "/servers/launch?name=web-9&count=2"),
    "server": ("ana", "/servers/{server}"),
    "console": ("ana", "/servers/{server}/console"),
    "failed-server": ("ana", "/servers/{failed}"),
    "workflows": ("ana", "/workflows"),
    "timeline": ("ana", "/workflows/{run}"),
    "graph": ("ana", "/workflows/{run}/graph"),
    "steps": ("ana", "/workflows/{run}/steps"),
    "placement": ("admin", "/workflows/{run}/placement"),
    "decision": ("ana", "/decisions/{decision}"),
    "locks": ("admin", "/workflows/{run}/locks"),
    "log": ("ana", "/workflows/{run}/logs"),
    "events": ("ana", "/workflows/{run}/events"),
    "not-clean": ("admin", "/workflows/{broken}"),
    "images": ("ana", "/images"),
    "volumes": ("ana", "/volumes"),
    "networks": ("ana", "/networks"),
    "topology": ("ana", "/networks/topology"),
    "security-groups": ("ana", "/security-groups"),
    "server-groups": ("ana", "/server-groups"),
    "quotas": ("ana", "/quotas"),
    "usage": ("ana", "/usage"),
    "notifications": ("ana", "/notifications"),
    "profile": ("ana", "/profile"),
    "fleet": ("admin", "/fleet"),
    "hosts": ("admin", "/hosts"),
    "host": ("admin", "/hosts/sim-2"),
    "drain": ("admin", "/hosts/sim-2/drain"),
    "cells": ("admin", "/cells"),
    "triage": ("admin", "/triage"),
    "what-if": ("admin", "/what-if?decision={decision}"),
    "plugins": ("admin", "/plugins"),
    "plugin": ("admin", "/plugins/filter/of/IoOpsFilter"),
    "audit": ("admin", "/audit"),
    "system": ("admin", "/system"),
    "project-quotas": ("admin", "/project-quotas"),
    "quota-requests": ("admin", "/quota-requests"),
}


@pytest.fixture
def ids(open_page: OpenPage, people: Any, settings: Any) -> dict[str, str]:
    """A small cloud in use: what the tour's addresses name."""
    settings.NOVELLA_HOST_DOWN_SECONDS = 1800.0  # no heartbeats here, however long the browser takes
    ana, admin = people.ana.context(), people.admin.context()
    flavors.seed()
    factories.image("simulated-linux", admin, is_simulated=True)
    factories.network("private", admin)
    make_fleet(ana)
    made = [
        factories.instance(
            ana,
            f"web-{number + 1}",
            age=3600 * (number + 1),
            host=f"sim-{number % 3 + 1}",
            availability_zone=f"az-{number % 3 + 1}",
            addresses=[factories.address(f"10.64.0.{20 + number}")],
        )
        for number in range(4)
    ]
    factories.instance(ana, "db-1", age=200_000, vm_state="stopped", addresses=[factories.address("10.64.0.9")])
    failed = factories.instance(ana, "db-2", age=300, vm_state="error", host=None, launched_at=None)
    factories.fault(failed, "No valid host was found. 17 of 17 hosts: not enough memory", "cell1")
    factories.console(made[0], "[    0.00] Linux version 6.12\n[    1.84] eth0: 10.64.0.20\n\nweb-1 login: ")
    announcements.announce(
        admin, {"title": "Cell 2 rests on Sunday", "text": "Its servers go on.", "severity": "warning"}
    )
    requests.ask(ana, {"cores": 300}, "the autumn sale")
    make_things()
    broken = given_up(ana)
    child = rescheduled(ana)
    parent = WorkflowRun.objects.get(uuid=child.parent_uuid)
    factories.decision(parent, **factories.some_decision())
    emit_events(child)
    names = {"server": made[0].uuid, "failed": failed.uuid, "run": child.uuid, "broken": broken.uuid}
    names["decision"] = factories.failed_decision(broken).uuid
    factories.builds(ana, ["batch-7"])
    return {name: str(uuid) for name, uuid in names.items()}


def make_fleet(caller: Any) -> None:
    """Create nine hosts in two cells, of increasing usage, the last of them down."""
    for number in range(9):
        cell, zone = f"cell{number % 2 + 1}", f"az-{number % 3 + 1}"
        provider = add_host(f"sim-{number + 1}", cell, zone=zone, size=(16, 32_768, 400))
        Service.objects.using(cell).filter(host=f"sim-{number + 1}").update(availability_zone=zone)
        taken = {"VCPU": 2 * number, "MEMORY_MB": 3000 * number, "DISK_GB": 20 * number}
        if number:
            claim(Claim(str(uuid4()), provider, taken, caller.project_id, caller.user_id))
        # As in its report: other projects have servers too.
        ComputeNode.objects.using(cell).filter(host=f"sim-{number + 1}").update(running_guests=2 * number + 1)
    silence("sim-9")
    for cell in ("cell0", "cell1", "cell2"):
        values = {"host": "conductor-1", "version": SERVICE_VERSION, "last_seen_at": factories.ago(0)}
        Service.objects.using(cell).create(binary="nova-conductor", created_at=factories.ago(900), **values)


def make_things() -> None:
    """Create a project's resources other than servers, through the forms."""
    ana = Client()
    ana.post("/sign-in", {"username": "ana", "password": PASSWORD})
    for path, values in (
        ("/volumes/do/create", {"name": "db-data", "size": "20"}),
        ("/volumes/do/create", {"name": "logs", "size": "5"}),
        ("/networks/do/create", {"name": "shop-net", "subnet": "10.70.0.0/24", "cidr": "10.70.0.0/24"}),
        ("/security-groups/do/create", {"name": "web"}),
        ("/server-groups/do/create", {"name": "apart", "policy": "anti-affinity"}),
    ):
        answer = ana.post(path, values)
        assert answer.status_code in (200, 302), (path, answer.content)


def emit_events(child: WorkflowRun) -> None:
    """Write the log of a run so far."""
    for kind, data in (
        ("run.started", {}),
        ("step.started", {"step": "SpawnOnHost", "attempt": 1, "host": "sim-1"}),
        ("step.progress", {"step": "SpawnOnHost", "progress": {"message": "copying the image", "share": 0.4}}),
        ("step.failed", {"step": "SpawnOnHost", "error": {"class": "DriverError", "message": "no memory"}}),
        ("step.started", {"step": "SpawnOnHost", "attempt": 2, "host": "sim-2"}),
    ):
        factories.emit(child, kind, **data)


def test_draw(open_page: OpenPage, ids: dict[str, str]) -> None:
    """The pictures of the README and of docs/reference/portal.md."""
    page = open_page("ana", viewport=SIZE)
    page.goto("/servers")
    wait_until_live(page)
    shoot(page, "servers")
    page.goto(f"/workflows/{ids['run']}")
    wait_until_live(page)
    shoot(page, "workflow")
    page.goto(f"/decisions/{ids['decision']}")
    shoot(page, "decision")
    phone = open_page("ana", viewport=PHONE, color_scheme="dark")
    phone.goto("/servers")
    wait_until_live(phone)
    shoot(phone, "phone")


def test_draw_the_tour(open_page: OpenPage, ids: dict[str, str]) -> None:
    """Each screen on a desktop and on a phone, in the light and in the dark theme, and a page with all of them."""
    (SCREENS / "tour").mkdir(parents=True, exist_ok=True)
    for kind, size in SIZES.items():
        pages = {who: open_page(who, reduced_motion="reduce", viewport=size) for who in ("", "ana", "admin")}
        for name, (who, address) in TOUR.items():
            pages[who].emulate_media(color_scheme="light")
            answer = pages[who].goto(address.format(**ids))
            assert answer is not None
            assert answer.status == 200, address
            wait_until("the page is drawn", lambda page=pages[who]: page.evaluate(IS_DRAWN))  # type: ignore[misc]
            for scheme in SCHEMES:
                pages[who].emulate_media(color_scheme=scheme)
                path = SCREENS / "tour" / f"{name}-{kind}-{scheme}.jpg"
                pages[who].screenshot(path=path, type="jpeg", quality=QUALITY, animations="disabled")
                assert path.stat().st_size < LARGEST_SCREEN, name
    lines = [
        "# Screens",
        "",
        "This page shows all screens, as `make pictures` draws them of a cloud: wide and phone, light and dark.",
        "",
    ]
    for name, (who, address) in TOUR.items():
        address = address.partition("?")[0].format(**dict.fromkeys(ids, "ID"))
        seen_by = "for administrators" if who == "admin" else ""
        lines += [f"## {name.replace('-', ' ').capitalize()}", "", f"`{address}` {seen_by}".strip(), ""]
        looks = [(kind, scheme) for kind in SIZES for scheme in SCHEMES]
        lines += [" ".join(f"![{name}, {kind}, {scheme}](tour/{name}-{kind}-{scheme}.jpg)" for kind, scheme in looks)]
        lines += [""]
    (SCREENS / "index.md").write_text("\n".join(lines))


def rescheduled(caller: Any) -> Any:
    """Return a build whose first host failed and whose second is at work."""
    error = {"class": "DriverError", "message": "The host ran out of memory while the guest started"}
    error |= {"step": "SpawnOnHost", "attempt": 1, "is_reschedulable": True}
    _, child = factories.build(caller, "cache-1", age=18)
    child.steps.all().delete()
    for index, (begun, ended) in enumerate(((16.8, 16.4), (16.4, 15.2))):
        factories.step(child, index, begun, ended)
    factories.step(child, 2, 15.2, 9.8, host="sim-1", state="failed", error=error)
    for index, (begun, ended) in ((2, (9.8, 8.9)), (1, (8.9, 8.3)), (0, (8.3, 8.1))):
        host = "sim-1" if index == 2 else ""
        factories.step(child, index, begun, ended, direction="undo", state="undone", host=host)
    for index, (begun, ended) in enumerate(((8.0, 7.7), (7.7, 6.8))):
        factories.step(child, index, begun, ended, attempt=2)
    factories.step(child, 2, 6.8, None, attempt=2, host="sim-2", state="waiting")
    type(child).objects.using("cell1").filter(pk=child.pk).update(attempt=2)
    return child


def given_up(caller: Any) -> WorkflowRun:
    """Return a build that failed, and whose undo failed too."""
    error = {"class": "DriverError", "message": "The guest could not be started: no device is left"}
    error |= {"step": "SpawnOnHost", "attempt": 1}
    kept = {"class": "DriverError", "message": "The host does not answer"}
    broken = factories.run(
        caller, "cell1", state="failed (not clean)", instance_name="web-7", uncompensated=["a guest on sim-1"],
        error=error, owner=None, age=900, finished_at=factories.ago(882),
    )  # fmt: skip
    for index, (begun, ended) in enumerate(((899.8, 899.4), (899.4, 898.1))):
        factories.step(broken, index, begun, ended)
    factories.step(broken, 2, 898.1, 893.5, host="sim-1", state="failed", error=error)
    undo = {"direction": "undo", "host": "sim-1", "error": kept}
    factories.step(broken, 2, 893.5, 882.5, state="undo failed", **undo)
    return broken


def shoot(page: Any, name: str) -> None:
    SCREENS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENS / f"{name}.png", animations="disabled", full_page=name == "workflow")
    assert (SCREENS / f"{name}.png").stat().st_size < LARGEST
