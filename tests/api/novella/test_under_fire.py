"""Whatever a client may make of the description: no 500, and every answer as the description says.

Requests are made up from `/api/schema` itself, the same ones in each run: some as described, some with one thing wrong.
Half of those as described name things that are there, so that they get past the first look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections

from conductor.services.notifications import subscriptions
from conductor.services.notifications.subscriptions import SubscriptionRequest
from portal.api.novella.reference import document
from tests import factories
from tests.people import People

CALLERS = ("admin", "ana", None)
STREAMS = "/stream"  # answered by the server around Django
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@pytest.fixture
def things(people: People) -> dict[str, str]:
    """One thing of each kind that a path may name."""
    caller = people.admin.context()
    factories.cells()
    factories.host("sim-1")
    run, child = factories.build(caller, "web-1")
    failed = factories.instance(caller, "web-2", vm_state="error", host=None, launched_at=None)
    decision = factories.failed_decision(run)
    made = subscriptions.subscribe(caller, SubscriptionRequest(name="bell", channel="bell"))
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
    """Headers by caller; this thread's connections stay open between the requests."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield {name: {"X-Auth-Token": people[name].token()} if name else {} for name in CALLERS}
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def test_no_request_gives_a_500_and_all_responses_match_the_document(tokens: Any, things: dict[str, str]) -> None:
    from tests.api.novella import fire  # takes seconds to import, and only this test needs it

    wrong, count = fire.at_everything(tokens, things, leave_out=STREAMS)
    assert wrong == {}
    assert count > 60


def test_unsupported_methods_are_answered_405(api_client: Any) -> None:
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
