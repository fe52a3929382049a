"""The conductor's actors, through the broker and a worker."""

from __future__ import annotations

import threading
from typing import Any

import dramatiq
import pytest

from conductor.actors import conductor as actors
from conductor.rpc import broker, codec, trust
from conductor.rpc.messages import StepProgressed
from tests import keys
from tests.waiting import WAIT_SECONDS

QUEUE = "conductor.cell1"
BODY = {"host": "host-1", "word": "hello"}
NEWER = {
    "cell": "cell1",
    "message": "from_a_newer_release",
    "version": "1.0",
    "body": {"host": "host-1", "word": "hello"},
}


def test_a_message_that_is_too_new_is_put_back_until_a_process_understands_it(monkeypatch: pytest.MonkeyPatch) -> None:
    refused, understood = threading.Event(), threading.Event()
    signer = keys.serve("host-1", "cell1").signer
    heard: list[Any] = []
    put_back = broker.put_back
    monkeypatch.setattr(broker, "PUT_BACK_MILLISECONDS", 50)
    monkeypatch.setattr(broker, "put_back", lambda: (put_back(), refused.set()))
    monkeypatch.setattr(codec, "_types", dict(codec._types))
    monkeypatch.setattr(actors, "RECEIVERS", dict(actors.RECEIVERS))
    broker._send(trust.TO_CONDUCTOR, QUEUE, signer.seal("from_a_newer_release", QUEUE, NEWER))
    worker = dramatiq.Worker(broker.transport().broker, queues={QUEUE}, worker_timeout=10)
    worker.start()
    try:
        assert refused.wait(WAIT_SECONDS)

        @codec.message("from_a_newer_release", version="1.0")
        class FutureMessage:
            host: str
            word: str

        monkeypatch.setattr(trust, "KINDS", {**trust.KINDS, "from_a_newer_release": trust._host_rule()})
        actors.RECEIVERS[FutureMessage] = lambda cell, message: (heard.append((cell, message.word)), understood.set())
        assert understood.wait(WAIT_SECONDS)
    finally:
        worker.stop()
        broker.transport().broker.flush_all()
    assert heard == [("cell1", "hello")]


@pytest.mark.usefixtures("databases")
def test_progress_of_a_step_that_no_run_waits_for_changes_nothing() -> None:
    late = StepProgressed(step_key="gone", run_uuid="gone", fencing_token=1, host="host-1", message="half", share=0.5)
    actors.conductor_message(keys.sealed(keys.serve("host-1", "cell1").signer, "cell1", late))
