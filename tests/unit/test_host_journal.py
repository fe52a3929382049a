"""The journal of a host: its decisions, its entries, and its errors."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from conductor.compute.host_journal import CommandDecision, HostJournal, JournalDecision, JournalUnusable
from conductor.rpc.messages import DestroyInstance, SpawnInstance

ANSWER = {"ok": True, "result": {"n": 1}, "error": None}


def spawn(key: str = "k1", token: int = 5, instance: str = "i1", **guest: str) -> SpawnInstance:
    return SpawnInstance(
        step_key=key,
        fencing_token=token,
        run_uuid="r",
        cell="cell1",
        host="host-1",
        instance_uuid=instance,
        guest=dict(guest),
    )


def destroy(key: str = "k2", token: int = 6, instance: str = "i1") -> DestroyInstance:
    return DestroyInstance(
        step_key=key, fencing_token=token, run_uuid="r", cell="cell1", host="host-1", instance_uuid=instance
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents" / "host-1.sqlite3"


@pytest.fixture
def journal(path: Path) -> Iterator[HostJournal]:
    opened = HostJournal(path)
    yield opened
    opened.close()


def reopened(journal: HostJournal, path: Path) -> HostJournal:
    journal.close()
    return HostJournal(path)


def test_a_command_runs_once_and_its_answer_is_repeated(journal: HostJournal) -> None:
    assert journal.begin(spawn()) == JournalDecision(CommandDecision.RUN)
    assert journal.begin(spawn()) == JournalDecision(CommandDecision.BUSY)
    journal.finish("k1", ANSWER)
    assert journal.begin(spawn()) == JournalDecision(CommandDecision.ANSWERED, ANSWER)


def test_an_older_token_is_refused_and_leaves_no_trace(journal: HostJournal) -> None:
    assert journal.begin(destroy()).decision is CommandDecision.RUN
    assert journal.begin(spawn()) == JournalDecision(CommandDecision.REFUSED)
    assert journal.is_stale(spawn())
    assert not journal.is_stale(destroy())
    assert journal.begin(spawn(key="k3", token=6)).decision is CommandDecision.RUN  # equal: the same owner
    assert (
        journal.begin(spawn(key="k4", token=1, instance="i2")).decision is CommandDecision.RUN
    )  # tokens are per instance


def test_the_answer_of_an_overtaken_command_stays_the_same(journal: HostJournal) -> None:
    journal.begin(spawn())
    journal.finish("k1", ANSWER)
    journal.begin(destroy())
    assert journal.begin(spawn()) == JournalDecision(CommandDecision.ANSWERED, ANSWER)


def test_a_restart_keeps_answers_and_tokens_and_runs_again_what_was_cut_off(journal: HostJournal, path: Path) -> None:
    journal.begin(spawn())
    journal.begin(spawn(key="k9", token=7, instance="i9"))
    journal.finish("k9", ANSWER)
    journal = reopened(journal, path)
    try:
        assert journal.begin(spawn(key="k9", token=7, instance="i9")) == JournalDecision(
            CommandDecision.ANSWERED, ANSWER
        )
        assert journal.begin(spawn(key="k0", token=6, instance="i9")) == JournalDecision(CommandDecision.REFUSED)
        assert journal.begin(spawn()) == JournalDecision(CommandDecision.RUN)
        assert journal.begin(spawn()) == JournalDecision(CommandDecision.BUSY)
    finally:
        journal.close()


def test_an_abandoned_command_runs_when_it_is_repeated(journal: HostJournal) -> None:
    journal.begin(spawn())
    journal.abandon("k1")
    assert journal.begin(spawn()) == JournalDecision(CommandDecision.RUN)


def test_report_numbers_rise_across_restarts_and_after_the_loss_of_the_file(
    journal: HostJournal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = [journal.next_report_number(), journal.next_report_number()]
    journal = reopened(journal, path)
    numbers.append(journal.next_report_number())
    journal.close()
    for file in path.parent.glob("host-1.sqlite3*"):
        file.unlink()
    later = time.time_ns() + 10**9
    monkeypatch.setattr(time, "time_ns", lambda: later)
    journal = HostJournal(path)
    numbers.append(journal.next_report_number())
    journal.close()
    assert numbers == sorted(set(numbers))
    assert max(numbers) < 2**63


def test_pruning_forgets_old_answers_but_neither_tokens_nor_work(journal: HostJournal) -> None:
    journal.begin(spawn(key="old", instance="i1"))
    journal.finish("old", ANSWER)
    journal.begin(spawn(key="busy", instance="i2"))
    assert journal.prune(older_than_seconds=3600.0) == 0
    assert journal.prune(older_than_seconds=-1.0) == 1
    assert journal.begin(spawn(key="busy", instance="i2")) == JournalDecision(CommandDecision.BUSY)
    assert journal.begin(spawn(key="older", token=4)) == JournalDecision(CommandDecision.REFUSED)


def test_secrets_of_a_guest_are_not_stored_in_the_journal(journal: HostJournal, path: Path) -> None:
    journal.begin(spawn(user_data="correct horse battery"))
    journal.finish("k1", ANSWER)
    journal.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert all(b"correct horse" not in file.read_bytes() for file in path.parent.iterdir())
    with closing(sqlite3.connect(path)) as sql:
        assert sql.execute("SELECT name, state, body FROM commands").fetchone()[:2] == ("spawn_instance", "answered")


def test_a_damaged_file_is_named_with_advice(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is no database at all" * 100)
    with pytest.raises(JournalUnusable, match=f"Host journal {path}: file is not a database. Mend"):
        HostJournal(path)
    assert path.read_bytes() == b"this is no database at all" * 100


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "agents").write_text("a file where the folder should be")
    with pytest.raises(JournalUnusable, match=r"Host journal .*host-1.sqlite3"):
        HostJournal(tmp_path / "agents" / "host-1.sqlite3")


def test_two_agents_never_share_a_journal(journal: HostJournal, path: Path) -> None:
    with pytest.raises(JournalUnusable, match="another agent that is alive holds it"):
        HostJournal(path)
    assert journal.begin(spawn()) == JournalDecision(CommandDecision.RUN)


def test_a_refused_agent_of_the_same_process_leaves_the_lock_in_place(journal: HostJournal, path: Path) -> None:
    with pytest.raises(JournalUnusable, match="another agent that is alive holds it"):
        HostJournal(path)
    done = subprocess.run(
        [sys.executable, "-c", "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('BEGIN IMMEDIATE')", path],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "database is locked" in done.stderr


def test_a_journal_is_private_with_any_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        HostJournal(path).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_journal_of_a_newer_release_is_refused(journal: HostJournal, path: Path) -> None:
    journal.close()
    with closing(sqlite3.connect(path)) as sql:
        sql.execute("PRAGMA user_version = 9")
    with pytest.raises(JournalUnusable, match="newer release"):
        HostJournal(path)
