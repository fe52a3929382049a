"""Evaluates the rule tables `policies.py` of each API: who may do what.

A table maps a rule's name to the roles that may use it, any one of them being enough:

    RULES: RuleTable = {
        "os_compute_api:servers:create": MEMBER,
        "os_compute_api:os-keypairs:show": OWNER,
    }

Roles count in the asker's own project; administrators pass every rule in every project. RequestContext.roles
already hold the implied ones, so a rule names the lowest role that suffices.
"""

from __future__ import annotations

from collections.abc import Mapping

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden

Rule = frozenset[str]
RuleTable = Mapping[str, Rule]

READER: Rule = frozenset({"reader"})
MEMBER: Rule = frozenset({"member"})
MANAGER: Rule = frozenset({"manager"})
ADMIN: Rule = frozenset({"admin"})
SERVICE: Rule = frozenset({"service"})
OWNER: Rule = frozenset({"owner"})  # the user whom the resource belongs to, whatever the role
ANYONE: Rule = frozenset({"anyone"})  # whoever is signed in


def is_allowed(
    rule: Rule, context: RequestContext, *, target_project_id: str | None = None, target_user_id: str | None = None
) -> bool:
    """Whether the asker may; targets that are None stand for the asker's own project and user."""
    if context.is_admin or "anyone" in rule:
        return True
    if "owner" in rule and target_user_id in (None, context.user_id):
        return True
    return target_project_id in (None, context.project_id) and not rule.isdisjoint(context.roles)


def require(
    table: RuleTable,
    name: str,
    context: RequestContext,
    *,
    target_project_id: str | None = None,
    target_user_id: str | None = None,
) -> None:
    """Raises Forbidden naming the rule. A name that is missing in the table is a fault of ours (KeyError)."""
    if not is_allowed(table[name], context, target_project_id=target_project_id, target_user_id=target_user_id):
        raise Forbidden(f"Policy doesn't allow {name} to be performed.", rule=name)
