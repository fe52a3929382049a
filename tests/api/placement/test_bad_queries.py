"""Invalid queries for candidates: 400 for each kind of error, with the key that has it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from django.http import QueryDict

from conductor.core.errors import Invalid
from portal.api.microversions import parse as version_of
from portal.api.placement.microversions import newest
from portal.api.placement.representations.candidates import parse
from portal.api.placement.schemas.candidates import LIST
from portal.api.placement.view import fitting

VERSION = {"OpenStack-API-Version": "placement 1.39"}
UUID = "11111111-1111-4111-8111-111111111111"
AMOUNTS = (
    "",
    ",",
    "VCPU",
    "VCPU:",
    "VCPU:0",
    "VCPU:-1",
    "VCPU:1.5",
    "VCPU:one",
    "VCPU:+1",
    "VCPU: 1",
    "VCPU:1_0",
    "VCPU:١",
    "VCPU:1:2",
    "VCPU:1,",
    ",VCPU:1",
    "VCPU:1,,MEMORY_MB:1",
    "VCPU:1;MEMORY_MB:1",
    "VCPU:" + "9" * 5000,
    "VCPU:1\x00",
)
TRAITS = (
    "",
    ",",
    "!",
    "COMPUTE_NODE,",
    ",COMPUTE_NODE",
    "!!COMPUTE_NODE",
    "in:",
    "in:,",
    "in:COMPUTE_NODE,",
    "in:!COMPUTE_NODE",
    "COMPUTE_NODE,!COMPUTE_NODE",
)
ROOT_TRAITS = (*TRAITS, "in:COMPUTE_NODE")
AGGREGATES = (
    "",
    ",",
    "in:",
    "!in:",
    "rack",
    f"{UUID},{UUID}",
    f"in:{UUID},",
    f"in:{UUID},rack",
    f"!{UUID},{UUID}",
    f"!in:{UUID},!{UUID}",
    f"!!{UUID}",
    f"in:!{UUID}",
    f"{UUID}0",
    f"{UUID}\x00",
)
TREES = ("", "rack", f"{UUID},{UUID}", f"in:{UUID}", f"!{UUID}", f"{UUID}\x00")
LIMITS = ("", "0", "-1", "1.5", "one", "01", " 1", "1 ", "+1", "1_0", "١", "1,2")
POLICIES = ("", "None", "NONE", "isolated", "none,isolate", "none ")
SUBTREES = ("", ",", "_A,", ",_A", "_A,_NONE", "_NONE", "_A _B", "resources_A", "_a")

BAD: dict[str, tuple[str, ...]] = {
    "resources": AMOUNTS,
    "resources_A": AMOUNTS,
    "required": TRAITS,
    "required_A": TRAITS,
    "root_required": ROOT_TRAITS,
    "member_of": AGGREGATES,
    "member_of_A": AGGREGATES,
    "in_tree": TREES,
    "in_tree_A": TREES,
    "limit": LIMITS,
    "group_policy": POLICIES,
    "same_subtree": SUBTREES,
}
GOOD = {"resources": "VCPU:1", "resources_A": "VCPU:1", "resources_B": "VCPU:1", "group_policy": "none"}
UNKNOWN = (
    "Resources",
    "resource",
    "resources ",
    "resources_A.B",
    "resources_" + "A" * 64,
    "resources_Ä",
    "requires",
    "in_tree.A",
    "memberof",
    "limits",
    "root_required_A",
    "same_subtree_A",
    "group_policy_A",
    "limit1",
    "required[]",
    "",
)


UNHEARD_OF = (
    ("resources", "CUSTOM_SHOES:1"),
    ("resources", ":1"),
    ("resources", "vcpu:1"),
    ("required", "COMPUTE_NODE\x00"),
    ("required", "!in:COMPUTE_NODE"),
    ("resources_A", "VCPU:1,CUSTOM_SHOES:1"),
    ("required", "CUSTOM_NONE"),
    ("required_A", "!CUSTOM_NONE"),
    ("required_A", "in:CUSTOM_NONE,COMPUTE_NODE"),
    ("root_required", "!CUSTOM_NONE"),
)
STRANGE = (
    {"resources": "VCPU:2147483648"},  # more than any host can have, which is a question still
    {"limit": "99999999999999999999"},
    {"in_tree": f"{UUID} "},
    {"member_of_A": f"{{{UUID}}}"},
    {"required": "COMPUTE_NODE, !HW_NUMA_ROOT"},
    {"same_subtree": "_A,_B"},
)


def fault(*pairs: tuple[str, str]) -> Invalid | None:
    """Return the error of the query's parser, before any lookup."""
    requested = QueryDict(urlencode(pairs))
    version = version_of("1.39")
    try:
        fitting({name: values[-1] for name, values in requested.lists()}, newest(LIST, version), "Invalid query")
        parse(requested, version)
    except Invalid as error:
        return error
    return None


@pytest.mark.parametrize("key", BAD)
def test_each_invalid_query_names_its_key(key: str) -> None:
    for value in BAD[key]:
        found = fault(*(GOOD | {key: value}).items())
        assert found is not None, value
        assert key in found.message, value
        assert len(found.message) < 400, value


def test_a_key_that_does_not_exist_is_named() -> None:
    for key in UNKNOWN:
        found = fault(*GOOD.items(), (key, "VCPU:1"))
        assert found is not None, key
        assert key[:40] in found.message, key


@pytest.mark.parametrize("strange", STRANGE, ids=str)
def test_unusual_but_valid_queries_are_accepted(strange: dict[str, str]) -> None:
    assert fault(*(GOOD | strange).items()) is None


def test_over_http_it_is_400_with_the_key_and_nothing_is_looked_for(api_client: Any) -> None:
    client = api_client("admin")
    for key, value in (*((key, values[-1]) for key, values in BAD.items()), *UNHEARD_OF):
        requested = urlencode(list((GOOD | {key: value}).items()))
        answer = client.get(f"/placement/allocation_candidates?{requested}", headers=VERSION)
        assert (answer.status_code, key in answer.content.decode()) == (400, True), (key, value, answer.content)
