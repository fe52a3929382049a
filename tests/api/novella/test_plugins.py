"""Plugins over HTTP and from the command line: the catalogue, and choosing what runs."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from conductor.api_db.models import PluginChoice, PluginQuarantine
from conductor.journal.models import AuditRecord
from conductor.plugins import registry
from conductor.scheduler.active_plugins import in_force, pipeline
from conductor.services.operations import readiness
from conductor.services.plugins import catalog

pytestmark = pytest.mark.usefixtures("databases")

FILTERS = "/api/plugins/filter"
WEIGHERS = "/api/plugins/weigher"


def change(client: Any, path: str, body: Any, version: str = "*") -> Any:
    return client.patch(path, body, headers={"If-Match": version})


def running(client: Any, path: str) -> list[str]:
    return [one["name"] for one in client.get(path).json()["plugins"] if one["enabled"]]


def test_the_catalogue_lists_all_plugins(api_client: Any) -> None:
    body = api_client("admin").get("/api/plugins").json()
    by_name = {(one["kind"], one["name"]): one for one in body["plugins"]}
    assert body["versions"] == {"filter": 0, "weigher": 0}
    compute = by_name["filter", "ComputeFilter"]
    assert (compute["state"], compute["enabled"], compute["is_shipped"]) == ("runs", True, True)
    assert compute["description"] == type(registry().filters[0]).__doc__.splitlines()[0].replace("`", "")  # type: ignore[union-attr]
    assert compute["metrics"] == {
        "calls": 0, "faults": 0, "overruns": 0, "rejected": 0, "differed": 0, "p50_ms": None, "p99_ms": None,
    }  # fmt: skip
    counting = by_name["filter", "IoOpsFilter"]
    assert (counting["state"], counting["position"]) == ("off", None)
    [option] = counting["options"]
    assert (option["name"], option["value"], option["source"]) == ("max_io_ops_per_host", 8, "default")
    assert by_name["weigher", "RAMWeigher"]["multiplier"] == 1.0
    assert by_name["driver", "fake"]["state"] == "available"
    assert [one["position"] for one in body["plugins"] if one["kind"] == "filter" and one["enabled"]] == list(
        range(1, len(registry().filters) + 1)
    )


def test_a_change_is_in_force_at_the_next_decision(api_client: Any) -> None:
    client = api_client("admin")
    before = [one.name for one in in_force().filters]
    answer = change(
        client,
        FILTERS,
        {
            "order": ["IoOpsFilter", "DifferentHostFilter"],
            "plugins": {
                "IoOpsFilter": {"enabled": True, "options": {"max_io_ops_per_host": 3}, "on_failure": "let pass"},
                "SameHostFilter": {"enabled": False},
                "ComputeFilter": {"mode": "shadow"},
            },
        },
        '"0"',
    )
    assert (answer.status_code, answer.headers["ETag"], answer.json()["version"]) == (200, '"1"', 1)
    names = [one.name for one in in_force().filters]
    expected = ["IoOpsFilter", *[name for name in before if name != "SameHostFilter"]]
    assert sorted(names) == sorted(expected)
    assert names[0] == "IoOpsFilter"
    assert running(client, FILTERS) == names
    chain = pipeline()
    assert chain.filters[0].options == {"max_io_ops_per_host": 3}
    assert chain.rules.fail_open == {"IoOpsFilter"}
    assert chain.rules.shadows == {("filter", "ComputeFilter")}
    shown = {one["name"]: one for one in answer.json()["plugins"]}
    assert shown["IoOpsFilter"]["options"][0]["source"] == "chosen"
    assert shown["ComputeFilter"]["state"] == "watches"


def test_plugin_settings_are_reset_to_their_defaults(api_client: Any) -> None:
    client = api_client("admin")
    before, digest = in_force().filters, in_force().digest
    assert digest == registry().digest()
    change(client, FILTERS, {"order": ["IoOpsFilter"], "plugins": {"IoOpsFilter": {"enabled": True}}})
    assert in_force().digest != digest
    nothing = {"enabled": None, "options": None, "mode": None, "on_failure": None}
    change(client, FILTERS, {"order": [], "plugins": {"IoOpsFilter": nothing}})
    assert (in_force().filters, in_force().digest) == (before, digest)
    assert PluginChoice.objects.get(kind="filter").choice == {"order": [], "plugins": {}}


def test_a_stored_multiplier_overrides_the_setting(api_client: Any, settings: Any) -> None:
    settings.NOVELLA_WEIGHT_MULTIPLIERS = {"ram_weight_multiplier": 2.0, "cpu_weight_multiplier": 3.0}
    change(api_client("admin"), WEIGHERS, {"plugins": {"RAMWeigher": {"multiplier": -1.5}}})
    chain = pipeline()
    factors = {one.name: chain.multipliers.general(one) for one in chain.weighers}
    assert (factors["RAMWeigher"], factors["CPUWeigher"]) == (-1.5, 3.0)


def test_a_change_based_on_an_outdated_version_is_refused_with_412(api_client: Any) -> None:
    client = api_client("admin")
    assert change(client, FILTERS, {"order": ["ComputeFilter"]}, '"0"').status_code == 200
    late = change(client, FILTERS, {"order": ["SameHostFilter"]}, '"0"')
    assert (late.status_code, "version is 1, not 0" in late.json()["error"]["message"]) == (412, True)
    assert in_force().filters[0].name == "ComputeFilter"
    # without a version a client could overwrite an unseen change
    assert client.patch(FILTERS, {"order": []}).status_code == 428
    assert PluginChoice.objects.get().version == 1


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        (FILTERS, {}, "the request body"),
        (FILTERS, {"orders": []}, "orders"),
        (FILTERS, {"order": ["ComputFilter"]}, "Did you mean ComputeFilter?"),
        (FILTERS, {"order": ["ComputeFilter", "ComputeFilter"]}, "twice"),
        (FILTERS, {"plugins": {"RAMWeigher": {"enabled": True}}}, "No plugin brings a filter RAMWeigher"),
        (FILTERS, {"plugins": {"IoOpsFilter": {}}}, "plugins.IoOpsFilter"),
        (FILTERS, {"plugins": {"IoOpsFilter": {"enabled": "yes"}}}, "plugins.IoOpsFilter.enabled"),
        (FILTERS, {"plugins": {"IoOpsFilter": {"mode": "loud"}}}, "decides, shadow"),
        (FILTERS, {"plugins": {"IoOpsFilter": {"on_failure": "explode"}}}, "reject, let pass"),
        (FILTERS, {"plugins": {"IoOpsFilter": {"multiplier": 2}}}, "Only weighers have a multiplier"),
        (WEIGHERS, {"plugins": {"RAMWeigher": {"on_failure": "let pass"}}}, "Only filters have on_failure"),
        (WEIGHERS, {"plugins": {"RAMWeigher": {"multiplier": 1e300}}}, "from -1e+12 to 1e+12"),
        (
            FILTERS,
            {"plugins": {"IoOpsFilter": {"options": {"max_io_op_per_host": 3}}}},
            "Did you mean max_io_ops_per_host?",
        ),
        (FILTERS, {"plugins": {"IoOpsFilter": {"options": {"max_io_ops_per_host": "many"}}}}, 'Value: "many"'),
        (FILTERS, {"plugins": {"ComputeFilter": {"options": {"speed": 1}}}}, "It has none."),
        (
            FILTERS,
            {"plugins": {"SameHostFilter": {"enabled": False}, "IoOpsFilter": {"options": {"x": 1}}}},
            "IoOpsFilter has no option x",
        ),
    ],
)
def test_invalid_changes_are_named_and_change_nothing(api_client: Any, path: str, body: Any, named: str) -> None:
    before = in_force()
    answer = change(api_client("admin"), path, body)
    assert answer.status_code == 400
    assert named in answer.json()["error"]["message"]
    assert in_force() == before
    assert not PluginChoice.objects.exclude(version=0).exists()


def test_only_operators_see_and_choose(api_client: Any) -> None:
    for who in ("ana", "bo"):
        client = api_client(who)
        assert client.get("/api/plugins").status_code == 403
        assert change(client, FILTERS, {"order": []}).status_code == 403
        assert client.post(f"{FILTERS}/ComputeFilter/quarantine", {"reason": "no"}).status_code == 403
    assert api_client(None).get("/api/plugins").status_code == 401
    assert not PluginChoice.objects.exists()


def test_every_change_is_on_record_with_before_and_after(api_client: Any) -> None:
    client = api_client("admin")
    change(client, FILTERS, {"plugins": {"IoOpsFilter": {"options": {"max_io_ops_per_host": 3}}}})
    change(client, FILTERS, {"plugins": {"IoOpsFilter": {"options": {"max_io_ops_per_host": 5}}}})
    change(client, FILTERS, {"plugins": {"IoOpsFilter": {"options": {"max_io_ops_per_host": 0.5}}}})
    first, second, refused = AuditRecord.objects.filter(action="plugins.change_filters").order_by("pk")
    assert first.details["IoOpsFilter"]["before"] == {}
    assert second.details["IoOpsFilter"] == {
        "before": {"options": {"max_io_ops_per_host": 3}},
        "after": {"options": {"max_io_ops_per_host": 5}},
    }
    assert (refused.result, refused.details) == ("refused", {"plugins": ["IoOpsFilter"]})
    change(client, FILTERS, {"plugins": {"IoOpsFilter": {"options": {"max_io_ops_per_host": 5}}}})  # nothing new
    assert AuditRecord.objects.count() == 3
    assert PluginChoice.objects.get().version == 2


def test_a_plugin_is_quarantined_and_released(api_client: Any) -> None:
    client = api_client("admin")
    path = f"{FILTERS}/SameHostFilter"
    answer = client.post(f"{path}/quarantine", {"reason": "It looks wrong.", "seconds": 60})
    assert answer.status_code == 200
    plugin = answer.json()["plugin"]
    assert (plugin["state"], plugin["quarantine"]["reason"]) == ("in quarantine", "It looks wrong.")
    assert plugin["quarantine"]["until"] > plugin["quarantine"]["began_at"]
    assert in_force().quarantined == {("filter", "SameHostFilter")}
    assert client.post(f"{path}/quarantine", {"reason": "again"}).status_code == 409
    assert client.post(f"{path}/release", {}).json()["plugin"]["state"] == "runs"
    assert in_force().quarantined == frozenset()
    assert client.post(f"{path}/release", {}).status_code == 409
    assert client.post(f"{FILTERS}/SameHost/quarantine", {"reason": "x"}).status_code == 404
    assert client.post(f"{path}/quarantine", {"reason": " "}).status_code == 400
    assert client.post(f"{path}/quarantine", {"reason": "x", "seconds": -1}).status_code == 400
    assert AuditRecord.objects.filter(action__in=("plugins.quarantine", "plugins.release")).count() == 2
    assert client.get("/api/plugins/driver").status_code == 404


def test_a_quarantine_ends_by_itself_by_the_clock_of_the_database(api_client: Any) -> None:
    api_client("admin").post(f"{FILTERS}/SameHostFilter/quarantine", {"reason": "slow", "seconds": 3600})
    assert in_force().quarantined
    row = PluginQuarantine.objects.get()
    PluginQuarantine.objects.update(until=row.began_at)
    PluginChoice.objects.update(quarantine_number=99)
    assert in_force().quarantined == frozenset()


def output(*words: str) -> str:
    out = StringIO()
    call_command("plugins", *words, stdout=out)
    return out.getvalue()


def test_the_command_reports_that_the_databases_do_not_exist_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any) -> Any:
        raise OperationalError("no such table: api_db_pluginchoice")

    monkeypatch.setattr(catalog, "catalogue", fails)
    monkeypatch.setattr(readiness, "missing", lambda aliases: dict.fromkeys(aliases, "has no tables of ours yet"))
    with pytest.raises(CommandError, match="Run novella seed once"):
        output("list")


def test_the_command_does_the_same() -> None:
    assert "ComputeFilter" in output("list")
    assert "RAMWeigher" not in output("list", "--kind", "filter")
    output("enable", "IoOpsFilter")
    output("set", "IoOpsFilter", "max_io_ops_per_host=2", "--on-failure", "let pass")
    output("order", "filter", "IoOpsFilter")
    assert in_force().filters[0].options == {"max_io_ops_per_host": 2}
    output("set", "RAMWeigher", "--multiplier", "0.5")
    [shown] = json.loads(output("set", "IoOpsFilter", "--default", "max_io_ops_per_host", "--json"))["plugins"]
    assert (shown["options"][0]["value"], shown["position"]) == (8, 1)
    output("disable", "IoOpsFilter", "SameHostFilter")
    assert not {"IoOpsFilter", "SameHostFilter"} & {one.name for one in in_force().filters}
    assert "It is broken." in output("quarantine", "RAMWeigher", "--reason", "It is broken.")
    assert "runs" in output("release", "RAMWeigher")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["enable", "ComputFilter"], "Did you mean ComputeFilter?"),
        (["enable", "ComputeFilter", "RAMWeigher"], "not both at once"),
        (["set", "IoOpsFilter"], "Say what to set"),
        (["set", "IoOpsFilter", "max_io_ops_per_host"], "write KEY=VALUE"),
        (["set", "IoOpsFilter", "max_io_ops_per_host=NaN"], "NaN is no number"),
        (["set", "IoOpsFilter", "max_io_ops_per_host=lots"], "plugins.IoOpsFilter.options.max_io_ops_per_host"),
        (["set", "RAMWeigher", "--multiplier", "nan"], "Enter a multiplier from"),
        (["release", "ComputeFilter"], "not in quarantine"),
        (["quarantine", "ComputeFilter", "--reason", " "], "Enter a reason"),
    ],
)
def test_the_command_refuses_by_name(words: list[str], named: str) -> None:
    with pytest.raises(CommandError, match=named.replace("?", r"\?")):
        output(*words)
    assert not PluginChoice.objects.exclude(version=0, quarantine_number=0).exists()
