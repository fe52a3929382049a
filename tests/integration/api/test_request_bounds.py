"""Requests after the operator's pre-filters, with the existing aggregates."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.api_db.models import Aggregate
from conductor.apps import check_prefilters
from conductor.core.errors import Invalid
from conductor.core.placement.query import UNBOUND
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.builtin_filters import Placement
from conductor.core.scheduling.needs import needs_of
from conductor.scheduler.hardware_requests import refuse
from conductor.scheduler.placement_bounds import bounded
from tests.unit.scheduling.fleets import host, spec

pytestmark = pytest.mark.django_db(databases="__all__")
TENANTS = "limit_tenants_to_placement_aggregate"
MUST = "placement_aggregate_required_for_tenants"
ISOLATED = "enable_isolated_aggregate_filtering"


def passes(request: RequestSpec, **values: Any) -> bool:
    return bool(Placement(needs_of(request)).host_passes(host(**values), request))


def test_without_prefilters_nothing_is_bound(settings: Any) -> None:
    settings.NOVELLA_PREFILTERS = ()
    assert bounded(spec()).bounds == UNBOUND


def test_a_project_is_kept_to_its_aggregate(settings: Any) -> None:
    settings.NOVELLA_PREFILTERS = (TENANTS,)
    own = Aggregate.objects.create(name="shops", metadata={"filter_tenant_id": "shop"})
    request = bounded(spec())
    assert passes(request, aggregates=frozenset({str(own.uuid)}))
    assert not passes(request)


def test_a_project_without_aggregate_goes_anywhere_unless_it_must_have_one(settings: Any) -> None:
    settings.NOVELLA_PREFILTERS = (TENANTS,)
    assert passes(bounded(spec()))
    settings.NOVELLA_PREFILTERS = (TENANTS, MUST)
    request = bounded(spec())
    assert not passes(request)
    assert "an aggregate that the request may use" in Placement(needs_of(request)).host_passes(host(), request).reason


def test_an_isolated_aggregate_takes_only_requests_for_its_trait(settings: Any) -> None:
    settings.NOVELLA_PREFILTERS = (ISOLATED,)
    gold = Aggregate.objects.create(name="gold", metadata={"trait:CUSTOM_GOLD": "required"})
    inside = {"aggregates": frozenset({str(gold.uuid)}), "traits": frozenset({"CUSTOM_GOLD"})}
    assert not passes(bounded(spec()), **inside)
    assert passes(bounded(spec(extra_specs={"trait:CUSTOM_GOLD": "required"})), **inside)


def test_unknown_prefilters_are_named(settings: Any) -> None:
    settings.NOVELLA_PREFILTERS = (ISOLATED, "no_such_option")
    (found,) = check_prefilters()
    assert "no_such_option" in found.msg
    assert ISOLATED in str(found.hint)


@pytest.mark.parametrize(
    ("extra_specs", "properties", "word"),
    [
        ({"resources:CUSTOM_GPU": "x"}, {}, "resources:CUSTOM_GPU"),
        ({"resources1:CUSTOM_A": "1", "resources2:CUSTOM_B": "1"}, {}, "group_policy"),
        ({"trait1:CUSTOM_A": "required"}, {}, "resources1:CLASS"),
        ({"os:secure_boot": "sometimes"}, {}, "os:secure_boot"),
        ({"hw:tpm_version": "2.0", "hw:tpm_secret_security": "nobody"}, {}, "hw:tpm_secret_security"),
        ({}, {"trait:CUSTOM_A": "forbidden"}, "trait:CUSTOM_A"),
        ({"trait:CUSTOM_A": "forbidden"}, {"trait:CUSTOM_A": "required"}, "CUSTOM_A"),
    ],
)
def test_requests_that_placement_cannot_express_are_refused_by_name(
    extra_specs: dict[str, str], properties: dict[str, str], word: str
) -> None:
    with pytest.raises(Invalid, match=word):
        refuse(spec(extra_specs=extra_specs).flavor, properties)
