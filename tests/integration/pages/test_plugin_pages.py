"""The pages of plugins, without a browser: contents, effects of forms, and messages of refusals."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from conductor.api_db.models import PluginChoice, PluginQuarantine, SchedulingDecision
from conductor.journal.models import AuditRecord
from conductor.plugins import registry
from conductor.scheduler.active_plugins import in_force, pipeline
from tests import factories
from tests.fixtures.page_text import text
from tests.integration.page_clients import signed_in

FILTER = "/plugins/filter/of/IoOpsFilter"
WEIGHER = "/plugins/weigher/of/RAMWeigher"


@pytest.fixture
def admin(people: Any) -> Client:
    return signed_in("admin")


def form(client: Client, path: str, **values: Any) -> Any:
    """Submit the page's first form with some values changed; None leaves a field out."""
    page = text(client.get(path))
    version = re.search(r'name="version" value="(\d+)"', page)
    assert version is not None
    return client.post(path, {"version": version[1], **values})


def test_the_list_shows_all_in_their_order(admin: Client) -> None:
    page = text(admin.get("/plugins"))
    names = re.findall(r'<tr id="filter-(\w+)"', page)
    running = [one.name for one in in_force().filters]
    assert names[: len(running)] == running
    assert {"IoOpsFilter"} < set(names[len(running) :])
    assert 'id="weigher-RAMWeigher"' in page
    assert 'id="driver-fake"' in page


def test_a_button_puts_one_before_another(admin: Client) -> None:
    before = [one.name for one in in_force().filters]
    orders = re.findall(r'name="order" value="([\w,]+)"', text(admin.get("/plugins")))
    answer = admin.post("/plugins/filter/order", {"order": orders[0], "version": "0"}, follow=True)
    assert "Order changed" in text(answer)
    assert [one.name for one in in_force().filters] == [before[1], before[0], *before[2:]]
    late = admin.post("/plugins/filter/order", {"order": ",".join(before), "version": "0"}, follow=True)
    assert "have changed" in text(late)
    assert PluginChoice.objects.get().version == 1


def test_the_form_changes_what_was_changed_in_it_and_nothing_else(admin: Client) -> None:
    values = {"enabled": "yes", "mode": "decides", "on_failure": "reject", "option.max_io_ops_per_host": "5"}
    answer = form(admin, FILTER, **values)
    assert answer.status_code == 302
    assert PluginChoice.objects.get().choice["plugins"] == {
        "IoOpsFilter": {"is_enabled": True, "options": {"max_io_ops_per_host": 5}}
    }
    assert "Reset to default" in text(admin.get(FILTER))
    form(admin, FILTER, **values, **{"default.max_io_ops_per_host": "yes"})
    assert PluginChoice.objects.get().choice["plugins"] == {"IoOpsFilter": {"is_enabled": True}}
    form(admin, FILTER, reset="yes", disable_reason="back to how it was")
    assert PluginChoice.objects.get().choice["plugins"] == {}
    form(admin, WEIGHER, enabled="yes", mode="shadow", multiplier="2.5")
    chain = pipeline()
    assert chain.multipliers.options == {"ram_weight_multiplier": 2.5}
    assert chain.rules.shadows == {("weigher", "RAMWeigher")}


@pytest.mark.parametrize("change", [{}, {"enabled": "yes", "mode": "shadow"}, {"reset": "yes"}])
def test_a_filter_stops_turning_hosts_away_only_with_a_reason(admin: Client, change: dict[str, str]) -> None:
    form(admin, FILTER, enabled="yes", mode="decides", on_failure="reject")
    before = PluginChoice.objects.get()
    values = {"mode": "decides", "on_failure": "reject"} | change
    requested = form(admin, FILTER, **values)
    assert requested.status_code == 409
    assert "servers can be placed on hosts that it rejects now" in text(requested)
    assert 'name="disable_reason"' in text(requested)
    unchanged = PluginChoice.objects.get()
    assert (unchanged.version, unchanged.choice) == (before.version, before.choice)
    assert form(admin, FILTER, **values, disable_reason="maintenance of its service").status_code == 302
    assert PluginChoice.objects.get().version == before.version + 1
    assert AuditRecord.objects.order_by("-pk")[0].reason == "maintenance of its service"


def test_a_change_is_previewed_on_recent_requests_and_kept_in_the_form(admin: Client, people: Any) -> None:
    run = factories.run(people.ana.context(), instance_name="web-1")
    factories.failed_decision(run)
    values = {"mode": "shadow", "on_failure": "reject", "preview": "yes", "option.max_io_ops_per_host": "8"}
    page = text(form(admin, FILTER, enabled="yes", **values))
    assert "Nothing has been changed yet" in page
    assert "of 1 request" in page
    assert '<option value="shadow" selected>' in page
    assert not PluginChoice.objects.exists()
    assert "IoOpsFilter was changed" not in page


