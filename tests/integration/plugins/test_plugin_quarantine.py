"""Plugins over many decisions: repeated failures quarantine one in all processes, and its errors are stored."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client
from django.utils import timezone

from conductor.api_db.models import PluginChoice, PluginMetric, PluginQuarantine
from conductor.core.errors import NoValidHost
from conductor.core.messages import unpack
from conductor.core.plugin_choice import FILTER
from conductor.core.scheduling import watching
from conductor.journal.models import AuditRecord
from conductor.plugins import registry
from conductor.scheduler import manager, plugin_health
from conductor.scheduler.active_plugins import in_force
from conductor.services.plugins import catalog, plugins
from conductor.services.plugins.catalog import PluginView
from tests.fixtures.destinations import check_rebuild
from tests.fixtures.plugin_quarantine import OPERATOR, ask, choose, moody
from tests.fleet import requested
from tests.integration.page_clients import signed_in

__all__ = ["moody"]

pytestmark = pytest.mark.usefixtures("databases")

KEY = (FILTER, "Moody")
NEVER = 3600.0


def shown() -> PluginView:
    return next(one for one in catalog.catalogue(OPERATOR, FILTER).plugins if one.name == "Moody")


def test_a_plugin_that_fails_too_often_is_quarantined_and_returns_by_itself(moody: Any, caplog: Any) -> None:
    decisions = [ask() for _ in range(3)]
    assert [one.summary["faults"][0]["error"] for one in decisions] == ["RuntimeError"] * 3
    assert decisions[-1].summary["plugin_uses"] == [
        {
            "kind": "filter", "plugin": "Moody", "mode": "decides", "turns": 1, "rejected": 2, "faults": 2,
            "overruns": 0, "milliseconds": decisions[-1].summary["plugin_uses"][0]["milliseconds"],
        }
    ]  # fmt: skip
    row = PluginQuarantine.objects.get()
    assert (row.kind, row.name, row.cause) == ("filter", "Moody", "faults")
    assert row.reason == "In its last 3 decisions it failed in 3 and took too long in 0."
    assert row.until is not None
    assert row.until - row.began_at >= timedelta(seconds=599)
    assert "plugin quarantined: kind=filter name=Moody" in caplog.text
    moody.mood = "passes"  # not noticed, as it is not called
    after = ask()
    assert not after.is_successful
    assert [(one["error"], one["consequence"]) for one in after.summary["faults"]] == [("in quarantine", "rejected")]
    assert "Filter Moody was not run on 2 hosts (in quarantine); consequence: rejected." in map(
        unpack, after.summary["advice"]
    )
    assert (shown().state, shown().quarantine.cause) == ("in quarantine", "faults")  # type: ignore[union-attr]
    assert Client().get("/readyz").json() == {"status": "ready", "remarks": {"plugins": "1 in quarantine"}}
    PluginQuarantine.objects.update(until=row.began_at)
    PluginChoice.objects.update(touched_at=row.began_at - timedelta(seconds=1))  # never the number that it had
    assert ask().is_successful
    assert Client().get("/readyz").json() == {"status": "ready"}


def test_every_scheduler_agrees_and_an_operator_lets_it_in_again(moody: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(on_failure="let pass")
    plugin_health.begin(KEY, cause="faults", reason="Another process has seen it fail.", seconds=60)
    decision = ask()
    assert decision.is_successful
    assert [(one["error"], one["consequence"]) for one in decision.summary["faults"]] == [("in quarantine", "let pass")]
    plugins.release(OPERATOR, FILTER, "Moody")
    moody.mood = "passes"
    assert ask().summary["faults"] == []
    assert AuditRecord.objects.filter(action="plugins.release").count() == 1
    assert not plugin_health.end(KEY)


def test_occasional_failures_do_not_quarantine_a_plugin(moody: Any) -> None:
    for mood in ("raises", "passes", "passes", "raises", "passes", "passes", "passes", "raises"):
        moody.mood = mood
        ask()
    assert not PluginQuarantine.objects.exists()


def test_a_plugin_that_exceeds_its_time_limit_is_stopped_and_quarantined(
    moody: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.NOVELLA_PLUGIN_SECONDS = 0.05
    monkeypatch.setattr(watching, "LEAST_PATIENCE_SECONDS", NEVER)  # it is not stopped
    moody.mood = "waits"
    decisions = [ask() for _ in range(3)]
    for decision in decisions:
        [fault] = decision.summary["faults"]
        assert (fault["error"], fault["count"]) == ("out of time", 1)  # of two hosts
        assert decision.is_successful
    assert PluginQuarantine.objects.get().cause == "overruns"


def test_a_plugin_that_loops_and_catches_everything_is_stopped_and_quarantined_at_once(
    moody: Any, people: Any, settings: Any, caplog: Any
) -> None:
    settings.NOVELLA_PLUGIN_SECONDS = 0.05
    moody.mood = "loops"
    decision = ask()
    assert not decision.is_successful
    [fault] = decision.summary["faults"]
    assert (fault["error"], fault["count"], fault["consequence"]) == ("out of time", 2, "rejected")
    assert decision.summary["plugin_uses"][0]["overruns"] == 1
    assert caplog.text.count("plugin was stopped: name=Moody") == 1  # nor is it asked again to explain the decision
    row = PluginQuarantine.objects.get()
    assert (row.cause, row.reason) == ("losses", "It did not come back in its time and was stopped.")
    client = signed_in("admin")
    assert "was stopped." in client.get("/plugins/filter/of/Moody").content.decode()
    assert "in quarantine" in client.get("/plugins").content.decode()


def test_a_plugin_that_hangs_in_a_library_is_stopped(moody: Any, settings: Any) -> None:
    """Each of these ends neither by an exception nor by a thread that gives up; two never let another thread run."""
    settings.NOVELLA_PLUGIN_SECONDS = 0.05
    choose(on_failure="let pass")
    for mood in ("matches", "counts", "sleeps"):
        moody.mood = mood
        decision = ask()
        assert decision.is_successful
        [fault] = decision.summary["faults"]
        assert (fault["error"], fault["count"], fault["consequence"]) == ("out of time", 2, "let pass")
        assert [one["error"] for one in ask().summary["faults"]] == ["in quarantine"]
        plugins.release(OPERATOR, FILTER, "Moody")
    settings.NOVELLA_PLUGIN_SECONDS = NEVER
    moody.mood = "passes"
    assert ask().summary["faults"] == []


def test_a_plugin_that_ends_its_process_ends_no_other_process(moody: Any) -> None:
    moody.mood = "exits"
    [fault] = ask().summary["faults"]
    assert (fault["error"], fault["count"], fault["consequence"]) == ("it ended its process", 2, "rejected")
    row = PluginQuarantine.objects.get()
    assert (row.cause, row.reason) == ("losses", "It ended its process.")
    plugins.release(OPERATOR, FILTER, "Moody")
    moody.mood = "passes"
    assert ask().is_successful


def test_a_plugin_that_hangs_again_is_quarantined_for_twice_as_long(moody: Any, settings: Any) -> None:
    settings.NOVELLA_QUARANTINE_FIRST_SECONDS, settings.NOVELLA_QUARANTINE_SECONDS = 30.0, 100.0
    choose(on_failure="let pass")
    moody.mood = "exits"
    for seconds in (30, 60, 100, 100):
        ask()
        row = PluginQuarantine.objects.get()
        assert round((row.until - row.began_at).total_seconds()) == seconds  # type: ignore[operator]
        ended = timezone.now() - timedelta(seconds=1)
        PluginQuarantine.objects.update(began_at=ended - timedelta(seconds=seconds), until=ended)
        PluginChoice.objects.update(touched_at=ended)
    long_ago = timezone.now() - timedelta(seconds=101)
    PluginQuarantine.objects.update(began_at=long_ago - timedelta(seconds=100), until=long_ago)
    PluginChoice.objects.update(touched_at=long_ago)
    ask()
    row = PluginQuarantine.objects.get()
    assert round((row.until - row.began_at).total_seconds()) == 30  # type: ignore[operator]


def test_a_quarantine_setting_of_zero_quarantines_no_plugin(moody: Any, settings: Any) -> None:
    settings.NOVELLA_QUARANTINE_AFTER = 0
    for mood in ("raises",) * 6 + ("exits",):
        moody.mood = mood
        ask()
    assert not PluginQuarantine.objects.exists()


def test_a_plugin_in_dry_run_decides_nothing_and_its_verdicts_are_recorded(moody: Any) -> None:
    choose(mode="shadow")
    moody.mood = "rejects"
    decision = ask()
    assert decision.is_successful
    [use] = decision.summary["plugin_uses"]
    assert (use["plugin"], use["mode"], use["rejected"], use["faults"]) == ("Moody", "shadow", 2, 0)
    assert shown().state == "watches"
    check_rebuild(requested(), "one")
    choose(mode=None)
    with pytest.raises(NoValidHost, match="not today"):
        check_rebuild(requested(), "one")


def test_a_server_that_stays_on_its_host_goes_by_the_same_rule(moody: Any) -> None:
    with pytest.raises(NoValidHost, match="failed") as caught:
        check_rebuild(requested(), "one")
    assert "secret" not in str(caught.value)
    choose(on_failure="let pass")
    check_rebuild(requested(), "one")


def test_plugin_statistics_are_stored_periodically_and_summed(moody: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_health, "FLUSH_SECONDS", NEVER)
    ask()
    assert not PluginMetric.objects.exists()
    manager.plugin_watch.flush()
    moody.mood = "rejects"
    monkeypatch.setattr(plugin_health, "FLUSH_SECONDS", -1.0)
    ask()
    metrics = shown().metrics
    assert metrics is not None
    assert (metrics.calls, metrics.faults, metrics.overruns, metrics.rejected) == (2, 2, 0, 4)
    assert metrics.p50_ms is not None
    assert 0 < metrics.p50_ms <= (metrics.p99_ms or 0)
    row = PluginMetric.objects.get(name="Moody")
    for hours, calls in ((1, 2), (-2, 0)):  # whichever full hour comes meanwhile
        PluginMetric.objects.filter(pk=row.pk).update(hour=row.hour + timedelta(hours=hours))
        assert (shown().metrics.calls, shown().this_hour.calls) == (2, calls)  # type: ignore[union-attr]
    PluginMetric.objects.filter(pk=row.pk).update(hour=row.hour - timedelta(days=8))
    ask()
    assert shown().metrics.calls == 1  # type: ignore[union-attr]
    assert PluginMetric.objects.filter(name="Moody").count() == 1  # what is too old goes


def test_a_database_that_refuses_the_account_keeps_no_decision_from_being_made(
    moody: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    moody.mood = "passes"

    def refuse(*args: Any) -> None:
        raise DatabaseError

    with monkeypatch.context() as broken:
        broken.setattr(plugin_health, "_store", refuse)
        broken.setattr(plugin_health, "FLUSH_SECONDS", -1.0)
        assert ask().is_successful
    manager.plugin_watch.flush()
    assert PluginMetric.objects.get(name="Moody").calls == 1  # nothing was lost


def test_statistics_are_kept_for_later_while_another_scheduler_stores_its_own(
    moody: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    moody.mood = "passes"

    def held(*args: Any) -> None:
        raise plugin_health._Busy

    with monkeypatch.context() as locked:
        locked.setattr(plugin_health, "_rows", held)
        locked.setattr(plugin_health, "FLUSH_SECONDS", -1.0)
        assert ask().is_successful
    assert not PluginMetric.objects.exists()
    assert "plugins cannot be accounted for now" not in caplog.text  # nothing is wrong
    manager.plugin_watch.flush()
    assert PluginMetric.objects.get(name="Moody").calls == 1


def test_options_of_external_plugins_are_checked_against_their_declaration(moody: Any) -> None:
    choose(options={"mood": "good", "token": "hush-hush-hush"})
    chosen = next(one for one in in_force().filters if one.name == "Moody")
    assert chosen.options == {"mood": "good", "token": "hush-hush-hush", "odd": 1}
    options = {one.name: (one.value, one.source) for one in shown().options}
    assert options == {"mood": ("good", "chosen"), "token": ("(hidden)", "chosen"), "odd": (1, "default")}
    for values, named in (
        ({"mood": "awful"}, '"awful"'),
        ({"token": "hush"}, "The option token of Moody does not fit"),
        ({"odd": 2}, "schema that is broken"),
        ({"moods": "good"}, "Did you mean mood?"),
    ):
        with pytest.raises(plugins.Invalid) as caught:
            choose(options=values)
        assert named in caught.value.message
        assert "hush" not in caught.value.message
    assert "hush" not in repr([(one.details, one.error) for one in AuditRecord.objects.all()])
    assert chosen in in_force().filters
    choose(options={"mood": None})
    assert shown().options[0].source == "default"


def test_a_configured_plugin_that_is_not_installed_is_reported_until_it_is_disabled(moody: Any, tmp_path: Path) -> None:
    choose(is_enabled=True, mode="decides")
    (tmp_path / "mood_plugins-1.0.dist-info" / "entry_points.txt").write_text("")
    registry.cache_clear()
    decision = ask()
    assert not decision.is_successful
    assert [one["error"] for one in decision.summary["faults"]] == ["PluginMissing"]
    assert (shown().state, shown().distribution) == ("missing", "")
    with pytest.raises(plugins.Invalid, match="No plugin brings a filter Moody"):
        choose(mode="shadow")
    choose(is_enabled=None)
    assert ask().is_successful
