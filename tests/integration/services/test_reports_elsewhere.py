"""Effects of a host's report in placement and in the catalogue of plugins."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from conductor.api_db.models import Aggregate, AggregateHost
from conductor.cell_db.models import Service
from conductor.core.context import system_context
from conductor.placement import aggregates, traits
from conductor.rpc.messages import HostReported
from conductor.scheduler.plugin_health import plugin_watch
from conductor.services.fleet import reports
from conductor.services.plugins import details
from conductor.services.plugins.details import PluginDetail
from tests.fixtures.host_reports import CELL, Clock, _cells, clock, everything, node, receive, report, service
from tests.integration.page_clients import signed_in, text

__all__ = ["_cells", "clock"]
pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


def test_placement_shows_disabled_hosts_and_the_aggregates_of_a_host(clock: Clock) -> None:
    reports.record(CELL, report(12))
    provider, zone = node().uuid, Aggregate.objects.get()
    assert aggregates.of_provider(provider)[1] == [str(zone.uuid)]
    mine, others = Aggregate.objects.create(name="mine"), str(uuid.uuid4())
    AggregateHost.objects.create(aggregate=mine, host="host-1")
    aggregates.join(others, [provider])
    AggregateHost.objects.filter(aggregate=zone).delete()
    Service.objects.using(CELL).update(is_disabled=True)
    clock.now += reports.FULL_LOOK_SECONDS
    reports.record(CELL, report(24))
    assert aggregates.of_provider(provider)[1] == sorted([str(mine.uuid), others])
    assert traits.of_provider(provider)[1] == ["COMPUTE_NODE", "COMPUTE_STATUS_DISABLED"]
    before = everything()[2:]
    clock.now += reports.FULL_LOOK_SECONDS
    reports.record(CELL, report(36))
    assert everything()[2:] == before
    Service.objects.using(CELL).update(is_disabled=False)
    clock.now += reports.FULL_LOOK_SECONDS
    reports.record(CELL, report(48))
    assert traits.of_provider(provider)[1] == ["COMPUTE_NODE"]


def host_report(number: int, **values: Any) -> HostReported:
    fault = {"source": "fault", "text": "RuntimeError in spawn_instance", "at": 1.8e9, "place": "mine:7 in spawn"}
    line = {"source": "line", "text": "the rack hums, token=sesame", "at": 1.8e9, "level": "warning", "times": 2}
    driver_statistics = {"milliseconds": [12.5, 80.0], "faults": 1, "notes": [fault, line]}
    return report(number, driver="fake", driver_statistics=driver_statistics | values)


def test_statistics_of_remote_drivers_are_in_the_catalogue_once(people: Any) -> None:
    def hear(message: HostReported) -> PluginDetail:
        receive(CELL, message)
        plugin_watch.flush()
        return details.detail(system_context(), "driver", "fake")

    found = hear(host_report(1))
    assert [(one.error, one.place, one.times) for one in found.faults] == [
        ("RuntimeError in spawn_instance", "mine:7 in spawn", 1)
    ]
    assert [(one.level, one.text, one.times) for one in found.lines] == [("warning", "the rack hums, token=•••", 2)]
    assert found.plugin.metrics is not None
    assert (found.plugin.metrics.calls, found.plugin.metrics.faults) == (2, 1)
    assert hear(host_report(1)) == found, "it came twice"
    page = text(signed_in("admin").get("/plugins/driver/of/fake"))
    for words in ("2 calls in 24 h, 1 failed", "RuntimeError in spawn_instance", "the rack hums"):
        assert words in page
    again = hear(host_report(2))
    assert again.plugin.metrics is not None
    assert (again.faults[0].times, again.plugin.metrics.calls) == (2, 4)


@pytest.mark.parametrize(
    "nonsense",
    [
        {"milliseconds": "many", "faults": -1, "notes": {}},
        {"milliseconds": [True, None, -3.0], "faults": "x", "notes": ["x", {"source": "rumour", "at": 1.0}]},
        {"milliseconds": [], "faults": 0, "notes": [{"source": "fault", "at": float("inf"), "text": "x"}]},
    ],
)
def test_malformed_driver_statistics_are_left_out_and_the_report_counts(nonsense: dict[str, Any]) -> None:
    receive(CELL, host_report(1, **nonsense))
    plugin_watch.flush()
    found = details.detail(system_context(), "driver", "fake")
    assert (found.faults, found.lines) == ((), ())
    assert service().report_number == 1
