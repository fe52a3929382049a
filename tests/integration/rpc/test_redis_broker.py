"""The Redis broker: few round trips, one per batch, and no remains of finished messages."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import dramatiq
import pytest
import redis
from dramatiq.worker import Worker

from conductor.rpc import broker, redis_broker
from conductor.rpc.redis_broker import LeanRedisBroker
from tests.waiting import WAIT_SECONDS, assert_stays, take_time, wait_until

QUEUE = "conductor.cell1"
STOP_MILLISECONDS = int(WAIT_SECONDS * 1000)


@pytest.fixture
def carrier(redis_service: Any) -> Iterator[LeanRedisBroker]:
    made, sender = broker.make(redis_service.url)
    assert isinstance(made, LeanRedisBroker)
    made.client.flushall()
    yield made
    sender.close()
    made.close()


@pytest.fixture
def heard(carrier: LeanRedisBroker) -> list[str]:
    """Return the executed messages, in order."""
    done: list[str] = []
    dramatiq.actor(done.append, actor_name="hear", queue_name=QUEUE, broker=carrier)
    return done


def send(carrier: LeanRedisBroker, *words: str) -> None:
    for word in words:
        carrier.enqueue(dramatiq.Message(QUEUE, "hear", (word,), {}, {}))


def start(carrier: LeanRedisBroker) -> Worker:
    worker = Worker(carrier, worker_threads=4, worker_timeout=100)
    worker.queue_prefetch = 8
    worker.start()
    return worker


def test_finished_messages_are_deleted_from_redis_while_the_worker_is_idle(
    carrier: LeanRedisBroker, heard: list[str]
) -> None:
    words = [f"word {number}" for number in range(100)]
    send(carrier, *words)
    worker = start(carrier)
    try:
        wait_until("all were done", lambda: len(heard) == len(words))
        wait_until("all are gone", lambda: carrier.do_qsize(QUEUE) == 0)
        assert Counter(heard) == Counter(words), "each once"
    finally:
        worker.stop(timeout=STOP_MILLISECONDS)


def test_a_worker_that_stops_leaves_nothing_that_was_done(
    carrier: LeanRedisBroker, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LeanRedisBroker, "do_fetch", _fetch_only)  # so that no other code acknowledges it
    send(carrier, "one", "two")
    worker = start(carrier)
    wait_until("both were done", lambda: len(heard) == 2)
    wait_until("both acknowledgements wait", lambda: len(carrier._done[QUEUE]) == 2)
    assert carrier.do_qsize(QUEUE) > 0
    worker.stop(timeout=STOP_MILLISECONDS)
    assert carrier.do_qsize(QUEUE) == 0


def _fetch_only(self: LeanRedisBroker, queue_name: str, count: int) -> Any:
    return self._run_all([("fetch", queue_name, count)])[-1]


def test_many_messages_take_few_round_trips(
    carrier: LeanRedisBroker, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[int] = []
    run_all = LeanRedisBroker._run_all

    def count(self: LeanRedisBroker, commands: Any) -> Any:
        answers = run_all(self, commands)
        if commands[-1][:2] == ("fetch", QUEUE) and answers[-1]:
            requested.append(len(commands))
        return answers

    monkeypatch.setattr(LeanRedisBroker, "_run_all", count)
    send(carrier, *(str(number) for number in range(80)))
    worker = start(carrier)
    try:
        wait_until("all were done", lambda: len(heard) == 80)
    finally:
        worker.stop(timeout=STOP_MILLISECONDS)
    assert len(requested) <= 80 / 4 + 2, "half of what it may have, or more, in each"


class StoppedClock:
    """The broker's clock, which stands still unless the test moves it. Its consumers sleep all the same."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        take_time(seconds)


