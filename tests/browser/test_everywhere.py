"""Requirements of every page: it fits a phone, has accessible names, is readable in both themes, and does not shift."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from conductor.rpc.messages import GuestsCounted
from conductor.services.billing import budgets
from conductor.services.notifications import subscriptions
from conductor.services.notifications.subscriptions import SubscriptionRequest
from conductor.services.operations import announcements
from conductor.services.quotas import requests
from conductor.services.servers import guest_metrics
from tests import factories
from tests.browser.conftest import DESKTOP, PHONE, OpenPage, go

CHECKS = (Path(__file__).parent / "checks.js").read_text()
AXE = (Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js").read_text()
# Light shows whatever is wrong with a page; dark can only differ in its colours, a phone in what scrolls.
ASKED_OF_AXE = {
    "light": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
    "dark": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]},
    "phone": {"type": "rule", "values": ["scrollable-region-focusable"]},
}
PAPER = {"width": 794, "height": 1123}  # A4 at 96 dots per inch
CUT_OFF = """[...document.querySelectorAll(".table-box")]
    .filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => "cut off: " + box.innerText.slice(0, 80))"""
MOST_SHIFT = 0.1
WORD = "w" * 140  # a name of one word, the widest there is: no page may become wider for it
PAGES: dict[str, Callable[[dict[str, str]], str]] = {
    "home": lambda ids: "/",
    "servers": lambda ids: "/servers",
    "servers filtered to none": lambda ids: "/servers?name=nothing",
    "launch": lambda ids: "/servers/launch",
    "server": lambda ids: f"/servers/{ids['server']}",
    "failed server": lambda ids: f"/servers/{ids['failed']}",
    "console": lambda ids: f"/servers/{ids['server']}/console",
    "activity": lambda ids: f"/servers/{ids['server']}/activity",
    "stop": lambda ids: f"/servers/do/stop?server={ids['server']}",
    "cancel": lambda ids: f"/workflows/{ids['run']}/do/cancel",
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
    "system": lambda ids: "/system",
    "project quotas": lambda ids: "/project-quotas",
    "role assignments": lambda ids: "/role-assignments",
    "graph": lambda ids: f"/workflows/{ids['run']}/graph",
    "log": lambda ids: f"/workflows/{ids['run']}/logs",
    "data": lambda ids: f"/workflows/{ids['run']}/data",
    "audit of a workflow": lambda ids: f"/workflows/{ids['run']}/audit",
    "why": lambda ids: f"/workflows/{ids['run']}/why",
    "compare": lambda ids: f"/workflows/compare?a={ids['run']}&b={ids['broken']}",
    "server's danger": lambda ids: f"/servers/{ids['server']}/danger",
    "server's network": lambda ids: f"/servers/{ids['server']}/network",
    "fleet": lambda ids: "/fleet",
    "host": lambda ids: "/hosts/sim-2",
    "drain": lambda ids: "/hosts/sim-2/drain",
    "cells": lambda ids: "/cells",
    "audit": lambda ids: "/audit",
    "volumes": lambda ids: "/volumes",
    "backups": lambda ids: "/backups",
    "news": lambda ids: "/news",
    "new news": lambda ids: "/news/do/create",
    "settings": lambda ids: "/settings",
    "services": lambda ids: "/services",
    "what if": lambda ids: "/what-if",
    "triage": lambda ids: "/triage",
    "images": lambda ids: "/images",
    "new network": lambda ids: "/networks/do/create",
    "picture": lambda ids: "/networks/topology",
    "reach": lambda ids: "/security-groups/reach",
    "quotas": lambda ids: "/quotas",
    "more quota": lambda ids: "/quotas/more",
    "quota requests": lambda ids: "/quota-requests?state=all",
    "api": lambda ids: "/api/docs",
    "usage": lambda ids: "/usage",
    "budget": lambda ids: f"/budgets/{ids['project']}",
    "server's metrics": lambda ids: f"/servers/{ids['server']}/metrics",
    "asked for": lambda ids: "/activity",
    "profile": lambda ids: "/profile",
    "own password": lambda ids: "/profile/password",
    "second factor": lambda ids: "/profile/second-factor",
    "notifications": lambda ids: "/notifications",
    "subscriptions": lambda ids: "/notifications/subscriptions",
    "subscription": lambda ids: f"/notifications/subscriptions/{ids['subscription']}",
    "search": lambda ids: "/search?q=a-server",
}


@pytest.fixture
def ids(people: Any, settings: Any) -> dict[str, str]:
    """A little of everything, all of it the administrator's."""
    caller = people.admin.context()
    factories.cells()
    factories.host("compute-with-a-rather-long-name-1.rack-7.example")
    factories.host("sim-2", "cell2", seen=900)
    factories.image("simulated-linux", caller, is_simulated=True)
    factories.network("private", caller)
    run, child = factories.build(caller, f"a-server-{WORD}")
    factories.emit(child, "step.started", step="SpawnOnHost", host="sim-1", attempt=2)
    factories.decision(run, **factories.some_decision())
    failed = factories.instance(caller, "web-2", vm_state="error", host=None, launched_at=None)
    factories.fault(failed, "No valid host was found. 12 of 17 hosts: image needs qemu, host runs fake", "cell1")
    broken = factories.run(
        caller, "cell1", state="failed (not clean)", instance_name=WORD, uncompensated=["a guest on sim-1"]
    )
    factories.run(caller, state="queued", plan=[], started_at=None)
    decision = factories.failed_decision(run)
    announcements.announce(caller, {"title": "Cell 2 rests on Sunday", "text": "Its servers go on.\nNew ones wait."})
    requests.ask(
        caller, {"cores": 300, "router": 20}, "a reason that is long enough to need more than a line on a phone"
    )
    settings.NOVELLA_PRICES = {"currency": "EUR", "vcpu": "0.02"}
    budgets.put(caller, caller.project_id, Decimal("0.01"), (50,), None)
    for turn in range(3):
        used = {str(child.instance_uuid): [60.0 * turn, 64.0, 4096.0 * turn, 0.0, 512.0 * turn, 0.0]}
        guest_metrics.record("cell1", GuestsCounted(host="sim-1", counted_at=300.0 * turn, guests=used))
    return {
        "project": caller.project_id,
        "server": str(child.instance_uuid),
        "run": str(run.uuid),
        "failed": str(failed.uuid),
        "decision": str(decision.uuid),
        "broken": str(broken.uuid),
        "subscription": subscriptions.subscribe(
            caller, SubscriptionRequest(name="deploys", url="https://hooks.example.org/")
        ).view.uuid,
    }


