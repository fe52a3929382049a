"""Rule tables: roles count at home, administrators everywhere, owners for themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.identity.roles import ROLE_HIERARCHY, implied_names
from portal.api.authorization import ADMIN, ANYONE, MANAGER, MEMBER, OWNER, READER, SERVICE, is_allowed, require

LEVELS = {"reader": READER, "member": MEMBER, "manager": MANAGER, "admin": ADMIN}


def caller(*roles: str, user: str = "ana", project: str = "shop") -> RequestContext:
    return RequestContext(
        user_id=user,
        project_id=project,
        request_id="req-1",
        roles=implied_names(roles),
        is_on_admin_project=project == "admin",
    )


@given(st.sampled_from(ROLE_HIERARCHY), st.sampled_from(ROLE_HIERARCHY))
def test_a_role_passes_its_own_level_and_all_below(held: str, needed: str) -> None:
    assert is_allowed(LEVELS[needed], caller(held, project="admin")) == (
        ROLE_HIERARCHY.index(held) <= ROLE_HIERARCHY.index(needed)
    )


@pytest.mark.parametrize("rule", [READER, MEMBER, MANAGER])
def test_roles_end_at_the_project(rule: frozenset[str]) -> None:
    assert is_allowed(rule, caller("manager"), target_project_id="shop")
    assert not is_allowed(rule, caller("manager"), target_project_id="lab")
    assert is_allowed(rule, caller("admin", project="admin"), target_project_id="lab")
    assert not is_allowed(rule, caller("admin"), target_project_id="lab")


def test_owners_are_known_by_user_not_by_role() -> None:
    assert is_allowed(OWNER, caller(), target_user_id="ana")
    assert not is_allowed(OWNER, caller("manager"), target_user_id="bo")
    assert is_allowed(OWNER, caller("admin", project="admin"), target_user_id="bo")
    assert not is_allowed(OWNER, caller("admin"), target_user_id="bo")


def test_no_role_implies_service() -> None:
    assert not is_allowed(SERVICE, caller("manager"))
    assert is_allowed(SERVICE, caller("service"))
    assert is_allowed(ANYONE, caller())
    assert not is_allowed(READER, caller())


def test_a_refusal_names_the_rule() -> None:
    with pytest.raises(Forbidden) as refused:
        require({"servers:delete": MEMBER}, "servers:delete", caller("reader"))
    assert refused.value.message == "Policy doesn't allow servers:delete to be performed."


def test_a_missing_rule_is_an_internal_error() -> None:
    with pytest.raises(KeyError):
        require({}, "servers:delete", caller("admin"))
