"""Databases are empty after each test, whichever connection has written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from conductor.cell_db.models import Service
from conductor.db.transactions import database_now
from tests.databases import empty_all


def write() -> int:
    row = Service.objects.using("cell1").create(
        binary="nova-compute", host="sim-1", version=1, last_seen_at=database_now(), created_at=database_now()
    )
    return int(row.pk)


def write_elsewhere() -> int:
    written: list[int] = []

    def run() -> None:
        written.append(write())
        connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return written[0]


@pytest.mark.parametrize("first", [write, write_elsewhere])
def test_rows_of_every_connection_go_and_numbers_begin_again(databases: Any, first: Callable[[], int]) -> None:
    for turn in (first, write, write_elsewhere):
        empty_all()
        assert turn() == 1
        empty_all()
        assert not Service.objects.using("cell1").exists()
        empty_all()
        assert not Service.objects.using("cell1").exists()


def test_rows_go_when_the_connection_is_a_new_one(databases: Any) -> None:
    empty_all()
    write()
    connections["cell1"].close()
    empty_all()
    assert not Service.objects.using("cell1").exists()