@pytest.mark.timeout(900)  # more than fifty pages, and no faster than the machine
def test_every_page_is_accessible(open_page: OpenPage, ids: dict[str, str]) -> None:
    """Each page is asked for once, and looked at in the light, in the dark and on a phone."""
    page = open_page("admin", viewport=DESKTOP, has_touch=True, reduced_motion="reduce")
    wrong: dict[str, list[str]] = {}
    complaints, requests = heard_of(page)
    for name, address in PAGES.items():
        page.set_viewport_size(DESKTOP)
        page.emulate_media(color_scheme="light")
        complaints.clear()
        page.goto(address(ids))
        found = [*moved(page), *([] if name == "not found" else complaints), *elsewhere(page, requests)]
        page.evaluate(AXE)
        found += [*page.evaluate(f"({CHECKS}).all()"), *asked_of_axe(page, "light"), *too_wide(page, DESKTOP)]
        page.emulate_media(color_scheme="dark")
        found += asked_of_axe(page, "dark")
        page.set_viewport_size(PHONE)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        found += [*asked_of_axe(page, "phone"), *too_wide(page, PHONE)]
        wrong[name] = [*found, *page.evaluate(f"({CHECKS}).smallTargets()")]
    assert_nothing(wrong)


def heard_of(page: Page) -> tuple[list[str], list[str]]:
    """Return the browser's errors, and all requested addresses; both lists keep growing."""
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda line: complaints.append(f"console: {line.text}") if line.type == "error" else None)
    page.on("request", lambda request: requests.append(request.url))
    return complaints, requests