def test_a_page_says_how_often_a_plugin_was_decisive(admin: Client, people: Any) -> None:
    run = factories.run(people.ana.context(), instance_name="web-1")
    ended = {"filter": "IoOpsFilter", "before": 3, "after": 0, "rejected": 3, "milliseconds": 0.1}
    decided = factories.failed_decision(run)
    SchedulingDecision.objects.filter(pk=decided.pk).update(summary={**decided.summary, "funnel": [ended]})
    assert "in 1 of 1 recorded decisions" in text(admin.get(FILTER))
    assert admin.get("/api/plugins/filter/IoOpsFilter").json()["effect"] == {"decisions": 1, "decisive": 1}
    assert admin.get("/api/plugins/driver/fake").json()["effect"] is None
    tipped = [
        {"host": "a", "total": 1.0, "parts": [{"weigher": "RAMWeigher", "weight": 1.0}]},
        {"host": "b", "total": 0.5, "parts": [{"weigher": "RAMWeigher", "weight": 0.2}]},
    ]
    SchedulingDecision.objects.filter(pk=decided.pk).update(details={"weights": tipped})
    assert "in 1 of 1 recorded decisions" in text(admin.get(WEIGHER))
    SchedulingDecision.objects.filter(pk=decided.pk).update(details={"weights": tipped[:1]})
    page = text(admin.get(WEIGHER))
    assert "in 0 of 1 recorded decisions" in page
    assert "never cause a quarantine" in page
    assert "on by default" in page
    assert "off by default" in text(admin.get(FILTER))


@pytest.mark.parametrize(
    ("values", "status", "named"),
    [
        ({"option.max_io_ops_per_host": "many"}, 400, "The option max_io_ops_per_host of IoOpsFilter does not fit"),
        ({"option.max_io_ops_per_host": "-1"}, 400, "does not fit"),
        ({"mode": "loud"}, 400, "The mode must be one of decides, shadow"),
        ({"multiplier": "x"}, 400, "Enter a number, not x"),
        ({"version": "7"}, 412, "have changed"),
        ({"version": ""}, 400, "Open the page again"),
    ],
)
def test_a_refusal_says_why_keeps_what_was_typed_and_changes_nothing(
    admin: Client, values: dict[str, str], status: int, named: str
) -> None:
    answer = form(admin, FILTER, **values)
    page = text(answer)
    assert (answer.status_code, named in page, "Couldn't save" in page) == (status, True, True)
    if "option.max_io_ops_per_host" in values:
        assert f'value="{values["option.max_io_ops_per_host"]}"' in page
    assert not PluginChoice.objects.exclude(version=0).exists()


def test_a_plugin_is_quarantined_and_released(admin: Client) -> None:
    assert "all hosts are rejected" in text(admin.get(FILTER))
    refused = admin.post(f"{FILTER}/quarantine", {"reason": " ", "minutes": "5"})
    assert (refused.status_code, "Enter a reason" in text(refused)) == (400, True)
    answer = admin.post(f"{FILTER}/quarantine", {"reason": "It <hangs>.", "minutes": "5"}, follow=True)
    assert "It &lt;hangs&gt;." in text(answer)
    row = PluginQuarantine.objects.get()
    assert row.until is not None
    assert 299 < (row.until - row.began_at).total_seconds() < 301
    assert "released from quarantine" in text(admin.post(f"{FILTER}/release", follow=True))
    assert admin.post(f"{FILTER}/release").status_code == 409


def test_a_class_of_nova_has_its_page_which_says_why_it_will_fail(admin: Client, settings: Settings) -> None:
    settings.NOVELLA_NOVA_FILTERS = ("racks.filters.RackFilter",)  # and Nova is not installed here
    registry.cache_clear()
    try:
        page = text(admin.get("/plugins/filter/of/nova.RackFilter"))
        listed = text(admin.get("/plugins"))
        sent = {"enabled": "yes", "mode": "shadow", "on_failure": "reject", "disable_reason": "to see it fail"}
        answer = form(admin, "/plugins/filter/of/nova.RackFilter", **sent)
    finally:
        registry.cache_clear()
    assert "nova.RackFilter fails whenever it is asked: there is no module nova: install novella[nova-adapter]" in page
    assert "The filter racks.filters.RackFilter of Nova." in page
    assert "Since the last full hour: 0 calls; hosts rejected: 0" in page
    assert 'id="filter-nova.RackFilter"' in listed
    assert answer.status_code == 302
    assert PluginChoice.objects.get().choice["plugins"] == {"nova.RackFilter": {"mode": "shadow"}}


def test_the_pages_of_plugins_are_not_found_for_other_users(people: Any) -> None:
    ana = signed_in("ana")
    assert "/plugins" not in text(ana.get("/"))
    for path in ("/plugins", FILTER):
        assert ana.get(path).status_code == 404
    assert ana.post("/plugins/filter/order", {"order": "", "version": "0"}).status_code == 404
    assert not PluginChoice.objects.exists()
    admin = signed_in("admin")
    assert admin.get("/plugins/filter/of/Nobody").status_code == 404
    assert admin.get("/plugins/driver/of/nobody").status_code == 404
    assert admin.get("/plugins/nothing/of/fake").status_code == 404
    assert admin.post("/plugins/driver/of/fake", {"version": "0"}).status_code == 404
    assert admin.post(f"{FILTER}/explode").status_code == 404
