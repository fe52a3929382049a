"""Console output from the host to the store: with pieces lost, doubled or late, the stored text is a true suffix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.compute.console_follower import MAX_BYTES_PER_MESSAGE, MAX_CONSOLES_PER_MESSAGE, ConsoleFollower
from conductor.compute.hosts import HostConfig
from conductor.core.console_text import TAIL_BYTES, to_text
from conductor.rpc.messages import ConsolesWritten
from conductor.services.consoles.logs import ConsoleLogSlice, join
from tests.tiny_driver import TinyDriver

CONFIG = HostConfig(host="host-1", cell="cell1", driver="tiny", journal_path=Path("unused"))
WRITTEN = st.one_of(st.binary(max_size=40), st.text(max_size=12).map(str.encode))


def keep(sent: list[ConsolesWritten]) -> ConsoleLogSlice | None:
    kept = None
    for message in sent:
        kept = join(kept, stretch(message))
    return kept


def stretch(message: ConsolesWritten) -> ConsoleLogSlice:
    """Return the stretch of the message's only console."""
    (piece,) = message.pieces
    return ConsoleLogSlice(piece["offset"], piece["text"].encode())


@settings(max_examples=200)
@given(st.data())
def test_stored_console_output_is_a_suffix_of_what_was_written(data: st.DataObject) -> None:
    """A follower that may be restarted sends; the pieces arrive in any order, some twice, and the last one does."""
    driver, sent = TinyDriver(), []
    follower = ConsoleFollower(CONFIG, driver, lambda _, message: sent.append(message))
    for written, is_restarted in data.draw(st.lists(st.tuples(WRITTEN, st.booleans()), min_size=1, max_size=8)):
        driver.consoles["a"] = driver.consoles.get("a", b"") + written
        if is_restarted:
            follower = ConsoleFollower(CONFIG, driver, lambda _, message: sent.append(message))
        follower.follow(["a"])
    if not sent:
        return
    lost = data.draw(st.sets(st.integers(0, len(sent) - 1)))
    arrived = [piece for number, piece in enumerate(sent) if number not in lost or number == len(sent) - 1]
    arrived += data.draw(st.lists(st.sampled_from(arrived), max_size=4))
    kept = keep(data.draw(st.permutations(arrived)))
    assert kept is not None
    shown = max(stretch(message).end for message in arrived)
    truth = to_text(driver.consoles["a"][:shown])
    assert kept.end == shown
    assert truth.endswith(to_text(kept.raw))
    assert kept.offset <= max(stretch(message).offset for message in arrived)


@given(st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=8), st.data())
def test_when_every_piece_comes_again_nothing_is_missing(written: list[bytes], data: st.DataObject) -> None:
    offsets = [sum(map(len, written[:number])) for number in range(len(written))]
    pieces = [ConsoleLogSlice(offset, raw) for offset, raw in zip(offsets, written, strict=True)]
    kept: ConsoleLogSlice | None = None
    for piece in data.draw(st.permutations(pieces)) + pieces[::-1]:
        kept = join(kept, piece)
    assert kept == ConsoleLogSlice(0, b"".join(written))


def test_no_more_than_the_tail_is_kept_and_it_begins_with_a_character() -> None:
    euros = "€" * TAIL_BYTES
    kept = join(
        ConsoleLogSlice(0, euros.encode()[:TAIL_BYTES]), ConsoleLogSlice(TAIL_BYTES, euros.encode()[TAIL_BYTES:])
    )
    assert kept.end == len(euros.encode())
    assert TAIL_BYTES - 3 <= len(kept.raw) <= TAIL_BYTES
    assert set(kept.raw.decode()) == {"€"}


class Follower:
    def __init__(self) -> None:
        self.driver = TinyDriver()
        self.sent: list[ConsolesWritten] = []
        self.follower = ConsoleFollower(CONFIG, self.driver, self._send)

    def _send(self, cell: str, message: Any) -> None:
        assert cell == "cell1"
        self.sent.append(message)

    @property
    def texts(self) -> list[tuple[str, int, str]]:
        pieces = [piece for message in self.sent for piece in message.pieces]
        return [(piece["instance_uuid"], piece["offset"], piece["text"]) for piece in pieces]


