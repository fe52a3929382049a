"""Extensions of the third-party package besides its filter, used by the product; and each way to break them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db.transaction import set_rollback
from django.test import Client
from pytest_django import Settings

from conductor import events
from conductor.api_db.models import BuildRequest, PluginMetric, PluginQuarantine, RequestSpecRecord
from conductor.core.errors import DriverError, Invalid, QuotaExceeded, Unavailable
from conductor.core.extensions import SERVER, PageSubject
from conductor.db.transactions import write_tx
from conductor.plugins import check_plugins, converters
from conductor.scheduler import active_plugins, placement_bounds
from conductor.scheduler.plugin_health import plugin_watch
from conductor.services.plugins import panels, workflow_observers
from conductor.services.quotas import quotas
from conductor.services.servers import launch_questions
from conductor.services.servers.types import InstanceCreate
from tests import factories
from tests.fixtures.page_text import text
from tests.fixtures.plugin_use import FLAVOR, Use, choices, spec, use
from tests.integration.page_clients import signed_in

__all__ = ["choices", "use"]

FORM = "form:WhichRack"
pytestmark = pytest.mark.usefixtures("databases")


def stored(kind: str, name: str) -> PluginMetric:
    """Return the stored metrics."""
    plugin_watch.flush()
    return PluginMetric.objects.get(kind=kind, name=name)


def test_a_prefilter_adds_requirements_and_refuses_with_its_message(use: Use) -> None:
    assert placement_bounds.bounded(spec(rack=["r1"])).bounds.to_json() == {}
    use("prefilter", "RackTrait", trait="CUSTOM_ROW_7")
    assert placement_bounds.bounded(spec(rack=["r1"])).bounds.to_json() == {"root_required": ["CUSTOM_ROW_7"]}
    assert placement_bounds.bounded(spec()).bounds.to_json() == {}
    with pytest.raises(Invalid, match="There is no rack r13"):
        placement_bounds.bounded(spec(rack=["r13"]))


@pytest.mark.parametrize(("mode", "why"), [("lies", "returned dict instead of Bounds"), ("writes", "TypeError")])
def test_a_failed_prefilter_refuses_the_request(use: Use, mode: str, why: str) -> None:
    use("prefilter", "TroubleTrait", mode=mode)
    with pytest.raises(Unavailable, match=f"The pre-filter TroubleTrait gave no answer: {why}"):
        placement_bounds.bounded(spec(rack=["r1"]))


def test_a_quota_source_lowers_limits_and_never_raises_them(use: Use) -> None:
    before = quotas.limits("shop")
    use("quota_source", "RackLimits", instances=2)
    assert quotas.limits("shop") == {**before, "instances": 2}
    assert quotas.preview_launch("shop", FLAVOR, at_least=1, at_most=5) == 2
    with pytest.raises(QuotaExceeded, match="instances"):
        quotas.preview_launch("shop", FLAVOR, at_least=3, at_most=3)
    use("quota_source", "RackLimits", instances=10_000)
    assert quotas.limits("shop") == before


def test_a_quota_source_that_fails_is_counted_and_the_stored_limits_hold(
    use: Use, caplog: pytest.LogCaptureFixture
) -> None:
    before = quotas.limits("shop")
    use("quota_source", "RackLimits", broken=True)
    assert quotas.limits("shop") == before
    assert "extension failed: kind=quota_source name=RackLimits reason=RuntimeError" in caplog.text
    assert stored("quota_source", "RackLimits").faults >= 1


def requested(**answers: list[str]) -> InstanceCreate:
    hints = {f"{FORM}.{name}": words for name, words in answers.items()}
    return InstanceCreate("web", "1", scheduler_hints=hints, metadata={"role": "web"})


def test_answers_become_hints_and_metadata_and_are_kept(use: Use) -> None:
    use("launch_form", "WhichRack")
    done = launch_questions.applied(requested(rack=["r1"], payer=["lab"], units=["3"]))
    assert done.metadata == {"role": "web", "payer": "lab", "units": "3"}
    assert done.scheduler_hints["rack"] == ["r1"]
    assert done.scheduler_hints[f"{FORM}.units"] == ["3"]


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        ({}, f"{FORM}.payer: Cost centre is to be answered"),
        ({"payer": ["LAB"]}, f"{FORM}.payer: LAB does not fit; it is to have the form"),
        ({"payer": ["lab"], "units": ["nine"]}, f"{FORM}.units: nine does not fit"),
        ({"payer": ["lab"], "units": ["9"]}, f"{FORM}.units: 9 does not fit"),
        ({"payer": ["lab", "shop"]}, f"{FORM}.payer: it is one text, not a list of several"),
        ({"payer": ["lab"], "rak": ["r1"]}, f"{FORM}.rak: the form has no such question. Did you mean {FORM}.rack?"),
        ({"payer": ["lab"], "units": ["3"]}, "Name a rack for more than two units."),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_by_name(
    use: Use, answers: Mapping[str, list[str]], complaint: str
) -> None:
    use("launch_form", "WhichRack")
    with pytest.raises(Invalid) as refusal:
        launch_questions.applied(requested(**answers))
    assert complaint in refusal.value.message
    assert refusal.value.details["field"].startswith(f"os:scheduler_hints.{FORM}.")


def test_the_launch_page_asks_what_the_plugin_asks_and_keeps_the_answer(
    use: Use, people: Any, choices: dict[str, str]
) -> None:
    use("launch_form", "WhichRack")
    client = signed_in("ana")
    page = text(client.get("/servers/launch"))
    assert 'name="form:WhichRack.payer"' in page
    assert "Small letters, such as lab." in page
    sent = {"name": "web-1", "count": "1", "network": "none", "once": str(uuid4()), **choices}
    refused = client.post("/servers/launch", {**sent, f"{FORM}.rack": "r2", f"{FORM}.payer": "L"})
    assert refused.status_code == 400
    assert "L does not fit" in text(refused)
    assert '<option value="r2" selected>' in text(refused)
    assert not BuildRequest.objects.exists()
    done = client.post("/servers/launch", {**sent, f"{FORM}.rack": "r2", f"{FORM}.payer": "lab"})
    assert done.status_code == 302
    stored = RequestSpecRecord.objects.get().spec
    assert stored["scheduler_hints"] == {f"{FORM}.rack": ["r2"], f"{FORM}.payer": ["lab"], "rack": ["r2"]}
    assert BuildRequest.objects.get().instance["metadata"] == {"payer": "lab", "units": "1"}


SUBJECT = PageSubject(SERVER, str(uuid4()), "web-1", "shop")


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("raises", "RuntimeError"),
        ("hangs", "did not answer within 0.2 seconds"),
        ("lies", "returned str instead of PanelData"),
    ],
)
def test_a_panel_that_fails_is_shown_as_one_and_names_the_cause_to_operators(
    use: Use, people: Any, mode: str, why: str
) -> None:
    use("panel", "RackPanel", mode=mode)
    (view,) = panels.shown(people.admin.context(), SUBJECT)
    assert (view.title, view.problem, view.pairs) == ("Rack", why, ())
    (seen,) = panels.shown(people.ana.context(), SUBJECT)
    assert seen.problem == "it failed"


def test_a_server_has_the_card_on_its_page_and_what_is_in_it_is_text(use: Use, people: Any) -> None:
    use("panel", "RackPanel")
    factories.cells()
    server = factories.instance(people.ana.context(), "web-1")
    page = text(signed_in("ana").get(f"/servers/{server.uuid}"))
    card = page.split('data-panel="RackPanel"')[1].split("</section>")[0]
    assert "&lt;b&gt;7&lt;/b&gt;" in card
    assert "Door key at the desk." in card


def test_a_plugin_that_fails_too_often_is_quarantined(use: Use, people: Any, settings: Settings) -> None:
    settings.NOVELLA_QUARANTINE_AFTER = 2
    use("panel", "RackPanel", mode="raises")
    for _ in range(2):
        panels.shown(people.ana.context(), SUBJECT)
    shut = PluginQuarantine.objects.get()
    assert (shut.kind, shut.name, shut.cause) == ("panel", "RackPanel", "faults")
    (view,) = panels.shown(people.admin.context(), SUBJECT)
    assert view.problem == "in quarantine"


def test_a_converter_reads_and_writes_its_format_and_what_it_refuses_leaves_nothing(use: Use, tmp_path: Path) -> None:
    use("image_converter", "RackDisks")
    raw, disk, back = tmp_path / "a.raw", tmp_path / "a.rack", tmp_path / "b.raw"
    raw.write_bytes(b"data" * 100)
    assert converters.converted(raw, "raw", disk, "rack")
    assert converters.converted(disk, "rack", back, "raw")
    assert back.read_bytes() == raw.read_bytes()
    assert not converters.converted(raw, "qcow2", tmp_path / "c.raw", "raw")
    with pytest.raises(DriverError, match="The image converter RackDisks failed: The data are no disk of a rack"):
        converters.converted(raw, "rack", tmp_path / "d.raw", "raw")
    assert not (tmp_path / "d.raw").exists()
    assert converters.written() == {"rack"}


def test_a_converter_that_fails_too_often_is_quarantined_and_leaves_no_files(
    use: Use, settings: Settings, tmp_path: Path
) -> None:
    settings.NOVELLA_QUARANTINE_AFTER = 2
    use("image_converter", "TroubleDisks", mode="raises")
    raw, disk = tmp_path / "a.raw", tmp_path / "a.trouble"
    raw.write_bytes(b"data")
    lines = []
    for _ in range(3):
        with pytest.raises(DriverError) as failed:
            converters.converted(raw, "raw", disk, "trouble")
        lines.append(failed.value.message)
        assert not disk.exists()
    assert lines == [
        *["The image converter TroubleDisks failed: ValueError."] * 2,
        "The image converter TroubleDisks failed: in quarantine.",
    ]
    shut = PluginQuarantine.objects.get()
    assert (shut.kind, shut.name, shut.cause) == ("image_converter", "TroubleDisks", "faults")
    metric = stored("image_converter", "TroubleDisks")
    assert (metric.calls, metric.faults, metric.overruns) == (2, 2, 0)  # a quarantined plugin is not called


@pytest.fixture
def deliveries() -> Iterator[None]:
    yield
    for one in workflow_observers._deliveries:
        one.end()
    workflow_observers._deliveries.clear()
    if workflow_observers._hear in events._listeners:
        events._listeners.remove(workflow_observers._hear)


def test_an_observer_gets_committed_events_in_order_and_a_hanging_one_is_skipped(
    use: Use, deliveries: None, tmp_path: Path
) -> None:
    use("flow_observer", "TroubleLog", path=str(tmp_path / "log"), stops_at="server.stuck", mode="counts")
    (delivery,) = workflow_observers.listen()
    assert workflow_observers.listen() == [delivery]
    uuid = uuid4()

    def emit(*kinds: str) -> None:
        for kind in kinds:
            with write_tx("cell1"):
                events.append("cell1", events.about_instance(uuid, "shop"), kind)

    emit("server.one", "server.two")
    with write_tx("cell1"):
        events.append("cell1", events.about_instance(uuid, "shop"), "server.never")
        set_rollback(True, using="cell1")
    emit("server.stuck", "server.late")
    delivery.end(30.0)
    heard = [f"{number} {kind} cell1 shop {uuid}" for number, kind in ((1, "server.one"), (2, "server.two"))]
    assert (tmp_path / "log").read_text().splitlines() == heard
    assert stored("flow_observer", "TroubleLog").overruns == 1
    assert PluginQuarantine.objects.get().cause == "losses"  # so the event after it passes it by


def test_invalid_settings_are_reported_by_check(use: Use, settings: Settings) -> None:
    use("panel", "RackPannel")
    settings.NOVELLA_EXTENSIONS |= {"pannel": {}, "prefilter": {"RackTrait": {"trait": "ssd"}}, "launch_form": {}}
    lines = [one.msg for one in check_plugins() if one.id == "conductor.W005"]
    assert lines[0].startswith("NOVELLA_EXTENSIONS.panel: No plugin brings a panel RackPannel. Did you mean RackPanel?")
    assert lines[1].startswith("NOVELLA_EXTENSIONS: There is no kind pannel. Did you mean panel?")
    assert lines[2].startswith(
        "NOVELLA_EXTENSIONS.prefilter.RackTrait.trait: The option trait of RackTrait does not fit."
    )


def test_extensions_that_the_operator_does_not_name_are_not_called(client: Client) -> None:
    assert active_plugins.in_use("panel") == []
    assert launch_questions.applied(InstanceCreate("web", "1")) == InstanceCreate("web", "1")


def test_operators_see_extensions_and_let_one_in_again(use: Use, people: Any, settings: Settings) -> None:
    use("panel", "RackPanel", mode="raises")
    settings.NOVELLA_QUARANTINE_AFTER = 1
    panels.shown(people.ana.context(), SUBJECT)
    plugin_watch.flush()
    admin = signed_in("admin")
    page = text(admin.get("/plugins"))
    row = page.split('id="panel-RackPanel"')[1].split("</tr>")[0]
    assert re.search(r"call.* in 24 h, [1-9]\d* failed", row), row
    assert "in quarantine" in row
    assert 'id="prefilter-RackTrait"' in page
    assert admin.post("/plugins/panel/of/RackPanel/release").status_code == 302
    assert PluginQuarantine.objects.get().released_at is not None
    assert "RackPanel" in text(admin.get("/plugins/panel/of/RackPanel"))
    assert admin.get("/plugins/panel/of/NoPanel").status_code == 404
