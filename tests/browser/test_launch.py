"""The launch form in a browser: nothing typed is lost, nothing is launched twice."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import Page, expect

from conductor.api_db.models import BuildRequest, InstanceMapping
from conductor.services.servers import flavors
from tests import factories
from tests.browser.conftest import OpenPage, go
from tests.browser.wire import Wire
from tests.fleet import add_host
from tests.people import PASSWORD
from tests.waiting import assert_stays


@pytest.fixture(autouse=True)
def _wares(people: Any) -> None:
    admin = people.admin.context()
    flavors.seed()
    factories.image("simulated-linux", admin, is_simulated=True)
    factories.image("other-linux", admin)
    factories.network("private", admin)


def fill(page: Page) -> None:
    go(page, "/servers/launch")
    page.get_by_label("Name", exact=True).fill("web")
    page.get_by_label("Count", exact=True).fill("2")
    page.get_by_text("other-linux", exact=True).click()
    page.get_by_text("medium", exact=True).click()


def test_the_summary_follows_the_form(open_page: OpenPage) -> None:
    page = open_page("ana")
    fill(page)
    summary = page.get_by_label("Summary")
    expect(summary.get_by_text("2 servers, each with 2 vCPU and 2 GB memory, from other-linux.")).to_be_visible()
    expect(summary.get_by_role("button", name="Launch 2 servers")).to_be_visible()
    summary.get_by_text("CLI, API and Terraform").click()
    expect(summary.get_by_text("openstack server create")).to_contain_text("--flavor medium")


def test_sizes_that_no_host_can_take_are_greyed_and_say_what_would_fit(open_page: OpenPage) -> None:
    add_host("quokka", size=(8, 2048, 100))
    page = open_page("ana")
    go(page, "/servers/launch")
    expect(page.get_by_label("large")).to_be_disabled()
    expect(page.get_by_text("1 of 1 hosts: not enough memory (4,096 MB needed).")).to_be_visible()
    page.get_by_label("tiny").focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("Summary").get_by_text("512 MB memory")).to_be_visible()
    expect(page.get_by_label("small")).to_be_focused()  # the sizes are drawn anew around it
    page.get_by_role("link", name="large", exact=True).click()
    summary = page.get_by_label("Summary")
    expect(summary.get_by_text("Doesn't fit now")).to_be_visible()
    expect(summary.get_by_text("It fits with 2,048 MB of memory instead of 4,096.")).to_be_visible()
    expect(page.get_by_label("large")).to_be_checked()
    expect(page.get_by_label("large")).to_be_focused()  # the link that chose it is gone
    reported = page.locator("[data-announce]")
    expect(reported).to_contain_text(
        "from other-linux. Doesn't fit now. 1 of 1 hosts: not enough memory (4,096 MB needed)."
    )
    page.get_by_label("medium").click()
    expect(summary.get_by_text("Fits now on 1 of 1 host")).to_be_visible()
    expect(page.get_by_label("large")).to_be_disabled()


def test_the_size_that_would_fit_is_the_one_that_is_launched(open_page: OpenPage) -> None:
    add_host("quokka", size=(8, 2048, 100))
    page = open_page("ana")
    go(page, "/servers/launch")
    page.get_by_label("Name", exact=True).fill("web")
    for _ in range(3):  # with an answer under way that draws the sizes anew
        page.get_by_label("small").click()
        page.get_by_role("link", name="large", exact=True).click()
        expect(page.get_by_label("large")).to_be_checked()
        expect(page.get_by_label("Summary").get_by_text("4 GB memory")).to_be_visible()
        expect(page.get_by_label("large")).to_be_checked()
    page.get_by_role("button", name="Launch server").click()
    expect(page.get_by_text("No host is available now")).to_be_visible()
    assert not BuildRequest.objects.exists()
    page.get_by_role("button", name="Launch anyway").click()
    expect(page.get_by_role("heading", name="Create web")).to_be_visible()
    assert BuildRequest.objects.get().instance["flavor"]["name"] == "large"


def test_a_form_sent_to_a_frozen_server_keeps_what_was_typed(open_page: OpenPage, wire: Wire) -> None:
    page = open_page("ana")
    fill(page)
    launch = page.get_by_role("button", name="Launch 2 servers")
    expect(launch).to_be_visible()
    page.evaluate("window.isTheSamePage = true")
    wire.is_frozen = True
    launch.click()
    expect(page.get_by_text("The server doesn't answer. Nothing was sent, and your input is kept.")).to_be_visible()
    assert page.evaluate("window.isTheSamePage")
    expect(page.get_by_label("Name", exact=True)).to_have_value("web")
    wire.cut()  # dead now, not only frozen
    launch.click()
    expect(page.locator("[data-unreachable]")).to_be_visible()
    wire.mend()
    launch.click()
    expect(page.get_by_role("heading", name="Create web")).to_be_visible()
    assert BuildRequest.objects.count() == 2


# The count of servers in the form with each question for the summary, also with those that wait for an answer.
KEEP_COUNTS = """() => {
  window.counts = [];
  document.addEventListener("htmx:confirm", () => window.counts.push(document.querySelector("[name=count]").value));
}"""


def test_a_late_response_keeps_newer_choices_and_is_no_error(open_page: OpenPage) -> None:
    page = open_page("ana")
    go(page, "/servers/launch")
    complaints: list[str] = []
    page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    held: list[Any] = []
    page.route("**/launch/summary", lambda route: held.append(route) if not held else route.continue_())
    page.evaluate(KEEP_COUNTS)
    with page.expect_request("**/launch/summary"):
        page.get_by_label("small").click()
    page.get_by_label("medium").click()
    page.get_by_label("Count", exact=True).fill("3")
    page.wait_for_function("() => window.counts.at(-1) === '3'")  # the form asks soon after the last key: it waits now
    held[0].continue_()
    expect(page.get_by_label("Summary").get_by_text("3 servers, each with 2 vCPU")).to_be_visible()
    expect(page.get_by_label("medium")).to_be_checked()
    assert complaints == []


def test_a_response_does_not_move_the_button_under_the_pointer(open_page: OpenPage) -> None:
    page = open_page("ana")
    fill(page)
    expect(page.get_by_label("Summary").get_by_text("2 servers, each with 2 vCPU and 2 GB")).to_be_visible()
    held: list[Any] = []
    page.route("**/launch/summary", lambda route: held.append(route) if not held else route.continue_())
    with page.expect_request("**/launch/summary"):
        page.get_by_label("small").click()
    page.locator("#launch-now").hover()
    page.mouse.down()
    page.evaluate("window.button = document.querySelector('#launch-now')")
    with page.expect_response("**/launch/summary"):
        held[0].continue_()
    assert_stays("the button under the pointer", lambda: page.evaluate("window.button.isConnected"))
    page.mouse.up()
    expect(page.get_by_role("heading", name="Create web")).to_be_visible()


def test_a_double_click_launches_once(open_page: OpenPage) -> None:
    page = open_page("ana")
    fill(page)
    page.get_by_role("button", name="Launch 2 servers").dblclick()
    expect(page.get_by_role("heading", name="Create web")).to_be_visible()
    assert sorted(row.instance["name"] for row in BuildRequest.objects.all()) == ["web-1", "web-2"]


def test_a_draft_is_kept_until_its_launch(open_page: OpenPage) -> None:
    page = open_page("ana")
    fill(page)
    page.goto("/servers")
    page.goto("/servers/launch")
    expect(page.get_by_label("Name", exact=True)).to_have_value("web")
    expect(page.get_by_label("medium")).to_be_checked()
    page.get_by_role("button", name="Launch 2 servers").click()
    expect(page.get_by_role("heading", name="Create web")).to_be_visible()
    page.goto("/servers/launch")
    expect(page.get_by_label("Name", exact=True)).to_have_value("")


def test_a_session_that_ends_during_the_form_loses_no_input(open_page: OpenPage) -> None:
    page = open_page("ana")
    fill(page)
    Session.objects.all().delete()  # a cookie that is cleared may come back with an answer that is under way
    # As it goes before the page has noticed; one that has asks in place, and holds the form back.
    page.evaluate("document.querySelector('form.launch').submit()")
    expect(page).to_have_url(re.compile("/sign-in"))
    assert InstanceMapping.objects.count() == 0
    page.get_by_label("User name").fill("ana")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("web")
    expect(page.get_by_label("other-linux")).to_be_checked()


def test_problems_are_listed_first_and_shown_at_their_fields(open_page: OpenPage) -> None:
    page = open_page("ana")
    fill(page)
    page.evaluate("document.querySelector('form.launch').noValidate = true")
    page.get_by_label("Name", exact=True).fill(" ")
    page.get_by_label("Count", exact=True).fill("0")
    page.locator("#launch-summary .button.primary").click()
    problems = page.get_by_role("alert").filter(has_text="Nothing was launched")
    expect(problems).to_be_focused()
    expect(problems).to_contain_text("Nothing was launched. Fix 2 problems.")
    problems.get_by_role("link", name="Enter a count from 1 to 100.").click()
    expect(page).to_have_url(re.compile("#field-count$"))
    expect(page.get_by_label("Count", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("medium")).to_be_checked()
    assert InstanceMapping.objects.count() == 0
