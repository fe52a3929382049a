"""What holds on every page: it fits a phone, has names for everything, and can be read in both themes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import factories
from tests.browser.conftest import DESKTOP, PHONE, OpenPage

CHECKS = (Path(__file__).parent / "checks.js").read_text()
PAGES: dict[str, Callable[[dict[str, str]], str]] = {
    "home": lambda ids: "/",
    "servers": lambda ids: "/servers",
    "servers filtered to none": lambda ids: "/servers?name=nothing",
    "launch": lambda ids: "/servers/launch",
    "server": lambda ids: f"/servers/{ids['server']}",
    "failed server": lambda ids: f"/servers/{ids['failed']}",
    "console": lambda ids: f"/servers/{ids['server']}/console",
    "activity": lambda ids: f"/servers/{ids['server']}/activity",
    "delete": lambda ids: f"/servers/delete?server={ids['server']}",
    "workflows": lambda ids: "/workflows",
    "timeline": lambda ids: f"/workflows/{ids['run']}",
    "steps": lambda ids: f"/workflows/{ids['run']}/steps",
    "placement": lambda ids: f"/workflows/{ids['run']}/placement",
    "decision": lambda ids: f"/decisions/{ids['decision']}?fleet=now",
    "locks": lambda ids: f"/workflows/{ids['run']}/locks",
    "events": lambda ids: f"/workflows/{ids['run']}/events",
    "hosts": lambda ids: "/hosts",
    "plugins": lambda ids: "/plugins",
    "filter": lambda ids: "/plugins/filter/of/IoOpsFilter",
    "project": lambda ids: "/project",
    "not found": lambda ids: "/nothing",
}


@pytest.fixture
def ids(people: Any) -> dict[str, str]:
    """A little of everything, all of it the administrator's."""
    asker = people.admin.context()
    factories.cells()
    factories.host("compute-with-a-rather-long-name-1.rack-7.example")
    factories.host("sim-2", "cell2", seen=900)
    factories.image("simulated-linux", asker, is_simulated=True)
    factories.network("private", asker)
    run, child = factories.build(asker, "a-server-with-a-long-name-that-does-not-fit-into-one-line-1")
    factories.tell(child, "step.started", step="SpawnOnHost", host="sim-1", attempt=2)
    factories.decision(run, **factories.some_decision())
    failed = factories.instance(asker, "web-2", vm_state="error", host=None, launched_at=None)
    factories.fault(failed, "No valid host was found. 12 of 17 hosts: image needs qemu, host runs fake", "cell1")
    factories.run(asker, "cell1", state="failed (not clean)", instance_name="web-3", leftovers=["a guest on sim-1"])
    factories.run(asker, state="queued", plan=[], started_at=None)
    decision = factories.failed_decision(run)
    return {
        "server": str(child.instance_uuid),
        "run": str(run.uuid),
        "failed": str(failed.uuid),
        "decision": str(decision.uuid),
    }


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_shows_it_without_sideways_scrolling(open_page: OpenPage, ids: dict[str, str], name: str) -> None:
    page = open_page("admin", viewport=PHONE, has_touch=True)
    page.goto(PAGES[name](ids))
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= PHONE["width"], page.evaluate(f"({CHECKS}).wide()")
    assert page.evaluate(f"({CHECKS}).smallTargets()") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_everything_has_a_name_and_can_be_read(
    open_page: OpenPage, ids: dict[str, str], name: str, scheme: Any
) -> None:
    page = open_page("admin", viewport=DESKTOP, color_scheme=scheme, reduced_motion="reduce")
    page.goto(PAGES[name](ids))
    assert page.evaluate(f"({CHECKS}).all()") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_sign_in_page_too(open_page: OpenPage, scheme: Any) -> None:
    page = open_page(color_scheme=scheme, viewport=PHONE)
    page.goto("/sign-in")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.evaluate(f"({CHECKS}).all()") == []


def test_twice_the_text_size_still_fits(open_page: OpenPage, ids: dict[str, str]) -> None:
    page = open_page("admin", viewport={"width": 720, "height": 450})
    for name in ("servers", "timeline", "launch"):
        page.goto(PAGES[name](ids))
        assert page.evaluate("document.documentElement.scrollWidth") <= 720


def test_who_asked_for_less_motion_gets_none(open_page: OpenPage, ids: dict[str, str]) -> None:
    page = open_page("admin", reduced_motion="reduce")
    page.goto(PAGES["timeline"](ids))
    page.wait_for_timeout(100)
    assert page.evaluate("document.getAnimations().filter((a) => a.playState === 'running').length") == 0
