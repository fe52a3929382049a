"""Every error has one status, and each service its own fault format."""

from __future__ import annotations

import inspect

import pytest
from rest_framework import exceptions

from conductor.core import errors
from portal.api.errors import FAULTS, TooLarge, UnsupportedVersion, fault_body, message_of, status_of

# Errors that are never the answer to a request: they happen inside workflows.
INSIDE = (errors.StaleToken, errors.DriverError, errors.CanaryFailed)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.NotFound(), 404),
        (errors.ResourceLocked(), 409),
        (errors.ConcurrentUpdate(), 409),
        (errors.QuotaExceeded(), 403),
        (errors.Forbidden(), 403),
        (errors.Invalid(), 400),
        (errors.NotAuthenticated(), 401),
        (errors.NotSupported(), 501),
        (errors.CellUnavailable(), 503),
        (errors.StorageFull(), 507),
        (UnsupportedVersion(), 406),
        (TooLarge(), 413),
        (exceptions.MethodNotAllowed("PUT"), 405),
        (exceptions.UnsupportedMediaType("text/plain"), 415),
        (ValueError("x"), 500),
    ],
)
def test_status(error: Exception, status: int) -> None:
    assert status_of(error, "compute") == status


def test_networks_call_a_quota_a_conflict() -> None:
    assert status_of(errors.QuotaExceeded(), "network") == 409


def test_every_error_that_a_caller_may_see_has_a_status() -> None:
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.NovellaError) and kind is not errors.NovellaError and not issubclass(kind, INSIDE):
            of_ours = errors.ActionFailed | errors.Unavailable | errors.NotSupported | errors.StorageFull
            assert status_of(kind(), "compute") < 500 or issubclass(kind, of_ours), kind


def test_an_action_that_failed_says_why() -> None:
    assert status_of(errors.ActionFailed(), "compute") == 500
    assert message_of(errors.ActionFailed("The host refused the port."), 500, "req-1") == "The host refused the port."


def test_unexpected_errors_show_only_the_request_id() -> None:
    text = message_of(ValueError("password=hunter2"), 500, "req-1")
    assert text == "Something went wrong on our side. Quote req-1 when you report it."


@pytest.mark.parametrize("service", FAULTS)
def test_each_fault_carries_the_message(service: str) -> None:
    assert "no such thing" in str(fault_body(service, 404, "no such thing"))


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "badRequest"),
        (401, "unauthorized"),
        (403, "forbidden"),
        (404, "itemNotFound"),
        (405, "badMethod"),
        (406, "computeFault"),
        (409, "conflictingRequest"),
        (413, "overLimit"),
        (415, "badMediaType"),
        (429, "overLimit"),
        (500, "computeFault"),
        (501, "notImplemented"),
        (503, "serviceUnavailable"),
    ],
)
def test_compute_names(status: int, name: str) -> None:
    assert fault_body("compute", status, "why") == {name: {"code": status, "message": "why"}}


def test_network_types() -> None:
    body = fault_body("network", 404, "why", kind="NetworkNotFound")
    assert body == {"NeutronError": {"type": "NetworkNotFound", "message": "why", "detail": ""}}