@pytest.fixture
def host() -> Follower:
    return Follower()


def test_only_news_are_sent(host: Follower) -> None:
    host.follower.follow(["a", "b"])
    assert host.sent == []
    host.driver.consoles = {"a": b"boot\n", "b": b""}
    host.follower.follow(["a", "b"])
    host.follower.follow(["a", "b"])
    host.driver.consoles["a"] += b"login: "
    host.follower.follow(["a", "b"])
    assert host.texts == [("a", 0, "boot\n"), ("a", 5, "login: ")]


def test_news_of_many_guests_go_together_and_no_message_is_too_large(host: Follower) -> None:
    quiet = [f"guest-{number:03d}" for number in range(2 * MAX_CONSOLES_PER_MESSAGE + 5)]
    host.driver.consoles = dict.fromkeys(quiet, b"boot\n")
    host.follower.follow(quiet)
    assert [len(message.pieces) for message in host.sent] == [MAX_CONSOLES_PER_MESSAGE, MAX_CONSOLES_PER_MESSAGE, 5]
    assert sorted(uuid for uuid, _, _ in host.texts) == quiet
    host.sent.clear()
    host.driver.consoles = dict.fromkeys(quiet, b"boot\n" + b"x" * TAIL_BYTES)
    host.follower.follow(quiet)
    assert {len(message.pieces) for message in host.sent[:-1]} == {MAX_BYTES_PER_MESSAGE // TAIL_BYTES + 1}
    assert sorted(uuid for uuid, _, _ in host.texts) == quiet


def test_half_a_character_waits_for_its_other_half(host: Follower) -> None:
    host.driver.consoles["a"] = "5 €".encode()[:-1]
    host.follower.follow(["a"])
    host.driver.consoles["a"] = "5 €!".encode()
    host.follower.follow(["a"])
    assert host.texts == [("a", 0, "5 "), ("a", 2, "€!")]


def test_of_a_long_console_the_tail_is_sent(host: Follower) -> None:
    host.driver.consoles["a"] = b"x" * (3 * TAIL_BYTES) + b"end"
    host.follower.follow(["a"])
    assert [(offset, len(text)) for _, offset, text in host.texts] == [(2 * TAIL_BYTES + 3, TAIL_BYTES)]
    host.follower.follow(["a"])
    assert len(host.sent) == 1


def test_a_guest_that_was_gone_or_built_anew_is_read_from_its_beginning(host: Follower) -> None:
    host.driver.consoles["a"] = b"first life"
    host.follower.follow(["a"])
    host.follower.follow([])
    host.driver.consoles["a"] = b"second"
    host.follower.follow(["a"])
    host.driver.consoles["a"] = b"third"
    host.follower.forget("a")
    host.follower.follow(["a"])
    assert host.texts == [("a", 0, "first life"), ("a", 0, "second"), ("a", 0, "third")]


def test_a_console_that_cannot_be_read_is_logged_once_and_stops_no_other(
    host: Follower, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.driver.consoles = {"a": b"a", "b": b"b"}
    read = host.driver.console_log

    def broken(uuid: str, offset: int) -> bytes:
        if uuid == "a":
            raise OSError("no such file")
        return read(uuid, offset)

    monkeypatch.setattr(host.driver, "console_log", broken)
    for _ in range(3):
        host.follower.follow(["a", "b"])
    assert host.texts == [("b", 0, "b")]
    assert caplog.text.count("console not read: host=host-1 instance=a") == 1
    monkeypatch.undo()
    host.follower.follow(["a", "b"])
    assert host.texts == [("b", 0, "b"), ("a", 0, "a")]


def test_a_driver_without_consoles_is_never_requested(host: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TinyDriver, "supports_console_log", False)
    host.driver.consoles["a"] = b"boot"
    host.follower.follow(["a"])
    assert host.sent == []
