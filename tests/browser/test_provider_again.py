"""A session of an OpenID user that ends under an open page: sign-in happens beside the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.sessions.models import Session
from playwright.sync_api import Page, expect

from portal.live import channels
from tests.browser.conftest import OpenPage, go
from tests.browser.wire import Wire
from tests.services.openid_provider import Provider, running


@pytest.fixture(scope="module")
def shared_provider(wire: Wire) -> Iterator[Provider]:
    with running(f"http://127.0.0.1:{wire.port}/sign-in/provider/answer") as provider:
        yield provider


@pytest.fixture
def provider(shared_provider: Provider, settings: LazySettings) -> Provider:
    settings.NOVELLA_OIDC_ISSUER = shared_provider.issuer
    settings.NOVELLA_OIDC_CLIENT_ID = shared_provider.client_id
    settings.NOVELLA_OIDC_CLIENT_SECRET = shared_provider.client_secret
    settings.NOVELLA_OIDC_NAME = "Harbour"
    settings.NOVELLA_OIDC_ROLES = (("crew", "shop", "member"),)
    shared_provider.quiet()
    shared_provider.knows("eve-1", preferred_username="eve", groups=["crew"])
    return shared_provider


def say_who(page: Page) -> None:
    """Sign in at the provider's own page."""
    page.locator("input[name=sub]").fill("eve-1")
    page.locator("button[type=submit], input[type=submit]").first.click()


def test_a_draft_is_kept_while_the_user_signs_in_at_the_provider(
    open_page: OpenPage, provider: Provider, monkeypatch: Any
) -> None:
    monkeypatch.setattr(channels, "HEAL_SECONDS", 0.3)
    page = open_page()
    page.context.route("https://**", lambda route: route.abort())  # the provider's page would fetch its style from afar
    page.goto("/sign-in")
    page.get_by_role("link", name="Sign in with Harbour").click()
    say_who(page)
    page.wait_for_url(lambda url: "/sign-in" not in url and "127.0.0.1" in url)
    go(page, "/security-groups/do/create")
    page.get_by_label("Name", exact=True).fill("typed before")
    page.evaluate("window.isTheSamePage = true")
    Session.objects.all().delete()
    dialog = page.get_by_role("dialog", name="Sign in again")
    with page.expect_popup() as opened:
        dialog.get_by_role("link", name="Sign in with Harbour").click()
    say_who(opened.value)
    expect(dialog).to_be_hidden()  # the page beside it has reported the sign-in
    assert page.evaluate("window.isTheSamePage")
    expect(page.get_by_label("Name", exact=True)).to_have_value("typed before")
    page.locator("main form button.primary").first.click()
    expect(page.get_by_role("heading", name="typed before")).to_be_visible()
    go(page, "/security-groups")
    expect(page.get_by_role("link", name="typed before")).to_have_count(1)
