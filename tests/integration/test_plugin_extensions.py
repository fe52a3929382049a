"""What the third-party package adds beside its filter, used by the product at its places; and each way to break it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
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
from conductor.core.extensions.panel import SERVER, Shown
from conductor.core.request_spec import FlavorSpec, RequestSpec
from conductor.plugins import check_plugins, converters, registry
from conductor.scheduler import extensions, request_bounds
from conductor.scheduler.extensions import in_use
from conductor.scheduler.plugin_watch import plugin_watch
from conductor.services import flavors, flow_observers, launch_forms, panels, quotas
from conductor.services.values import BuildWish
from conductor.transactions import write_tx
from tests import factories
from tests.integration.page_clients import signed_in
from tests.integration.test_intervention_pages import text

SOURCE = Path(__file__).parents[1] / "third_party_plugin" / "src"
FLAVOR = FlavorSpec("1", "small", 1, 512, root_gb=1)
FORM = "form:WhichRack"
Use = Callable[..., None]
pytestmark = pytest.mark.usefixtures("databases")


@pytest.fixture
def use(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Use]:
    """`use("panel", "RackPanel", mode="hangs")`: the operator names it, and the package is installed."""
    monkeypatch.syspath_prepend(str(SOURCE))
    settings.NOVELLA_PLUGINS = (*settings.NOVELLA_PLUGINS, "rack_plugins.plugin")
    registry.cache_clear()

    def named(kind: str, name: str, **options: Any) -> None:
        settings.NOVELLA_EXTENSIONS = {**settings.NOVELLA_EXTENSIONS, kind: {name: options}}

    yield named
    registry.cache_clear()
    extensions._made.clear()


def stored(kind: str, name: str) -> PluginMetric:
    """What was counted."""
    plugin_watch.flush()
    return PluginMetric.objects.get(kind=kind, name=name)


def spec(**hints: list[str]) -> RequestSpec:
    return RequestSpec("shop", "ana", FLAVOR, scheduler_hints=hints)


def test_a_prefilter_demands_of_placement_and_refuses_in_its_words(use: Use) -> None:
    assert request_bounds.bounded(spec(rack=["r1"])).bounds.to_json() == {}
    use("prefilter", "RackTrait", trait="CUSTOM_ROW_7")
    assert request_bounds.bounded(spec(rack=["r1"])).bounds.to_json() == {"root_required": ["CUSTOM_ROW_7"]}
    assert request_bounds.bounded(spec()).bounds.to_json() == {}
    with pytest.raises(Invalid, match="There is no rack r13"):
        request_bounds.bounded(spec(rack=["r13"]))


def test_a_prefilter_that_fails_is_never_taken_for_one_that_demands_nothing(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    use("prefilter", "RackTrait")
    kind = registry().extensions["prefilter"]["RackTrait"]
    monkeypatch.setattr(kind, "bounds", lambda self, spec: {"required": ["CUSTOM_X"]})
    with pytest.raises(Unavailable, match="The pre-filter RackTrait gave no answer: said dict where Bounds belong"):
        request_bounds.bounded(spec(rack=["r1"]))

    def writes(self: Any, spec: RequestSpec) -> Any:
        spec.scheduler_hints["rack"] = []  # type: ignore[index]

    monkeypatch.setattr(kind, "bounds", writes)
    with pytest.raises(Unavailable, match="RackTrait gave no answer: TypeError"):
        request_bounds.bounded(spec(rack=["r1"]))


def test_a_quota_source_tightens_and_never_widens(use: Use) -> None:
    before = quotas.limits("shop")
    use("quota_source", "RackLimits", instances=2)
    assert quotas.limits("shop") == {**before, "instances": 2}
    assert quotas.room_now("shop", FLAVOR, at_least=1, at_most=5) == 2
    with pytest.raises(QuotaExceeded, match="instances"):
        quotas.room_now("shop", FLAVOR, at_least=3, at_most=3)
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


def wish(**answers: list[str]) -> BuildWish:
    hints = {f"{FORM}.{name}": words for name, words in answers.items()}
    return BuildWish("web", "1", scheduler_hints=hints, metadata={"role": "web"})


def test_answers_become_hints_and_metadata_and_are_kept(use: Use) -> None:
    use("launch_form", "WhichRack")
    done = launch_forms.applied(wish(rack=["r1"], payer=["lab"], units=["3"]))
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
        ({"payer": ["lab"], "rak": ["r1"]}, f"{FORM}.rak: nobody asks that here. Did you mean {FORM}.rack?"),
        ({"payer": ["lab"], "units": ["3"]}, "Name a rack for more than two units."),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_by_name(
    use: Use, answers: Mapping[str, list[str]], complaint: str
) -> None:
    use("launch_form", "WhichRack")
    with pytest.raises(Invalid) as refusal:
        launch_forms.applied(wish(**answers))
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


@pytest.fixture
def choices(people: Any) -> dict[str, str]:
    """An image and a flavor that ana may launch with."""
    factories.cells()
    flavors.seed()
    image = factories.image("simulated-linux", people.admin.context(), is_simulated=True)
    return {"image": str(image.uuid), "flavor": "2"}


SUBJECT = Shown(SERVER, str(uuid4()), "web-1", "shop")


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("raises", "RuntimeError"),
        ("hangs", "did not answer within 0.2 seconds"),
        ("lies", "said str where PanelData belong"),
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


def test_a_plugin_that_fails_too_often_is_shut_out(use: Use, people: Any, settings: Settings) -> None:
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


def test_a_converter_that_fails_too_often_is_counted_and_shut_out_and_leaves_nothing(
    use: Use, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.NOVELLA_QUARANTINE_AFTER = 2
    use("image_converter", "RackDisks")
    (one,) = in_use("image_converter")

    def breaks(source: Path, source_format: str, target: Path, target_format: str) -> None:
        target.write_bytes(b"half")
        raise RuntimeError("the key is hunter2")

    monkeypatch.setattr(one.extension, "convert", breaks, raising=True)
    raw, disk = tmp_path / "a.raw", tmp_path / "a.rack"
    raw.write_bytes(b"data")
    said = []
    for _ in range(3):
        with pytest.raises(DriverError) as failed:
            converters.converted(raw, "raw", disk, "rack")
        said.append(failed.value.message)
        assert not disk.exists()
    assert said == [
        *["The image converter RackDisks failed: RuntimeError."] * 2,
        "The image converter RackDisks failed: in quarantine.",
    ]
    shut = PluginQuarantine.objects.get()
    assert (shut.kind, shut.name, shut.cause) == ("image_converter", "RackDisks", "faults")
    metric = stored("image_converter", "RackDisks")
    assert (metric.calls, metric.faults, metric.overruns) == (2, 2, 0)  # who is shut out is not asked


@pytest.fixture
def tellings() -> Iterator[None]:
    yield
    for one in flow_observers._tellings:
        one.end()
    flow_observers._tellings.clear()
    if flow_observers._hear in events._listeners:
        events._listeners.remove(flow_observers._hear)


def test_an_observer_hears_what_was_committed_in_order_and_one_that_hangs_is_passed_by(
    use: Use, tellings: None
) -> None:
    use("flow_observer", "RackLog", stops_at="server.stuck")
    (telling,) = flow_observers.listen()
    assert flow_observers.listen() == [telling]
    uuid = uuid4()

    def tell(*kinds: str) -> None:
        for kind in kinds:
            with write_tx("cell1"):
                events.append("cell1", events.about_instance(uuid, "shop"), kind)

    tell("server.one", "server.two")
    with write_tx("cell1"):
        events.append("cell1", events.about_instance(uuid, "shop"), "server.never")
        set_rollback(True, using="cell1")
    tell("server.stuck", "server.late")
    telling.end()
    log: Any = telling.one.extension
    assert [one.kind for one in log.seen][:2] == ["server.one", "server.two"]
    assert "server.never" not in [one.kind for one in log.seen]
    assert (log.seen[0].cell, log.seen[0].project_id, log.seen[0].instance_uuid) == ("cell1", "shop", str(uuid))
    assert stored("flow_observer", "RackLog").overruns >= 1


def test_what_the_settings_name_wrongly_is_told_by_check(use: Use, settings: Settings) -> None:
    use("panel", "RackPannel")
    settings.NOVELLA_EXTENSIONS |= {"pannel": {}, "prefilter": {"RackTrait": {"trait": "ssd"}}, "launch_form": {}}
    said = [one.msg for one in check_plugins() if one.id == "conductor.W005"]
    assert said[0].startswith("NOVELLA_EXTENSIONS.panel: No plugin brings a panel RackPannel. Did you mean RackPanel?")
    assert said[1].startswith("NOVELLA_EXTENSIONS: There is no kind pannel. Did you mean panel?")
    assert said[2].startswith(
        "NOVELLA_EXTENSIONS.prefilter.RackTrait.trait: The option trait of RackTrait does not fit."
    )


def test_nothing_is_asked_where_the_operator_names_nothing(client: Client) -> None:
    assert extensions.in_use("panel") == []
    assert launch_forms.applied(BuildWish("web", "1")) == BuildWish("web", "1")


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
