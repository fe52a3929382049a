"""Details of a plugin for operators: errors, log lines, shadow decisions, and conformance."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError

from conductor.api_db.models import PluginConformance, PluginNote
from conductor.conformance import plugin_check
from conductor.core.context import system_context
from conductor.core.errors import Invalid, NotFound
from conductor.core.plugin_choice import FILTER, WEIGHER
from conductor.journal.models import AuditRecord
from conductor.plugins import registry
from conductor.plugins.log import AT_MOST, LINE, Note, notes
from conductor.scheduler import manager, plugin_health
from conductor.services.plugins import conformance_records, details, plugins
from conductor.services.plugins.plugins import PluginSettingsChange
from tests.fixtures.plugin_quarantine import ask, choose, moody
from tests.fleet import add_host
from tests.integration.page_clients import signed_in, text

__all__ = ["moody"]

pytestmark = pytest.mark.usefixtures("databases")

OPERATOR = system_context()
KEY = (FILTER, "Moody")
MOODY = "/plugins/filter/of/Moody"
BEGAN = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _nothing_noted() -> Iterator[None]:
    notes.take()
    yield
    notes.take()


def report(**values: Any) -> dict[str, Any]:
    """Return a report about a driver, as its command writes it."""
    installed = registry().source_of("driver", "fake").version  # none where the checkout alone is used
    laws = [{"name": "a_guest_runs", "outcome": "kept"}, {"name": "it_pauses", "outcome": "not offered"}]
    return {"report": 1, "driver": "fake", "distribution": "novella", "version": installed, "level": "core",
            "began_at": BEGAN.isoformat(), "laws": laws, **values}  # fmt: skip


def of_filter(*outcomes: str, name: str = "IoOpsFilter") -> dict[str, Any]:
    laws = [{"law": f"law_{number}", "outcome": outcome} for number, outcome in enumerate(outcomes)]
    one = {"plugin": name, "kind": FILTER, "distribution": "novella", "version": "0.1", "laws": laws}
    return {"report": 1, "began_at": BEGAN.isoformat(), "plugins": [one]}


def suffer(moody: Any) -> str:
    """Moody fails twice, turns all away in the shadow, then passes; the run in which it would have mattered."""
    ask()
    ask()
    moody.mood = "grumbles"
    choose(mode="shadow")
    run_uuid = str(ask().run_uuid)
    moody.mood = "passes"
    ask()  # it would have changed nothing
    manager.plugin_watch.flush()  # type: ignore[attr-defined]
    return run_uuid


def test_errors_lines_and_differences_are_kept_and_shown_everywhere(moody: Any, people: Any, api_client: Any) -> None:
    run_uuid = suffer(moody)
    found = details.detail(OPERATOR, *KEY)
    assert [(one.error, one.times) for one in found.faults] == [("RuntimeError; rejected", 2)]
    assert found.faults[0].place.startswith("mood_plugins:")
    assert found.faults[0].place.endswith(" in host_passes")
    (difference,) = found.differences
    assert difference.text in {f"would have rejected {host}, which was chosen (not today)" for host in ("one", "two")}
    assert difference.run_uuid == run_uuid
    assert {(one.level, one.text.split(" with ")[1]) for one in found.lines} == {("warning", "token=•••")}
    assert found.plugin.metrics is not None
    assert (found.plugin.metrics.calls, found.plugin.metrics.differed) == (4, 1)
    body = api_client("admin").get("/api/plugins/filter/Moody").json()
    assert body["faults"][0]["error"] == "RuntimeError; rejected"
    assert (body["differences"][0]["run_uuid"], body["plugin"]["metrics"]["differed"]) == (run_uuid, 1)
    admin = signed_in("admin")
    page = text(admin.get(MOODY))
    assert f'href="/workflows/{run_uuid}"' in page
    assert "RuntimeError; rejected" in page
    for secret in ("/secret/path", "sesame"):
        assert secret not in page + json.dumps(body)
    german = text(admin.get(MOODY, headers={"Accept-Language": "de"}))
    assert "Letzte Fehler" in german
    reported = io.StringIO()
    call_command("plugins", "show", "Moody", stdout=reported)
    assert "last 24 hours: 4 calls, " in reported.getvalue()
    assert " 0 overruns, 1 different decisions in shadow mode, p50 " in reported.getvalue()
    assert "RuntimeError; rejected at mood_plugins:" in reported.getvalue()
    assert f"(workflow {run_uuid})" in reported.getvalue()
    assert api_client("ana").get("/api/plugins/filter/Moody").status_code == 403
    assert api_client("admin").get("/api/plugins/filter/Nobody").status_code == 404


def test_a_dry_run_weigher_reports_another_choice(databases: None) -> None:
    add_host("big", size=(8, 16384, 100))
    add_host("small", size=(8, 8192, 100))
    change = PluginSettingsChange(mode="shadow", multiplier=-9.0, keys=frozenset({"mode", "multiplier"}))
    plugins.change(OPERATOR, WEIGHER, plugins={"RAMWeigher": change})
    others = PluginSettingsChange(is_enabled=False, keys=frozenset({"is_enabled"}))
    plugins.change(OPERATOR, WEIGHER, plugins={"DiskWeigher": others})
    assert ask().is_successful
    assert notes.take() == {}  # without it both are alike, and either may be chosen: the small one is no other choice
    add_host("wide", size=(32, 32768, 100))
    assert ask().selections[0][0]["host"] == "wide"
    messages = [one.text for one in notes.take()[WEIGHER, "RAMWeigher"]]
    assert messages == ["would have chosen small instead of wide"]


def test_only_the_last_are_kept_and_nothing_is_lost_while_the_database_is_away(
    databases: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(AT_MOST):
        notes.add(KEY, Note(LINE, f"line {number}", BEGAN.timestamp() + number, level="info"))
    plugin_health.store()
    notes.add(KEY, Note(LINE, "one more", BEGAN.timestamp() + AT_MOST, level="info"))
    with monkeypatch.context() as away:

        def fails(*args: Any, **kwargs: Any) -> Any:
            raise DatabaseError("away")

        away.setattr(plugin_health, "write_tx", fails)
        with pytest.raises(DatabaseError):
            plugin_health.store()
    assert PluginNote.objects.count() == AT_MOST
    plugin_health.store()
    kept = list(PluginNote.objects.order_by("id").values_list("text", flat=True))
    assert kept == [*(f"line {number}" for number in range(1, AT_MOST)), "one more"]


def test_conformance_results_are_stored_with_their_date(people: Any, api_client: Any, tmp_path: Path) -> None:
    assert conformance_records.record(OPERATOR, report()) == [("driver", "fake")]
    path = tmp_path / "report.json"
    path.write_text(json.dumps(of_filter("kept", "broken", "not tested")))
    reported = io.StringIO()
    call_command("plugins", "record", str(path), stdout=reported)
    assert "[conformance: broken, checked with version 0.1 on 2026-01-31]" in reported.getvalue()
    body = api_client("admin").get("/api/plugins/driver/fake").json()["plugin"]["conformance"]
    assert {key: body[key] for key in ("level", "kept", "broken", "untried", "is_current")} == {
        "level": "core", "kept": 1, "broken": [], "untried": 1, "is_current": True,
    }  # fmt: skip
    assert datetime.fromisoformat(body["shown_at"]) == BEGAN
    admin = signed_in("admin")
    assert "conformance: core" in text(admin.get("/plugins"))
    assert "Konformität: core" in text(admin.get("/plugins", headers={"Accept-Language": "de"}))
    page = text(admin.get("/plugins/filter/of/IoOpsFilter"))
    assert "law_1" in page
    assert "tested version: 0.1 (not the installed one)" in page
    assert AuditRecord.objects.filter(action="plugins.record").count() == 2


@pytest.mark.parametrize(
    ("given", "field", "reason"),
    [
        ([], "report", "not a report of a conformance command"),
        (report(report=2), "report", "not a report of a conformance command"),
        (report(level="great"), "level", "not a report of a conformance command"),
        (report(laws=[]), "laws", "not a report of a conformance command"),
        (report(driver="fakes"), "driver", "No plugin brings a driver fakes. Did you mean fake?"),
        (report(began_at="yesterday"), "began_at", "Enter a date and time with a zone"),
        (report(began_at="2026-01-31T12:00:00"), "began_at", "Enter a date and time with a zone"),
        (report(began_at="2999-01-01T00:00:00+00:00"), "began_at", "can't begin in the future"),
        (
            report(began_at=(BEGAN - timedelta(days=1)).isoformat()),
            "began_at",
            "There is a newer report about fake",
        ),
        (of_filter("kept", name="Nobody"), "plugins[0].plugin", "No plugin brings a filter Nobody."),
    ],
)
def test_an_invalid_conformance_report_is_refused_and_changes_nothing(given: Any, field: str, reason: str) -> None:
    conformance_records.record(OPERATOR, report())
    before = list(PluginConformance.objects.values())
    with pytest.raises(Invalid) as refusal:
        conformance_records.record(OPERATOR, given)
    assert refusal.value.details["field"] == field
    assert reason in refusal.value.message
    assert list(PluginConformance.objects.values()) == before


def test_the_command_stores_its_own_report(databases: None, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_check, "_ask_elsewhere", lambda *words: None)  # dear, and asked in tests of its own
    assert plugin_check.main(["AllHostsFilter", "--record"]) == 0
    row = PluginConformance.objects.get()
    assert (row.kind, row.name, row.level, row.broken) == (FILTER, "AllHostsFilter", "kept", [])
    assert plugin_check.main(["scheduler_plugins.filters.all_hosts:AllHostsFilter", "--record"]) == 2
    assert "--record: the catalogue has what is installed" in capsys.readouterr().err


def test_what_is_not_there_is_refused(databases: None, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no filter Nobody in the catalogue"):
        details.detail(OPERATOR, FILTER, "Nobody")
    (tmp_path / "text").write_text("no JSON")
    for path, reason in ((tmp_path / "none", "it cannot be read"), (tmp_path / "text", "it is no JSON")):
        with pytest.raises(CommandError, match=reason):
            call_command("plugins", "record", str(path))
    assert not PluginConformance.objects.exists()
