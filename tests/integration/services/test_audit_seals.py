"""The sealed audit log in real databases: changes that bypass Novella are found and named."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import DatabaseError, transaction

from conductor.actors import periodic
from conductor.core.errors import Conflict
from conductor.db.transactions import write_tx
from conductor.journal.models import AuditChain, AuditRecord
from conductor.services.audit import audit, seals
from conductor.services.operations.pruning import pruner
from tests import factories
from tests.fixtures.page_text import text
from tests.integration.page_clients import signed_in

CELL = "cell1"
DAY = 86_400.0


@pytest.fixture
def ana(people: Any) -> Any:
    factories.cells()
    return people.ana.context()


def rows() -> Any:
    return AuditRecord.objects.using(CELL).order_by("seal")


def write(caller: Any, *actions: str, **values: Any) -> None:
    for action in actions:
        with write_tx(CELL):
            audit.record(CELL, caller, audit.AuditEntry(action=action, project_id=caller.project_id, **values))


def written(caller: Any, count: int = 4) -> None:
    write(caller, *(f"host.close{number}" for number in range(1, count + 1)), details={"share": 1.0, "of": [0.5]})
    seals.seal(CELL)


def command(*args: str) -> tuple[int, str]:
    reported = StringIO()
    try:
        call_command("verify_audit", *args, stdout=reported)
    except SystemExit as end:
        return int(str(end.code)), reported.getvalue()
    return 0, reported.getvalue()


def test_records_are_numbered_without_holes_whatever_was_undone(ana: Any) -> None:
    write(ana, "first")
    with write_tx(CELL):
        write(ana, "undone")
        transaction.set_rollback(True, using=CELL)
    write(ana, "second", error=Conflict("It is locked."), run_uuid=uuid4())
    assert seals.seal(CELL) == 2
    assert [(row.seal, row.action) for row in rows()] == [(1, "first"), (2, "second")]
    assert seals.seal(CELL) == 0
    assert seals.check(CELL) == ""


def change(done: Any) -> None:
    rows().filter(seal=2).update(user_name="bo")


def delete(done: Any) -> None:
    rows().filter(seal=2).delete()


def delete_last(done: Any) -> None:
    rows().filter(seal=4).delete()


def reorder(done: Any) -> None:
    for old, new in ((2, 99), (3, 2), (99, 3)):
        rows().filter(seal=old).update(seal=new)


def insert_sealed(done: Any) -> None:
    row = rows().get(seal=4)
    row.pk, row.uuid, row.seal = None, uuid4(), 5
    row.save(using=CELL)


def insert_new(done: Any) -> None:
    row = rows().get(seal=4)
    row.pk, row.uuid, row.seal, row.digest = None, uuid4(), None, ""
    row.save(using=CELL)
    seals.seal(CELL)


def unseal_and_change(done: Any) -> None:
    rows().filter(seal=4).update(seal=None, digest="", user_name="bo")
    seals.seal(CELL)


def shorten(done: Any) -> None:
    rows().filter(seal=4).delete()
    AuditChain.objects.using(CELL).update(head_number=3, head_digest=rows().get(seal=3).digest)


def hide_as_old(done: Any) -> None:
    rows().filter(seal=1).delete()
    AuditChain.objects.using(CELL).update(cut_number=1)


def drop_chain(done: Any) -> None:
    AuditChain.objects.using(CELL).all().delete()


ACTIONS: dict[Callable[[Any], None], str] = {
    change: "record 2 (",
    delete: "record 2 is missing",
    delete_last: "record 4 is missing",
    reorder: "is not the one that was sealed as number 2",
    insert_sealed: "record 5 (",
    insert_new: "was not written by Novella",
    unseal_and_change: "record 4 is missing",
    shorten: "the row of the chain was changed",
    hide_as_old: "the row of the chain was changed",
    drop_chain: "the row of the chain is gone",
}


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.__name__)
def test_changes_of_sealed_records_in_the_database_are_found(action: Callable[[Any], None], ana: Any) -> None:
    written(ana)
    assert command()[0] == 0
    action(ana)
    code, reported = command()
    assert (code, ACTIONS[action] in reported) == (1, True), reported
    assert "cell2: 0 records as they were written" in reported


def test_a_broken_chain_is_not_continued(ana: Any, caplog: pytest.LogCaptureFixture) -> None:
    written(ana)
    shorten(ana)
    write(ana, "later")
    periodic.seal_all([CELL], "conductor-1")
    assert rows().get(action="later").seal is None
    assert "the row of the chain was changed" in caplog.text
    page = text(signed_in("admin").get("/audit"))
    assert "The audit log was tampered with" in page
    assert "cell1: the row of the chain was changed" in page


def test_a_changed_key_is_reported_as_such(ana: Any, settings: Any) -> None:
    written(ana)
    settings.NOVELLA_AUDIT_KEY = "k" * 40
    code, reported = command()
    assert (code, "begun with another key" in reported) == (1, True)
    write(ana, "later")
    with pytest.raises(Conflict):
        seals.seal(CELL)


def test_records_of_a_release_that_did_not_sign_are_sealed_for_a_day(ana: Any) -> None:
    written(ana, 1)
    rows().create(action="old", result="done", user_id="u", created_at=factories.ago(0))
    assert seals.seal(CELL) == 1
    chain = AuditChain.objects.using(CELL).get()
    chain.begun_at = factories.ago(2 * DAY)
    seals._mark(CELL, chain)
    rows().create(action="late", result="done", user_id="u", created_at=factories.ago(0))
    write(ana, "signed")
    assert seals.seal(CELL) == 1
    assert "late) was not written by Novella" in command()[1]


def test_retention_cuts_the_oldest_and_the_rest_holds(ana: Any, settings: Any) -> None:
    settings.NOVELLA_KEEP_AUDIT_DAYS = 10
    for days in (12, 9, 11):  # the last one waits for the one that was sealed before it
        row = AuditRecord(action="a", result="done", user_id="u", created_at=factories.ago(days * DAY), error=None)
        row.signature = seals.signed(CELL, seals.content_of(row))
        row.save(using=CELL)
    seals.seal(CELL)
    assert pruner.prune([CELL]).counts == {CELL: {"audit": 1}}
    assert [row.seal for row in rows()] == [2, 3]
    assert seals.check(CELL) == ""
    rows().filter(seal=2).update(created_at=factories.ago(30 * DAY))  # so that it goes unseen
    assert pruner.prune([CELL]).counts == {CELL: {}}
    assert [row.seal for row in rows()] == [2, 3]


def test_an_exported_file_is_verified_alone_and_against_the_databases(ana: Any, tmp_path: Path) -> None:
    write(ana, "host.close", reason="=1+1", error=Conflict("It's locked."), details={"host": "sim-1", "of": [1.0]})
    write(ana, "host.open", reason="'quoted'", instance_uuid=uuid4())
    seals.seal(CELL)
    file = tmp_path / "audit.csv"
    file.write_text(signed_in("admin").get("/audit.csv").content.decode(), newline="")
    assert command("--file", str(file)) == (0, "All records are as they were written.\n")
    original = file.read_text()
    file.write_text(original.replace("host.close", "host.fence"))
    code, reported = command("--file", str(file))
    assert (code, "record 1 was changed" in reported) == (1, True)
    file.write_text(original)
    rows().filter(seal=2).delete()
    code, reported = command("--file", str(file), "--json")
    assert (code, len(json.loads(reported)["faults"]), "record 2 is missing" in reported) == (1, 1, True)


def test_a_database_that_is_away_is_named(ana: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = seals.check

    def check(alias: str) -> str:
        if alias == "cell2":
            raise DatabaseError("away")
        return real(alias)

    monkeypatch.setattr(seals, "check", check)
    code, reported = command()
    assert (code, "cell2 did not answer" in reported) == (2, True)


def test_the_page_of_the_audit_log_shows_its_seals_and_reading_it_is_audited(ana: Any) -> None:
    written(ana, 2)
    admin = signed_in("admin")
    assert "2 sealed records" in text(admin.get("/audit"))
    page = text(admin.get("/audit?user_id=x"))
    assert "2 records aren't sealed yet." in page, "signing in and looking are records too"
    assert "Not checked yet." in page
    for alias in ("default", CELL):
        periodic.seal_all([alias], "conductor-1")
    page = text(admin.get("/audit"))
    assert "4 sealed records" in page
    assert "no record was changed" in page
    admin.get("/audit.csv?result=refused")
    kept = AuditRecord.objects.exclude(action="session.sign_in").order_by("pk").values_list("action", "details")
    assert list(kept) == [
        ("audit.read", {"via": "page", "narrowed": {}}),
        ("audit.export", {"narrowed": {"result": "refused"}}),
    ]
