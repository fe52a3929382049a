"""A real browser on a real server: uvicorn with the portal's ASGI application, in a thread, behind a wire to cut."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import Browser, Page, expect

from tests.browser.wire import Wire
from tests.people import PASSWORD
from tests.waiting import WAIT_SECONDS, wait_until

DESKTOP = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}

# A limit for a fully loaded machine; elements that exist already are found at once.
PATIENCE_MS = WAIT_SECONDS * 1000
expect.set_options(timeout=PATIENCE_MS)

OpenPage = Callable[..., Page]


@pytest.fixture(scope="module")
def server_port(django_db_setup: None, django_db_blocker: Any) -> Iterator[int]:
    """The portal as `manage.py up` serves it, on a free port."""
    import uvicorn

    from portal.asgi import application

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application, log_config=None, access_log=False, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True, name="portal")
    with django_db_blocker.unblock():
        thread.start()
        wait_until("the portal answers", lambda: server.started)
        yield listener.getsockname()[1]
        server.should_exit = True
        server.force_exit = True
        thread.join(WAIT_SECONDS)


@pytest.fixture(scope="module")
def wire(server_port: int) -> Iterator[Wire]:
    with Wire(server_port) as made:
        yield made


@pytest.fixture
def open_page(browser: Browser, wire: Wire, people: Any) -> Iterator[OpenPage]:
    """open_page("ana", viewport=PHONE, color_scheme="dark"): an empty page of a fresh browser profile, signed in.

    Without a name it is not signed in: `sign_in` does that by the form. An error in a script of the page fails the
    test.
    """
    from tests import factories

    factories.cells()
    wire.mend()
    contexts = []
    troubles: list[str] = []

    here = f"http://127.0.0.1:{wire.port}"

    def opened(name: str = "", **options: Any) -> Page:
        context = browser.new_context(base_url=here, **{"viewport": DESKTOP, **options})
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(str(error)))
        if name:
            context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": people[name].session(), "url": here}])
        return page

    yield opened
    for context in contexts:
        context.close()
    _wait_until_everyone_has_left()
    assert troubles == []


def _wait_until_everyone_has_left() -> None:
    """Wait until the server has noticed that the pages are closed: an open one would get the next test's events."""
    from portal.live import channels

    wait_until(
        "no connection outlives its page",
        lambda: not any(live_hub._connections for live_hub in channels._hubs.values()),
    )


def sign_in(page: Page, name: str, path: str = "/") -> None:
    """Sign in by the form, as users do."""
    page.goto(f"/sign-in?next={path}")
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/sign-in" not in url)


def wait_until_live(page: Page) -> None:
    page.locator("[data-link-chip][data-link=live]").wait_for()


def wait_until_ready(page: Page) -> None:
    """Wait until the page's scripts handle events: earlier key presses are lost, for users too."""
    page.locator("html[data-ready]").wait_for(state="attached")


def go(page: Page, path: str) -> None:
    page.goto(path)
    wait_until_ready(page)
