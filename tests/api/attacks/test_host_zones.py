"""Attacks of a new host with the name of its zone: it is the host's own word, and opens no operator's aggregate."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.api_db.models import Aggregate, AggregateHost
from conductor.services.fleet import reports
from tests.fixtures.host_reports import CELL, _cells, clock, report, service

__all__ = ["_cells", "clock"]

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"filter_tenant_id": "a" * 32},
        {"availability_zone": "gold", "filter_tenant_id": "a" * 32},
        {"availability_zone": "gold", "ssd": "true"},
        {"availability_zone": "other"},
    ],
)
def test_a_new_host_joins_no_aggregate_with_other_metadata_than_a_zone(metadata: dict[str, Any]) -> None:
    Aggregate.objects.create(name="gold", metadata=metadata)
    reports.record(CELL, report(1, availability_zone="gold"))
    assert not AggregateHost.objects.exists()
    assert service().availability_zone == "nova"


def test_a_new_host_joins_an_existing_zone() -> None:
    reports.record(CELL, report(1, availability_zone="az-1"))
    reports.record(CELL, report(1, host="host-2", availability_zone="az-1"))
    assert sorted(AggregateHost.objects.values_list("host", "aggregate__name")) == [
        ("host-1", "az-1"),
        ("host-2", "az-1"),
    ]
