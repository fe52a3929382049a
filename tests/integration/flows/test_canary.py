"""A host that returns to service behind a canary: opened when a server lived there, closed with the reason else."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.api_db.models import Flavor, InstanceMapping, RequestSpecRecord
from conductor.cell_db.models import Instance, Service
from conductor.core.errors import Conflict, QuotaExceeded, ResourceLocked
from conductor.core.states import LIVE_RUN_STATES, RunState
from conductor.db.transactions import write_tx
from conductor.journal.models import AuditRecord, ResourceLock, WorkflowRun
from conductor.placement.models import Allocation
from conductor.rpc import outbox
from conductor.services.fleet import canaries, drains, host_actions
from conductor.services.fleet.drains import DrainRequest
from conductor.services.servers import create_requests, instances
from conductor.services.servers.types import InstanceCreate
from tests.fixtures.page_text import text
from tests.fleet import silence
from tests.integration.flows.moving import CELL, Hosts, step_on
from tests.integration.page_clients import signed_in

HOST = "sim-2"


def settle(hosts: Hosts) -> None:
    """Let conductors and hosts work until nothing is under way."""
    for _ in range(80):
        canaries.advance(CELL)
        if not step_on(hosts):
            return
    raise AssertionError(list(WorkflowRun.objects.using(CELL).filter(state__in=LIVE_RUN_STATES)))


def service() -> Service:
    return Service.objects.using(CELL).get(host=HOST)


@pytest.fixture
def closed(hosts: Hosts, admin: Any, settings: Any) -> Hosts:
    settings.NOVELLA_PREFILTERS = ("enable_isolated_aggregate_filtering",)  # so that closed hosts are not asked for
    host_actions.execute(admin, HOST, "close", reason="new memory")
    return hosts


def assert_nothing_is_left(hosts: Hosts) -> None:
    assert not Instance.objects.using(CELL).alive().exists()
    assert not InstanceMapping.objects.filter(is_deleted=False).exists()
    assert not Allocation.objects.exists()
    assert not ResourceLock.objects.using(CELL).exists()
    assert not hosts.guests.get(HOST)


def test_the_host_opens_when_its_canary_has_lived(closed: Hosts, admin: Any) -> None:
    reported = host_actions.execute(admin, HOST, "try", reason="memory is in")
    assert reported == f"A canary is testing {HOST}. The host opens when it succeeds."
    canaries.advance(CELL)
    canaries.advance(CELL)
    (spec,) = RequestSpecRecord.objects.values_list("spec", flat=True)
    assert (spec["force_hosts"], spec["is_canary"]) == ([HOST], True)
    while not Instance.objects.using(CELL).alive().filter(launched_at__isnull=False).exists():
        step_on(closed)
    (row,) = Instance.objects.using(CELL).alive()
    assert (row.host, row.name, row.tags, service().is_disabled) == (HOST, f"canary-{HOST}", ["canary"], True)
    settle(closed)
    view = canaries.newest(admin, HOST)
    assert view is not None
    assert (view.state, view.why, view.instance_uuid) == (RunState.DONE, "", str(row.uuid))
    assert (service().is_disabled, service().disabled_reason) == (False, None)
    assert_nothing_is_left(closed)
    assert "Canary succeeded. The host was enabled" in text(signed_in("admin").get(f"/hosts/{HOST}"))


def test_the_host_stays_closed_with_the_reason_when_its_canary_fails(closed: Hosts, admin: Any) -> None:
    closed.fails = lambda message, host: "DriverError" if message == "spawn_instance" else None
    canaries.begin(admin, HOST)
    settle(closed)
    view = canaries.newest(admin, HOST)
    assert view is not None
    assert (view.state, view.why.startswith("The canary failed: ")) == (RunState.FAILED_UNDONE, True)
    assert WorkflowRun.objects.using(CELL).get(uuid=view.build_uuid).flow == "build_in_cell"
    assert service().is_disabled
    assert view.run_uuid in (service().disabled_reason or "")
    assert_nothing_is_left(closed)
    page = text(signed_in("admin").get(f"/hosts/{HOST}"))
    assert "Canary failed. The host stays disabled" in page
    assert f'href="/workflows/{view.build_uuid}"' in page
    closed.fails = lambda message, host: None
    canaries.begin(admin, HOST)
    settle(closed)
    assert not service().is_disabled


def test_no_other_server_reaches_a_disabled_host_even_by_force(closed: Hosts, admin: Any) -> None:
    requested = canaries._requested(HOST, {"flavor_ref": "1", "image_ref": canaries._smallest_image(CELL, HOST)}, "")
    values = {**vars(requested), "is_canary": False}
    (uuid,) = instances.create(admin, InstanceCreate(**values)).instance_uuids
    settle(closed)
    assert instances.get(admin, uuid).vm_state == "error"
    assert WorkflowRun.objects.using("default").get(flow="build_instances").error["class"] == "NoValidHost"


def test_a_canary_that_is_cancelled_goes_too(closed: Hosts, admin: Any) -> None:
    run_uuid = canaries.begin(admin, HOST)
    canaries.advance(CELL)
    step_on(closed)
    cancel(run_uuid)
    settle(closed)
    canaries.advance(CELL)
    settle(closed)
    assert WorkflowRun.objects.using(CELL).get(uuid=run_uuid).state == RunState.CANCELLED
    assert service().is_disabled
    assert_nothing_is_left(closed)


def cancel(run_uuid: str) -> None:
    with write_tx(CELL):
        (run,) = outbox.hold(CELL, uuid=run_uuid)
        outbox.request_cancel(CELL, run, "not now")


def test_a_launch_that_is_refused_meanwhile_ends_the_try(
    closed: Hosts, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    canaries.begin(admin, HOST)

    def refuse(*args: Any) -> Any:
        raise QuotaExceeded("Quota exceeded for instances.")

    monkeypatch.setattr(create_requests, "check", refuse)
    settle(closed)
    view = canaries.newest(admin, HOST)
    assert view is not None
    assert (view.state, view.why) == (RunState.CANCELLED, "The canary was refused: Quota exceeded for instances.")
    assert "Quota exceeded" in (service().disabled_reason or "")


def test_canaries_are_refused_where_they_make_no_sense(closed: Hosts, admin: Any, api_client: Any) -> None:
    client = api_client("admin")
    with pytest.raises(Conflict, match="is in service"):
        canaries.begin(admin, "sim-1")
    assert client.get(f"/api/hosts/{HOST}/canary").status_code == 404
    assert client.post(f"/api/hosts/{HOST}/canary", {"size": "nothing"}).status_code == 400
    begun = client.post(f"/api/hosts/{HOST}/canary", {})
    assert (begun.status_code, begun.json()["canary"]["is_over"]) == (202, False)
    with pytest.raises(ResourceLocked):
        canaries.begin(admin, HOST)
    kept = AuditRecord.objects.filter(action="host.canary").order_by("pk")
    assert list(kept.values_list("result", "details__path")) == [
        (result, f"/api/hosts/{HOST}/canary") for result in ("refused", "done")
    ]
    settle(closed)
    assert client.get(f"/api/hosts/{HOST}/canary").json()["canary"]["state"] == "done"
    drains.begin(admin, HOST, DrainRequest())
    with pytest.raises(ResourceLocked):
        canaries.begin(admin, HOST)
    host_actions.execute(admin, "sim-1", "close", reason="new memory")
    Flavor.objects.update(is_disabled=True)
    assert client.post("/api/hosts/sim-1/canary", {}).status_code == 400
    silence("sim-1")
    with pytest.raises(Conflict, match="is down"):
        canaries.begin(admin, "sim-1")
