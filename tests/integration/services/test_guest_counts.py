"""Metrics from hosts: stored in one statement, shown as rates per second, visible to the server's project."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections

from conductor.cell_db.models import GuestCount, Instance, Migration
from conductor.core.errors import NotFound
from conductor.rpc.messages import GuestsCounted
from conductor.services.servers import guest_metrics
from tests import factories
from tests.api_client import ApiClient
from tests.counting import Captured
from tests.integration.page_clients import signed_in, text

pytestmark = pytest.mark.django_db(databases="__all__")
CELL = "cell1"
MB = 1 << 20


@pytest.fixture
def web(people: Any) -> Instance:
    factories.cells()
    factories.host("host-1")
    size = {"vcpus": 2, "memory_mb": 512, "root_gb": 1, "ephemeral_gb": 0, "name": "two", "flavor_id": "2"}
    return factories.instance(people.ana.context(), "web-1", host="host-1", flavor=size)


def count(web: Instance, at: float, *figures: float | None, host: str = "host-1", others: int = 0) -> GuestsCounted:
    guests = {str(web.uuid): list(figures), **{str(uuid4()): [1.0, 2.0] for _ in range(others)}}
    message = GuestsCounted(host=host, counted_at=at, guests=guests)
    guest_metrics.record(CELL, message)
    return message


def test_a_count_is_one_statement_however_many_guests_there_are(web: Instance) -> None:
    def statements(others: int, at: float) -> list[str]:
        with Captured(connections[CELL]) as seen:
            count(web, at, 1.0, others=others)
        return [query["sql"].split()[0] for query in seen.captured_queries]

    assert statements(200, 2.0) == statements(0, 1.0)
    assert statements(200, 3.0).count("INSERT") == 1


def test_repeated_or_invalid_samples_change_nothing(web: Instance, people: Any) -> None:
    message = count(web, 1000.0, 1.0, 64.0)
    guest_metrics.record(CELL, message)
    count(web, 1300.0, float("nan"))
    count(web, float("inf"), 2.0)
    guest_metrics.record(CELL, GuestsCounted(host="host-1", counted_at=1600.0, guests={"../etc": [1.0]}))
    (found,) = guest_metrics.samples(people.ana.context(), str(web.uuid))
    assert (found.at, found.figures) == (1000.0, {"cpu_seconds": 1.0, "memory_mb": 64.0})
    assert GuestCount.objects.using(CELL).count() == 1


def test_it_follows_a_server_that_moves_and_forged_messages_do_not_change_it(web: Instance, people: Any) -> None:
    now = factories.ago(0)
    Migration.objects.using(CELL).create(
        instance_uuid=web.uuid, migration_type="live-migration", status="completed", source_host="host-0",
        destination_host="host-1", created_at=now, updated_at=now,
    )  # fmt: skip
    count(web, 1000.0, 5.0, host="host-0")
    count(web, 1300.0, 6.0, host="host-1")
    count(web, 1400.0, 9999.0, host="host-7")
    found = guest_metrics.samples(people.ana.context(), str(web.uuid))
    assert [(one.at, one.figures["cpu_seconds"]) for one in found] == [(1000.0, 5.0), (1300.0, 6.0)]
    with pytest.raises(NotFound):
        guest_metrics.samples(people.chi.context(), str(web.uuid))


def test_rates_leave_out_unknown_values(web: Instance, people: Any) -> None:
    began_anew, slept = 1600.0, 4000.0
    for at, used in ((1000.0, 30.0), (1300.0, 90.0), (began_anew, 1.0), (slept, 400.0), (4300.0, 430.0)):
        count(web, at, used, 64.0)
    found = guest_metrics.rates(guest_metrics.samples(people.ana.context(), str(web.uuid)))
    lines = [(one.begin, one.end, one.figures["cpu_seconds"], one.figures["memory_mb"]) for one in found]
    assert lines == [(1000.0, 1300.0, 0.2, 64.0), (slept, 4300.0, 0.1, 64.0)]


def test_the_tab_opens_with_the_last_hours_also_of_a_server_that_is_off(web: Instance, people: Any) -> None:
    Instance.objects.using(CELL).filter(pk=web.pk).update(power_state=4, vm_state="stopped")
    address, ana = f"/servers/{web.uuid}/metrics", signed_in("ana")
    now = time.time()
    count(web, now - 900, 0.0, 100.0, 0, 0)
    assert "Recent" not in text(ana.get(address))
    count(web, now - 600, 300.0, 128.0, 600 * MB, 0)
    count(web, now - 300, 360.0, 256.0, 600 * MB, 300 * MB)
    page = text(ana.get(address))
    assert "Start the server to see metrics." in page
    assert 'aria-label="Processors: average 30.0 %, maximum 50.0 %"' in page
    assert 'aria-label="Disks: average 1.0 MB/s / 512.0 KB/s, maximum 2.0 MB/s / 1.0 MB/s"' in page
    assert 'points="0.0,30.0 150.0,30.0 150.0,53.2 300.0,53.2"' in page, "half, then a tenth of two processors"
    assert "Durchschnitt" in text(ana.get(address, headers={"accept-language": "de"}))


def test_the_same_over_http(web: Instance, people: Any) -> None:
    count(web, 1000.0, 1.5, None, 7.0)
    found = ApiClient(people.rea.token()).get(f"/api/servers/{web.uuid}/metrics")
    assert found.json() == {"metrics": [{"at": 1000.0, "figures": {"cpu_seconds": 1.5, "read_bytes": 7.0}}]}
    assert ApiClient(people.chi.token()).get(f"/api/servers/{web.uuid}/metrics").status_code == 404