def test_an_idle_worker_blocks_in_redis_and_gets_messages_at_once(
    carrier: LeanRedisBroker, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked once in LOOK_SECONDS by a queue and by that of the delayed, and not hundreds of times."""
    clock = StoppedClock()
    monkeypatch.setattr(redis_broker, "time", clock)
    requested: list[str] = []
    run_all = LeanRedisBroker._run_all
    monkeypatch.setattr(
        LeanRedisBroker, "_run_all", lambda self, commands: requested.append(commands[-1][0]) or run_all(self, commands)
    )
    worker = start(carrier)
    try:
        for times in (2, 4):
            wait_until("both queues are asked for", lambda times=times: len(requested) == times)
            assert_stays("neither is asked for again", lambda times=times: len(requested) == times, seconds=1.0)
            clock.now += redis_broker.LOOK_SECONDS
        wait_until("both queues are asked for", lambda: len(requested) == 6)
        requested.clear()
        send(carrier, "one")
        wait_until("heard", lambda: heard == ["one"])
        assert requested.count("fetch") <= 4, "a message that comes is asked for once or twice"
    finally:
        worker.stop(timeout=STOP_MILLISECONDS)


def test_a_redis_without_blocking_commands_is_polled(
    carrier: LeanRedisBroker, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers older than 6.2 do not know the command, which this server is configured to forbid."""
    waits: list[str] = []
    wait_for_any = LeanRedisBroker.wait_for_any

    def noted(self: LeanRedisBroker, queue_name: str, seconds: float) -> bool:
        waits.append(queue_name)
        return wait_for_any(self, queue_name, seconds)

    monkeypatch.setattr(LeanRedisBroker, "wait_for_any", noted)
    carrier.client.execute_command("ACL", "SETUSER", "default", "-blmove")
    try:
        worker = start(carrier)
        try:
            wait_until("it polls", lambda: len(waits) > 2)
            for word in ("one", "two"):
                send(carrier, word)
                wait_until("heard", lambda word=word: word in heard)
        finally:
            worker.stop(timeout=STOP_MILLISECONDS)
    finally:
        carrier.client.execute_command("ACL", "SETUSER", "default", "+blmove")
    assert heard == ["one", "two"]


def test_two_workers_that_wait_share_what_comes(redis_service: Any, carrier: LeanRedisBroker, heard: list[str]) -> None:
    other, sender = broker.make(redis_service.url)
    dramatiq.actor(heard.append, actor_name="hear", queue_name=QUEUE, broker=other)
    workers = [start(carrier), start(other)]
    try:
        wait_until("both wait", lambda: carrier.client.info("clients")["blocked_clients"] == len(workers))
        words = [str(number) for number in range(200)]
        for word in words:
            send(carrier, word)
        wait_until("all were done", lambda: len(heard) >= len(words))
        wait_until("all are gone", lambda: carrier.do_qsize(QUEUE) == 0 == other.do_qsize(QUEUE))
        assert Counter(heard) == Counter(words), "each once"
    finally:
        for worker in workers:
            worker.stop(timeout=STOP_MILLISECONDS)
        sender.close()
        other.close()


def test_messages_sent_together_keep_their_order(carrier: LeanRedisBroker) -> None:
    carrier.declare_queue(QUEUE)
    with carrier.together():
        send(carrier, "one", "two")
        carrier.flush(QUEUE)
        send(carrier, "three", "four")
        assert carrier.do_fetch(QUEUE, 8) == [], "nothing has left"
    words = [dramatiq.Message.decode(data).args[0] for data in carrier.do_fetch(QUEUE, 8)]
    assert words == ["three", "four"]


def test_a_redis_that_forgot_the_script_gets_it_again(carrier: LeanRedisBroker, heard: list[str]) -> None:
    worker = start(carrier)
    try:
        for word in ("one", "two"):
            carrier.client.script_flush()
            send(carrier, word)
            wait_until("it was done", lambda word=word: word in heard)
        wait_until("both are gone", lambda: carrier.do_qsize(QUEUE) == 0)
    finally:
        worker.stop(timeout=STOP_MILLISECONDS)
    assert heard == ["one", "two"]


def test_acknowledgements_that_failed_are_sent_later(carrier: LeanRedisBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    carrier.declare_queue(QUEUE)
    send(carrier, "one")
    fetched = carrier.do_fetch(QUEUE, 1)
    message_id = dramatiq.Message.decode(fetched[0]).options["redis_message_id"]
    carrier.do_ack(QUEUE, message_id)
    with monkeypatch.context() as broken:
        broken.setattr(carrier.client, "pipeline", _gone)
        with pytest.raises(redis.ConnectionError):
            carrier.do_fetch(QUEUE, 1)
        with pytest.raises(redis.ConnectionError):
            carrier.say_done(QUEUE)
    assert list(carrier._done[QUEUE]) == [message_id]
    assert carrier.do_fetch(QUEUE, 1) == []
    assert carrier.do_qsize(QUEUE) == 0


def _gone(**options: Any) -> Any:
    raise redis.ConnectionError("gone")


def test_messages_of_a_dead_worker_are_delivered_to_another(
    redis_service: Any, carrier: LeanRedisBroker, heard: list[str]
) -> None:
    dead, sender = broker.make(redis_service.url)
    dead.heartbeat_timeout = carrier.heartbeat_timeout = 200
    send(carrier, "one")
    assert len(dead.do_fetch(QUEUE, 1)) == 1  # and never a word again
    worker = start(carrier)
    try:
        wait_until("it came to who lives", lambda: heard == ["one"])
    finally:
        worker.stop(timeout=STOP_MILLISECONDS)
        sender.close()
        dead.close()


def test_a_slow_message_delays_no_other(carrier: LeanRedisBroker) -> None:
    done: list[str] = []
    go = threading.Event()

    def hear(word: str) -> None:
        assert word != "slow" or go.wait(WAIT_SECONDS)
        done.append(word)

    dramatiq.actor(hear, actor_name="hear", queue_name=QUEUE, broker=carrier)
    worker = start(carrier)
    try:
        send(carrier, "slow", *(str(number) for number in range(30)))
        wait_until("all others were done", lambda: len(done) == 30)
        go.set()
        wait_until("and it too", lambda: len(done) == 31)
    finally:
        go.set()
        worker.stop(timeout=STOP_MILLISECONDS)
