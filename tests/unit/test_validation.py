"""Validation of request bodies: an error names the field and the remedy, and never contains a secret."""

from __future__ import annotations

import unicodedata
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.errors import Invalid
from portal.api.schema_parts import BOOLEAN, NAME, POSITIVE_INTEGER, UUID, closed, wrapped
from portal.api.validation import as_boolean, validate

SERVER = wrapped(
    "server",
    {
        "name": NAME,
        "count": POSITIVE_INTEGER,
        "adminPass": {"type": "string", "maxLength": 8},
        "user_data": {"type": "string", "pattern": "^[a-z]*$"},
        "config_drive": BOOLEAN,
        "networks": {
            "oneOf": [
                {"enum": ["auto", "none"]},
                {"type": "array", "items": closed({"uuid": UUID, "fixed_ip": {"type": "string", "format": "ip"}})},
            ]
        },
    },
    required=("name",),
)


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ({"name": ""}, "field/attribute server.name. Value: ''. It must have 1 to 255 characters"),
        ({"name": "web\n"}, "field/attribute server.name."),
        ({"name": " web"}, "field/attribute server.name. Value: ' web'. It must have 1 to 255"),
        ({"name": "a\u0007"}, "field/attribute server.name."),
        ({"name": None}, "field/attribute server.name. Value: 'null'. It must have"),
        ({}, "field/attribute server. 'name' is a required property."),
        ({"name": "web", "count": 0}, "field/attribute server.count. Value: '0'. It must be at least 1."),
        ({"name": "web", "count": "x"}, "field/attribute server.count. Value: 'x'."),
        ({"name": "web", "count": 1.5}, "server.count. Value: '1.5'. It must be an integer or a string."),
        ({"name": "web", "colour": "red"}, "server. Additional properties are not allowed ('colour' was unexpected)."),
        ({"name": "web", "a": 1, "b": 2}, "not allowed ('a', 'b' were unexpected)."),
        ({"name": "web", "config_drive": "maybe"}, "server.config_drive. Value: 'maybe'. It must be true or false."),
        ({"name": "web", "networks": [{"uuid": "x"}]}, "server.networks[0].uuid. Value: 'x'. It is not a valid uuid."),
        ({"name": "web", "networks": [{"fixed_ip": "1.2.3"}]}, "server.networks[0].fixed_ip. Value: '1.2.3'."),
        ({"name": "web", "networks": "any"}, "server.networks. Value: 'any'."),
    ],
)
def test_an_error_names_the_field_and_the_remedy(server: Any, message: str) -> None:
    with pytest.raises(Invalid) as refused:
        validate({"server": server}, SERVER)
    assert message in refused.value.message
    assert refused.value.message.startswith("Invalid input for ")


@pytest.mark.parametrize("body", [None, [], "server", 3, {}, {"servers": {}}, {"server": []}])
def test_bodies_of_another_shape_are_refused(body: Any) -> None:
    with pytest.raises(Invalid):
        validate(body, SERVER)


@pytest.mark.parametrize("field", ["adminPass", "user_data"])
def test_secrets_are_not_repeated(field: str) -> None:
    with pytest.raises(Invalid) as refused:
        validate({"server": {"name": "web", field: "S3CRET-and-far-too-long"}}, SERVER)
    assert "S3CRET" not in refused.value.message
    assert f"server.{field}" in refused.value.message


def test_an_error_does_not_contain_an_object_with_secrets() -> None:
    with pytest.raises(Invalid) as refused:
        validate({"server": {"name": "web", "adminPass": "S3CRET", "x": 1}}, SERVER)
    assert "S3CRET" not in refused.value.message


def test_long_values_are_cut() -> None:
    with pytest.raises(Invalid) as refused:
        validate({"server": {"name": "n" * 5000}}, SERVER)
    assert len(refused.value.message) < 300


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_value_is_accepted_or_invalid(value: Any) -> None:
    for body in (value, {"server": value}, {"server": {"name": value}}):
        with suppress(Invalid):
            assert validate(body, SERVER) is body


@given(st.text(min_size=1, max_size=255))
def test_names_are_kept_as_they_are(name: str) -> None:
    breaks_lines = any(unicodedata.category(letter) in ("Cc", "Zl", "Zp") for letter in name)
    is_fine = name == name.strip() and not breaks_lines
    try:
        accepted = validate({"server": {"name": name}}, SERVER)["server"]["name"] == name
    except Invalid:
        accepted = False
    assert accepted == is_fine


@pytest.mark.parametrize("value", [True, "true", "True", "1", "yes", 1])
def test_words_that_mean_true(value: Any) -> None:
    assert as_boolean(value, "all_tenants") is True


@pytest.mark.parametrize("value", [False, "false", "False", "0", "off", 0])
def test_words_that_mean_false(value: Any) -> None:
    assert as_boolean(value, "all_tenants") is False


def test_an_error_for_another_word_names_the_field() -> None:
    with pytest.raises(Invalid, match="all_tenants"):
        as_boolean("perhaps", "all_tenants")
