"""Request bodies and queries of our own API: what is refused, under which name, and what comes out."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework import serializers

from conductor.core.errors import Invalid
from portal.api.novella.bodies import BodySerializer
from portal.api.novella.fields import (
    ChoiceField,
    CountField,
    FlagField,
    IntegerField,
    ListField,
    LooseFlagField,
    MapField,
    NameField,
    NumberField,
    TextField,
    UuidField,
    WordsField,
)

pytestmark = pytest.mark.unit


class Disk(BodySerializer):
    name = NameField()
    gb = CountField(min_value=1, required=False)


class Server(BodySerializer):
    needs_a_field = True

    name = TextField(required=False, max_length=5, pattern=r"\A[a-z]*\Z", message="Lower case.")
    note = TextField(required=False, allow_null=True)
    count = IntegerField(required=False, max_value=9)
    ratio = NumberField(required=False, above=0)
    enabled = FlagField(required=False)
    forced = LooseFlagField(required=False)
    size = ChoiceField((1, 2), required=False)
    disks = ListField(Disk(), required=False, max_length=1)
    labels = MapField(NameField(), most=1, longest_name=3, required=False)
    owner = UuidField(required=False)
    hint = WordsField(required=False)


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ({"count": 2.0}, {"count": 2}),
        ({"forced": "no"}, {"forced": False}),
        ({"disks": [{"name": "a", "gb": "5"}]}, {"disks": [{"name": "a", "gb": 5}]}),
        ({"note": None}, {"note": None}),
        ({"name": ""}, {"name": ""}),
        ({"hint": "a"}, {"hint": ["a"]}),
        ({"ratio": 2}, {"ratio": 2}),
    ],
)
def test_values_come_out_as_the_services_take_them(sent: Any, read: Any) -> None:
    assert Server.parse(sent) == read


@pytest.mark.parametrize(
    ("sent", "field", "words"),
    [
        ([], "", "the request body. It must be an object."),
        (None, "", "It must be an object."),
        ({}, "", "At least 1 properties are needed."),
        ({"b": 1, "a": 1}, "", "Additional properties are not allowed ('a', 'b' were unexpected)."),
        ({"disks": [{"gb": 1}]}, "disks[0]", "'name' is a required property."),
        ({"disks": [{"name": "a", "gb": "0"}]}, "disks[0].gb", "Value: '0'. It must be at least 1."),
        ({"disks": [{"name": "a", "gb": "1e3"}]}, "disks[0].gb", "It must be an integer or a string."),
        ({"disks": [{"name": "a"}, {"name": "b"}]}, "disks", "At most 1 items are allowed."),
        ({"disks": {}}, "disks", "It must be a list."),
        ({"name": "Web"}, "name", "Value: 'Web'. Lower case."),
        ({"name": 5}, "name", "Lower case."),
        ({"note": 5}, "note", "It must be a string or null."),
        ({"count": True}, "count", "Value: 'true'. It must be an integer."),
        ({"count": "5"}, "count", "It must be an integer."),
        ({"count": float("inf")}, "count", "It must be an integer."),
        ({"count": 10}, "count", "It must be at most 9."),
        ({"ratio": 0}, "ratio", "It must be at least 0."),
        ({"enabled": "true"}, "enabled", "It must be a boolean."),
        ({"forced": 1}, "forced", "It must be true or false."),
        ({"size": "1"}, "size", "It must be one of 1, 2."),
        ({"size": True}, "size", "It must be one of 1, 2."),
        ({"labels": {"long": "x"}}, "labels", "1 to 3 characters"),
        ({"labels": {"a": "x", "b": "y"}}, "labels", "At most 1 properties are allowed."),
        ({"labels": {"a": ""}}, "labels.a", "It is too short: at least 1 characters are needed."),
        ({"owner": "me"}, "owner", "It is not a valid uuid."),
        ({"hint": [""]}, "hint", "It has none of the allowed forms."),
    ],
)
def test_invalid_fields_are_named(sent: Any, field: str, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        Server.parse(sent)
    assert refused.value.details["field"] == field
    assert words in refused.value.message


def test_an_unknown_field_is_named_before_a_wrong_one() -> None:
    with pytest.raises(Invalid, match="unexpected"):
        Server.parse({"count": "many", "colour": "red"})


def test_a_secret_is_not_repeated() -> None:
    class Login(BodySerializer):
        password = serializers.EmailField()

    with pytest.raises(Invalid) as refused:
        Login.parse({"password": "tiger"})
    assert "tiger" not in refused.value.message
