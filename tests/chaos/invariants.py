"""Invariants of a finished schedule, checked on the tables in plain SQL."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from django.db import connections

from tests.chaos import ledger

FINAL = {"done", "failed (undone)", "failed (not clean)", "cancelled"}
STEPS_OF = {flow.name: [step.name for step in flow.steps] for flow in ledger.FLOWS}
EFFECTS_OF = {
    flow.name: Counter(ledger.EFFECT_OF[type(step)] for step in flow.steps if type(step) in ledger.EFFECT_OF)
    for flow in ledger.FLOWS
}
LAST_WORDS = {
    (flow.name, state): [last.name]
    for flow in ledger.FLOWS
    for state, last in (("failed (undone)", flow.on_failure), ("cancelled", flow.on_cancel))
    if last is not None
}
MOURNING = (Counter[str](), Counter([ledger.MOURNED]))
# A late owner may be refused at any time.
AFTER_THE_END = {"run.cleanup_retried", "run.cleaned", "run.write_refused"}
WAYS = ("do", "undo", "end")
UNDOABLE = {step.name for step in ledger.BUILD.steps if step.has_revert}


def violations(running: Iterable[str], kept: Iterable[str], accepted: list[str]) -> list[str]:
    """Return the violations; `accepted` are the runs of accepted requests.

    `running` are the host's guests, and `kept` those that it retains for a revert.
    """
    runs = _rows(
        "cell1", "SELECT id, uuid, flow, state, instance_uuid, uncompensated, attempt FROM journal_workflowrun"
    )
    return [
        *_lost(runs, accepted),
        *_left_over(),
        *_wrong_effects(runs, _plain(running), _plain(kept)),
        *_wrong_histories(runs),
        *_wrong_tokens(),
        *_wrong_events(runs),
        *ledger.unlocked,
    ]


def _lost(runs: list[tuple[Any, ...]], accepted: list[str]) -> list[str]:
    there = {uuid.replace("-", "") for _, uuid, *_ in runs}
    lost = [f"run {uuid} was accepted and is lost" for uuid in accepted if uuid.replace("-", "") not in there]
    return lost + [f"run {pk} is not final: {state}" for pk, _, _, state, *_ in runs if state not in FINAL]


def _left_over() -> list[str]:
    wrong = []
    for table in ("journal_resourcelock", "journal_lockwait", "journal_outboxmessage"):
        for (count,) in _rows("cell1", f"SELECT count(*) FROM {table}"):
            wrong += [f"{count} left in {table}"] if count else []
    for (count,) in _rows("cell1", "SELECT count(*) FROM journal_workflowrun WHERE owner IS NOT NULL"):
        wrong += [f"{count} leases left"] if count else []
    return wrong


def _plain(uuids: Iterable[str]) -> set[str]:
    """Return the value as the tables hold it."""
    return {uuid.replace("-", "") for uuid in uuids}


def _wrong_effects(runs: list[tuple[Any, ...]], guests: set[str], kept: set[str]) -> list[str]:
    """Return violations: each effect exists exactly once if its build is done and no delete of it is, and else not
    at all.
    """
    deleted = {thing for _, _, flow, state, thing, *_ in runs if flow == ledger.DELETE.name and state == "done"}
    left_of: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for _, _, flow, state, thing, *_ in runs:
        left_of[thing] += EFFECTS_OF[flow] if state == "done" else MOURNING[(flow, state) in LAST_WORDS]
    unclean = {thing for _, _, _, state, thing, *_ in runs if state == "failed (not clean)"}
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for alias, effects in ledger.EFFECTS.items():
        for thing, what in _rows(alias, "SELECT thing, what FROM ledger"):
            found[thing.replace("-", "")][what] += 1
            if what not in effects:
                return [f"{what} in the wrong database"]
    wrong = [f"thing {thing[-2:]} was deleted, and the host keeps something of it" for thing in deleted & kept]
    for thing in {thing for *_, thing, _, _ in runs} - unclean:
        wanted = left_of[thing] if thing not in deleted else Counter[str]()
        if found[thing] != wanted:
            wrong.append(f"thing {thing[-2:]} has {dict(found[thing])} instead of {dict(wanted)}")
        is_as_wanted = (thing in guests) == bool(wanted["spawned"]) and (thing in kept) == bool(wanted["kept"])
        if not is_as_wanted:
            wrong.append(f"thing {thing[-2:]}: the host and the journal do not agree")
    return wrong


def _wrong_histories(runs: list[tuple[Any, ...]]) -> list[str]:
    """Return violations: a run that is done did each step once in its last attempt; one that failed undid all its
    steps.
    """
    records: defaultdict[tuple[int, str], list[tuple[Any, ...]]] = defaultdict(list)
    query = "SELECT run_id, direction, attempt, name, state FROM journal_steprecord ORDER BY id"
    for run_id, *record in _rows("cell1", query):
        records[run_id, record[0]].append(tuple(record))
    wrong = []
    for pk, _, flow, state, _, _, attempt in runs:
        done = [name for _, at, name, how in records[pk, "do"] if at == attempt and how in ("done", "skipped")]
        undone = {name for _, at, name, how in records[pk, "undo"] if at == attempt and how == "undone"}
        if state == "done" and done != STEPS_OF[flow]:
            wrong.append(f"run {pk} is done with the steps {done}")
        if state in ("failed (undone)", "cancelled") and not (set(done) & UNDOABLE) <= undone:
            wrong.append(f"run {pk} ended {state}, and did not undo {sorted(set(done) & UNDOABLE - undone)}")
        last = [name for _, _, name, how in records[pk, "end"] if how != "failed"]
        if last != LAST_WORDS.get((flow, state), []) and state != "failed (not clean)":
            wrong.append(f"run {pk} ended {state} with the last words {last}")
        still_open = [row for way in WAYS for row in records[pk, way] if row[3] in ("running", "waiting")]
        wrong += [f"run {pk} left {row[2]} {row[3]}" for row in still_open]
    return wrong


def _wrong_tokens() -> list[str]:
    """Tokens only rise: within a run, and from one run to the next on the same thing."""
    wrong, newest = [], defaultdict(int)
    for run_id, token in _rows("cell1", "SELECT run_id, fencing_token FROM journal_steprecord ORDER BY id"):
        if token < newest[run_id]:
            wrong.append(f"run {run_id}: token {token} after {newest[run_id]}")
        newest[run_id] = max(newest[run_id], token)
    granted = dict(_rows("cell1", _GRANTS))
    wrong += [
        f"run {run_id} worked with a token that was never granted" for run_id, token in newest.items() if not token
    ]
    return wrong + [f"run {run_id}: two grants share a token" for run_id, count in granted.items() if count > 1]


_GRANTS = (
    "SELECT run_id, max(n) FROM (SELECT run_id, fencing_token, count(DISTINCT worker) AS n FROM journal_steprecord "
    "GROUP BY run_id, fencing_token) AS shared GROUP BY run_id"
)


def _wrong_events(runs: list[tuple[Any, ...]]) -> list[str]:
    """Return violations: a history has one start, one end, then only cleanup, and a line for each opened record."""
    emitted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    after: defaultdict[str, Counter[str]] = defaultdict(Counter)
    query = "SELECT run_uuid, kind FROM journal_event WHERE run_uuid IS NOT NULL ORDER BY id"
    for run_uuid, kind in _rows("cell1", query):
        if emitted[run_uuid]["run.ended"]:
            after[run_uuid][kind] += 1
        emitted[run_uuid][kind] += 1
    opened = dict(_rows("cell1", "SELECT run_id, count(*) FROM journal_steprecord GROUP BY run_id"))
    wrong = []
    for pk, uuid, *_ in runs:
        kinds = emitted[uuid]
        if kinds["run.ended"] != 1 or kinds["run.queued"] != 1 or kinds["run.started"] != 1:
            wrong.append(f"run {pk}: its history says {dict(kinds)}")
        if not after[uuid]["run.intervention"] and set(after[uuid]) - AFTER_THE_END:
            wrong.append(f"run {pk}: after its end its history says {dict(after[uuid])}")
        if kinds["step.started"] != opened.get(pk, 0):
            wrong.append(f"run {pk}: {kinds['step.started']} start events for {opened.get(pk, 0)}")
    return wrong


def _rows(alias: str, query: str) -> list[tuple[Any, ...]]:
    with connections[alias].cursor() as sql:
        sql.execute(query)
        return sql.fetchall()
