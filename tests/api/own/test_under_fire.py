"""Whatever a client may make of the description: no 500, and every answer as the description says.

Requests are made up from `/api/schema` itself, the same ones in each run: some as described, some with one thing wrong.
Half of those as described name things that are there, so that they get past the first look.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from conductor.services.notifications import subscriptions
from conductor.services.notifications.subscriptions import Wish
from portal.api.own.reference import document
from tests import factories
from tests.people import People

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
ASKERS = ("admin", "ana", None)
EXAMPLES = 2  # for each operation and mode; those as described are sent by each of ASKERS
TOKEN = "x-auth-token"
STREAMS = "/stream"  # answered by the server around Django
NOT_JSON = {"/api/docs"}
SAME = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@pytest.fixture
def things(people: People) -> dict[str, str]:
    """One thing of each kind that a path may name."""
    asker = people.admin.context()
    factories.cells()
    factories.host("sim-1")
    run, child = factories.build(asker, "web-1")
    failed = factories.instance(asker, "web-2", vm_state="error", host=None, launched_at=None)
    decision = factories.failed_decision(run)
    made = subscriptions.subscribe(asker, Wish(name="bell", channel="bell"))
    return {
        "run_uuid": str(child.uuid),
        "decision_uuid": str(decision.uuid),
        "host": "sim-1",
        "kind": "filter",
        "name": "IoOpsFilter",
        "server_id": str(failed.uuid),
        "subscription_uuid": made.view.uuid,
        "user_id": people.bo.user.id,
    }


@pytest.fixture
def tokens(people: People) -> Iterator[Mapping[str | None, dict[str, str]]]:
    """Headers by who asks; this thread's connections stay open between the requests."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield {name: {"X-Auth-Token": people[name].token()} if name else {} for name in ASKERS}
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def test_no_request_breaks_it_and_all_answers_are_as_described(tokens: Any, things: dict[str, str]) -> None:
    schema: Any = schemathesis.openapi.from_wsgi("/api/schema", get_wsgi_application())
    wrong: dict[str, str] = {}
    count = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path in NOT_JSON or operation.path.endswith(STREAMS):
            continue
        for mode in MODES:
            if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query):
                continue  # nothing could be wrong with it but its path
            count += 1
            _fire(operation, mode, tokens, things, wrong)
    assert wrong == {}
    assert count > 60


def _fire(operation: Any, mode: Any, tokens: Any, things: Mapping[str, str], wrong: dict[str, str]) -> None:
    turns, is_public = itertools.count(), not operation.definition.raw["security"]

    @SAME
    @given(case=operation.as_strategy(generation_mode=mode))
    def fire(case: Any) -> None:
        case.headers = {name: value for name, value in (case.headers or {}).items() if name.lower() != TOKEN}
        if mode is GenerationMode.NEGATIVE or next(turns) % 2 == 0:
            case.path_parameters = {name: things.get(name, "x") for name in case.path_parameters or {}}
        for name, headers in tokens.items() if mode is GenerationMode.POSITIVE else [("admin", tokens["admin"])]:
            answer = case.call(headers=headers)
            try:
                case.validate_response(answer, checks=CHECKS)
                assert name or is_public or answer.status_code >= 400, "nobody may"
            except Exception as failure:  # all of them are told at once
                what = f"{operation.method.upper()} {operation.path} as {name}"
                wrong.setdefault(what, f"{answer.status_code} {answer.content[:200]!r}: {str(failure)[:600]}")

    fire()


def test_methods_that_there_are_not_are_refused_by_name(api_client: Any) -> None:
    admin = api_client("admin")
    for path, methods in document()["paths"].items():
        where = path.replace("{", "").replace("}", "")
        known = {method.upper() for method in methods}
        for method in METHODS:
            if method in known or path.endswith(STREAMS):
                continue
            answer = admin.call(method, where)
            assert answer.status_code == 405, (method, where)
            assert known <= set(answer.headers["Allow"].split(", ")), (method, where)
            assert answer.json()["error"]["code"] == 405
