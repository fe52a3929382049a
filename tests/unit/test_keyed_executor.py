"""KeyedExecutor: order within a key, no overlap, and a hanging group delays no other one."""

from __future__ import annotations

import threading

from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.compute.keyed_executor import KeyedExecutor
from tests.waiting import WAIT_SECONDS, take_time


@settings(max_examples=25, deadline=None)
@given(
    work=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=60),
    threads=st.integers(1, 6),
    most=st.integers(1, 3),
)
def test_a_lane_keeps_its_order_and_a_group_its_limit(work: list[tuple[int, int]], threads: int, most: int) -> None:
    executor = KeyedExecutor("test", threads)
    condition = threading.Condition()
    done: list[tuple[int, int, int]] = []
    under_work: list[tuple[int, int]] = []

    def do(group: int, lane: int, number: int) -> None:
        with condition:
            assert (group, lane) not in under_work
            under_work.append((group, lane))
            assert sum(other == group for other, _ in under_work) <= most
            assert len(under_work) <= threads
        take_time(0.0002)
        with condition:
            under_work.remove((group, lane))
            done.append((group, lane, number))
            condition.notify_all()

    for number, (group, lane) in enumerate(work):
        executor.submit(group, lane, lambda g=group, n=lane, i=number: do(g, n, i), max_parallel=most)  # type: ignore[misc]
    with condition:
        assert condition.wait_for(lambda: len(done) == len(work), WAIT_SECONDS)
    assert executor.stop(WAIT_SECONDS)
    for place in set(work):
        numbers = [number for group, lane, number in done if (group, lane) == place]
        assert numbers == sorted(numbers)


def test_a_group_that_hangs_keeps_no_other_waiting() -> None:
    executor = KeyedExecutor("test", 4)
    may_end, others = threading.Event(), threading.Semaphore(0)
    for lane in range(10):
        executor.submit("hangs", lane, lambda: may_end.wait(2 * WAIT_SECONDS) and None, max_parallel=2)
    for lane in range(10):
        executor.submit("works", lane, others.release, max_parallel=2)
    for _ in range(10):
        assert others.acquire(timeout=WAIT_SECONDS)
    assert executor.is_busy("hangs", 0)
    assert not executor.stop(0.05)  # hanging work is reported, not waited for without end
    may_end.set()
    assert executor.stop(WAIT_SECONDS)


def test_work_that_fails_ends_neither_its_lane_nor_its_thread() -> None:
    executor = KeyedExecutor("test", 1)
    done = threading.Event()
    executor.submit("g", "l", lambda: 1 / 0 and None)
    executor.submit("g", "l", done.set)
    assert done.wait(WAIT_SECONDS)
    assert executor.stop(WAIT_SECONDS)


def test_work_submitted_after_the_stop_is_dropped() -> None:
    executor = KeyedExecutor("test", 1)
    assert executor.stop(WAIT_SECONDS)
    executor.submit("g", "l", lambda: 1 / 0 and None)
    assert not executor.is_busy("g", "l")
