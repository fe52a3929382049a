"""The audit log's chain: every change of sealed records without the key is detected."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from conductor.core.audit_chain import CONTENT, Chain, ChainPosition, SealedRecord, key_of, plain

CHAIN = Chain(key_of("a secret of thirty-two characters"), "cell1")
THIEF = Chain(key_of("another one"), "cell1")
BEGIN = ChainPosition()
OTHER = Chain(CHAIN.key, "cell2")


def records(chain: Chain, count: int) -> list[SealedRecord]:
    rows: list[SealedRecord] = []
    for number in range(count):
        before = rows[-1].place if rows else BEGIN
        content = {**dict.fromkeys(CONTENT, ""), "uuid": UUID(int=number), "action": "host.close", "details": {}}
        signature = chain.sign(content)
        rows.append(SealedRecord(chain.follow(before, signature), signature, content))
    return rows


def fault(rows: list[SealedRecord], end: ChainPosition, begin: ChainPosition = BEGIN) -> str:
    return CHAIN.fault(begin, end, sorted(rows, key=lambda row: row.place.number))


def resealed(chain: Chain, before: ChainPosition, row: SealedRecord) -> SealedRecord:
    signature = chain.sign(row.content)
    return SealedRecord(chain.follow(before, signature), signature, row.content)


@st.composite
def attacks(draw: st.DrawFn) -> tuple[str, list[SealedRecord], list[SealedRecord]]:
    """Draw an attack: its name, the records before it and after it."""
    was = records(CHAIN, draw(st.integers(2, 8)))
    rows, at = list(was), draw(st.integers(0, len(was) - 1))
    row, before = was[at], was[at - 1].place if at else BEGIN
    name = draw(st.sampled_from(CONTENT))
    changed = replace(row, content={**row.content, name: "forged"})
    action = draw(st.sampled_from(["change", "sign", "delete", "insert", "swap", "renumber", "move"]))
    if action == "change":
        rows[at] = changed
    elif action == "sign":  # by a key of his own, all that follows too
        for place in range(at, len(was)):
            follows = rows[place - 1].place if place else BEGIN
            rows[place] = resealed(THIEF, follows, changed if place == at else was[place])
    elif action == "delete":
        del rows[at]
    elif action == "insert":
        rows.insert(at, replace(changed, place=row.place))
    elif action == "swap":
        other = draw(st.integers(0, len(was) - 1).filter(lambda number: number != at))
        rows[at], rows[other] = replace(was[at], place=was[other].place), replace(was[other], place=row.place)
    elif action == "renumber":
        rows[at] = replace(
            row, place=replace(row.place, number=draw(st.integers(-1, 99).filter(lambda n: n != at + 1)))
        )
    else:  # from another cell, sealed there under the same number
        rows[at] = resealed(OTHER, before, row)
    return action, was, rows


@given(attacks())
def test_any_change_of_the_chain_is_found(attack: tuple[str, list[SealedRecord], list[SealedRecord]]) -> None:
    action, was, rows = attack
    assert fault(was, was[-1].place) == ""
    assert fault(rows, was[-1].place), action


@given(st.integers(1, 8), st.data())
def test_a_chain_whose_oldest_records_were_pruned_verifies(count: int, data: st.DataObject) -> None:
    rows = records(CHAIN, count)
    cut = data.draw(st.integers(0, count))
    begin = rows[cut - 1].place if cut else BEGIN
    assert fault(rows[cut:], rows[-1].place, begin) == ""
    if cut:
        assert "was inserted" in fault(rows[cut - 1 :], rows[-1].place, begin)


def test_each_fault_has_its_name() -> None:
    rows = records(CHAIN, 3)
    end = rows[-1].place
    changed = replace(rows[1], content={**rows[1].content, "user_name": "bo"})
    assert fault([rows[0], changed, rows[2]], end).startswith(f"record 2 ({UUID(int=1)}, host.close) was changed")
    assert fault([rows[0], rows[2]], end) == "record 2 is missing: the next one is number 3"
    assert fault(rows[:2], end) == "record 3 is missing: 3 were sealed"
    assert "was inserted" in fault([*rows, replace(rows[2], place=ChainPosition(4))], end)


def test_a_value_has_one_form_before_it_is_stored_and_after() -> None:
    time = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert plain({"a": (1.0, 0.5), 2: time}) == {"a": [1, 0.5], "2": "2026-01-02T03:04:05.000000+00:00"}
