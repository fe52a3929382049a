"""A host that requests an answer lists a key id that no conductor has."""

from __future__ import annotations

from pathlib import Path

from conductor.rpc import identities
from conductor.rpc.envelope import SigningKey
from conductor.rpc.identities import HostIdentity


def test_a_request_changes_what_is_reported_until_it_is_answered(tmp_path: Path) -> None:
    conductors = SigningKey.new()
    known = {conductors.key_id: conductors.public_text}
    identity = HostIdentity(tmp_path / "h1", identities.new("h1", "cell1", known))
    assert identity.reported == identity.summary
    identity.is_answer_requested = True
    assert identity.reported["conductors"] == [conductors.key_id, ""]
    identity.is_answer_requested = False
    assert identity.reported["conductors"] == [conductors.key_id]
