"""Messages to JSON and back, between releases that are not the same."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.errors import Invalid
from conductor.rpc.codec import UnknownMessage, decode, encode
from conductor.rpc.messages import ConsoleWritten, DestroyInstance, SpawnInstance, StepAnswered

DESTROY = DestroyInstance(step_key="k", fencing_token=7, run_uuid="r", cell="cell1", host="host-1", instance_uuid="i")
TEXT = st.text(max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def test_a_message_is_named_and_versioned() -> None:
    assert encode(DESTROY) == {
        "message": "destroy_instance",
        "version": "1.0",
        "body": {
            "step_key": "k",
            "fencing_token": 7,
            "run_uuid": "r",
            "cell": "cell1",
            "host": "host-1",
            "instance_uuid": "i",
        },
    }


@given(
    st.builds(
        SpawnInstance,
        step_key=TEXT,
        fencing_token=st.integers(0, 2**63 - 1),
        run_uuid=TEXT,
        cell=TEXT,
        host=TEXT,
        instance_uuid=TEXT,
        guest=st.dictionaries(TEXT, VALUES, max_size=4),
    )
    | st.builds(
        StepAnswered,
        step_key=TEXT,
        run_uuid=TEXT,
        fencing_token=st.integers(0, 2**63 - 1),
        host=TEXT,
        ok=st.booleans(),
        result=st.dictionaries(TEXT, VALUES, max_size=4),
        error=st.none() | st.dictionaries(TEXT, VALUES, max_size=4),
    )
    | st.builds(ConsoleWritten, host=TEXT, instance_uuid=TEXT, offset=st.integers(0, 2**53), text=st.text())
)
def test_messages_survive_json(message: object) -> None:
    assert decode(json.loads(json.dumps(encode(message)))) == message


def test_fields_of_a_newer_minor_version_are_dropped() -> None:
    newer = encode(DESTROY)
    newer["version"] = "1.9"
    newer["body"]["reason"] = "because"
    assert decode(newer) == DESTROY


def test_fields_with_a_default_may_be_missing() -> None:
    old = {"step_key": "k", "run_uuid": "r", "fencing_token": 1, "host": "h", "ok": True, "result": {}}
    assert decode({"message": "step_answered", "version": "1.0", "body": old}) == StepAnswered(**old, error=None)


@pytest.mark.parametrize(
    ("name", "version"), [("destroy_instance", "2.0"), ("destroy_instance", "10.0"), ("freeze_instance", "1.0")]
)
def test_a_newer_major_version_or_name_is_refused_not_guessed(name: str, version: str) -> None:
    with pytest.raises(UnknownMessage, match=f"Message {name} {version} is not known here."):
        decode({**encode(DESTROY), "message": name, "version": version})
    assert issubclass(UnknownMessage, Invalid)


def test_messages_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DESTROY.host = "host-2"  # type: ignore[misc]
    assert not hasattr(DESTROY, "__dict__")