def elsewhere(page: Page, requests: Iterable[str]) -> list[str]:
    """Whom a page asks besides the one that it came from."""
    here = ("", urlsplit(page.url).netloc)  # data that are in the address have no host
    return [f"asks elsewhere: {url}" for url in requests if urlsplit(url).netloc not in here]


def moved(page: Page) -> list[str]:
    """How far what had been drawn moved while the page came, by the browser's own measure."""
    shift = page.evaluate(f"({CHECKS}).shift()")
    return [f"moved by {shift:.3f} while it came"] if shift > MOST_SHIFT else []


def too_wide(page: Any, size: Mapping[str, int]) -> list[str]:
    """Return the elements and dialogs that make a page scroll sideways."""
    is_wide = page.evaluate("document.documentElement.scrollWidth") > size["width"]
    found = page.evaluate(f"({CHECKS}).wide()") or ["something of it"] if is_wide else []
    return [f"too wide: {one}" for one in [*found, *page.evaluate(f"({CHECKS}).wideDialogs()")]]


def assert_nothing(wrong: dict[str, list[str]]) -> None:
    """Report every finding, page by page."""
    assert not any(wrong.values()), "\n".join(f"{name}: {one}" for name, found in wrong.items() for one in found)


def asked_of_axe(page: Any, look: str) -> list[str]:
    """Return axe's findings on a page, as "rule: element"."""
    options = {"runOnly": ASKED_OF_AXE[look], "resultTypes": ["violations"]}
    found = page.evaluate("(options) => axe.run(document, options)", options)
    return [f"{one['id']}: {node['html'][:160]}" for one in found["violations"] for node in one["nodes"]]


def test_the_sign_in_page_too(open_page: OpenPage) -> None:
    page = open_page(viewport=PHONE, reduced_motion="reduce")  # colours change at once with the scheme
    page.goto("/sign-in")
    page.evaluate(AXE)
    found = [*too_wide(page, PHONE), *page.evaluate(f"({CHECKS}).all()")]
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        found += asked_of_axe(page, scheme)
    assert_nothing({"sign-in": found})


def test_twice_the_text_size_still_fits(open_page: OpenPage, ids: dict[str, str]) -> None:
    page = open_page("admin", viewport={"width": 720, "height": 450})
    for name in ("servers", "timeline", "launch"):
        page.goto(PAGES[name](ids))
        assert page.evaluate("document.documentElement.scrollWidth") <= 720


def test_tables_are_whole_on_paper(open_page: OpenPage, ids: dict[str, str]) -> None:
    page = open_page("admin", viewport=PAPER)
    wrong: dict[str, list[str]] = {}
    for name in ("audit", "hosts", "servers", "workflows", "settings", "plugins", "project quotas"):
        page.goto(PAGES[name](ids))
        page.emulate_media(media="print")
        assert page.locator("table").count(), name
        wrong[name] = [*too_wide(page, PAPER), *page.evaluate(CUT_OFF)]
        page.emulate_media(media="screen")
    assert_nothing(wrong)


def test_who_requested_less_motion_gets_none(open_page: OpenPage, ids: dict[str, str]) -> None:
    page = open_page("admin", reduced_motion="reduce")
    page.goto(PAGES["timeline"](ids))
    # Long enough to be seen: what ends at once is no motion.
    seen = "document.getAnimations().filter((a) => a.effect.getComputedTiming().endTime > 100).length"
    assert page.evaluate(seen) == 0


def test_the_menu_of_the_rest_opens_within_a_phones_screen(open_page: OpenPage) -> None:
    page = open_page("admin", viewport=PHONE)
    go(page, "/")
    page.locator(".nav-more > summary").click()
    menu = page.locator(".nav-more > .menu-body")
    expect(menu).to_be_visible()
    box = menu.bounding_box()
    assert box is not None
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= PHONE["height"]
    assert box["height"] > PHONE["height"] / 3
    menu.get_by_role("link", name="Routers").click()
    expect(page.get_by_role("heading", name="Routers", exact=True)).to_be_visible()
