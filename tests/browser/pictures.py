"""Draws the pictures of the documentation: `make pictures`. Not part of the suite, which leaves the tree as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests import factories
from tests.browser.conftest import PHONE, OpenPage, wait_until_live

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SIZE = {"width": 1280, "height": 720}
LARGEST = 300_000


def test_draw(open_page: OpenPage, people: Any) -> None:
    asker = people.ana.context()
    for number, zone in enumerate(("az-1", "az-2", "az-3")):
        factories.host(f"sim-{number + 1}", zone=zone)
    for number in range(4):
        factories.instance(
            asker,
            f"web-{number + 1}",
            age=3600 * (number + 1),
            host=f"sim-{number % 3 + 1}",
            availability_zone=f"az-{number % 3 + 1}",
            addresses=[factories.address(f"10.64.0.{20 + number}")],
        )
    factories.instance(asker, "db-1", age=200_000, vm_state="stopped", addresses=[factories.address("10.64.0.9")])
    failed = factories.instance(asker, "db-2", age=300, vm_state="error", host=None, launched_at=None)
    factories.fault(failed, "No valid host was found. 17 of 17 hosts: not enough memory", "cell1")
    page = open_page("ana", viewport=SIZE)
    factories.builds(asker, ["batch-7"])
    page.goto("/servers")
    wait_until_live(page)
    shoot(page, "servers")
    child = rescheduled(asker)
    page.goto(f"/workflows/{child.uuid}")
    wait_until_live(page)
    shoot(page, "workflow")
    page.goto(f"/decisions/{factories.failed_decision(child).uuid}")
    shoot(page, "decision")
    phone = open_page("ana", viewport=PHONE, color_scheme="dark")
    phone.goto("/servers")
    wait_until_live(phone)
    shoot(phone, "phone")


def rescheduled(asker: Any) -> Any:
    """A build whose first host failed and whose second is at work."""
    error = {"class": "DriverError", "message": "The host ran out of memory while the guest started"}
    error |= {"step": "SpawnOnHost", "attempt": 1, "is_reschedulable": True}
    _, child = factories.build(asker, "cache-1", age=18)
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


def shoot(page: Any, name: str) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=IMAGES / f"{name}.png", animations="disabled", full_page=name == "workflow")
    assert (IMAGES / f"{name}.png").stat().st_size < LARGEST
