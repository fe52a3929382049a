"""Consoles as they are kept: pieces in any order, from the right host only."""

from __future__ import annotations

import uuid

import pytest

from conductor.cell_db.models import ConsoleLog, Instance
from conductor.core.console_text import TAIL_BYTES
from conductor.db.transactions import database_now
from conductor.journal.models import Event
from conductor.rpc.messages import ConsolesWritten, ConsoleWritten
from conductor.services.consoles import logs

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

CELL = "cell1"


@pytest.fixture
def instance() -> Instance:
    return Instance.objects.using(CELL).create(
        uuid=uuid.uuid4(),
        project_id="b" * 32,
        user_id="a" * 32,
        name="web-1",
        hostname="web-1",
        host="host-1",
        flavor={},
        image={},
        reservation_id="r-1",
        created_at=database_now(),
        updated_at=database_now(),
    )


def write(instance: Instance, offset: int, text: str, host: str = "host-1") -> None:
    written = ConsoleWritten(host=host, instance_uuid=str(instance.uuid), offset=offset, text=text)
    logs.store(CELL, written)


def kept() -> tuple[int, str]:
    log = ConsoleLog.objects.using(CELL).get()
    return log.offset, log.text


def test_pieces_are_joined_by_their_offsets(instance: Instance) -> None:
    write(instance, 0, "boot\n")
    write(instance, 5, "größe\n")
    write(instance, 13, "login: ")
    assert kept() == (0, "boot\ngröße\nlogin: ")


def test_a_repeated_piece_changes_nothing_and_emits_nothing(instance: Instance) -> None:
    write(instance, 0, "boot\nlogin: ")
    before = (
        list(ConsoleLog.objects.using(CELL).values()),
        list(Event.objects.using(CELL).values()),
    )
    write(instance, 0, "boot\n")
    write(instance, 5, "login: ")
    write(instance, 0, "boot\nlogin: ")
    assert (list(ConsoleLog.objects.using(CELL).values()), list(Event.objects.using(CELL).values())) == before


def test_each_console_has_one_event_that_the_newest_replaces(instance: Instance) -> None:
    write(instance, 0, "boot\n")
    first = Event.objects.using(CELL).get()
    write(instance, 5, "login: ")
    event = Event.objects.using(CELL).get()
    assert (event.topic, event.kind, event.project_id) == (f"server:{instance.uuid}", "console.written", "b" * 32)
    assert event.data == {"end": 12}
    assert event.pk > first.pk


def test_only_the_tail_is_kept(instance: Instance) -> None:
    for number in range(3):
        write(instance, number * TAIL_BYTES, str(number) * TAIL_BYTES)
    write(instance, 3 * TAIL_BYTES, "end")
    assert kept() == (2 * TAIL_BYTES + 3, "2" * (TAIL_BYTES - 3) + "end")


def test_console_output_of_another_host_or_an_unknown_guest_is_ignored(instance: Instance) -> None:
    write(instance, 0, "not yours", host="host-2")
    logs.store(CELL, ConsoleWritten(host="host-1", instance_uuid=str(uuid.uuid4()), offset=0, text="x"))
    logs.store(CELL, ConsoleWritten(host="host-1", instance_uuid="x", offset=0, text="x"))
    logs.store("cell2", ConsoleWritten(host="host-1", instance_uuid=str(instance.uuid), offset=0, text="x"))
    write(instance, -1, "before the beginning")
    Instance.objects.using(CELL).update(deleted_at=database_now())
    write(instance, 0, "too late")
    assert ConsoleLog.objects.using(CELL).count() == 0
    assert ConsoleLog.objects.using("cell2").count() == 0
    assert Event.objects.using(CELL).count() == 0


def test_pieces_of_many_consoles_come_in_one_message(instance: Instance) -> None:
    """Pieces that are not stored do not prevent others from being stored."""
    known, unmanaged = str(instance.uuid), str(uuid.uuid4())
    pieces = [
        {"instance_uuid": unmanaged, "offset": 0, "text": "who am I?"},
        {"instance_uuid": known, "offset": 0, "text": "boot\n"},
        {"instance_uuid": "x", "offset": 0, "text": "x"},
        {"instance_uuid": known, "offset": 5, "text": "login: "},
    ]
    logs.store_all(CELL, ConsolesWritten(host="host-1", pieces=pieces))
    assert kept() == (0, "boot\nlogin: ")
    logs.store_all(CELL, ConsolesWritten(host="host-2", pieces=pieces))
    assert kept() == (0, "boot\nlogin: "), "they are on another host"


def test_a_guest_that_was_built_elsewhere_has_a_new_console(instance: Instance) -> None:
    write(instance, 0, "a long story on the first host")
    Instance.objects.using(CELL).update(host="host-2")
    write(instance, 30, " that goes on", host="host-1")
    assert kept() == (0, "a long story on the first host")
    write(instance, 0, "boot", host="host-2")
    assert kept() == (0, "boot")


def test_a_guest_that_was_built_anew_on_its_host_ends_the_old_console(instance: Instance) -> None:
    write(instance, 0, "boot 1: all is well")
    write(instance, 0, "boot 2")
    assert kept() == (0, "boot 2")
    write(instance, 6, ": too")
    assert kept() == (0, "boot 2: too")
