"""Evaluates the rule tables in `policies.py` of each API, which name the roles that each operation needs.

A table maps a rule's name to the roles that may use it. Any one of them is enough:

    RULES: RuleTable = {
        "os_compute_api:servers:create": MEMBER,
        "os_compute_api:os-keypairs:show": OWNER,
    }

Roles count in the caller's own project; administrators pass every rule in every project. RequestContext.roles already
hold the implied ones, so a rule names the lowest role that suffices. Only the identity API also takes tokens scoped to
a domain or the system; SYSTEM_READER to OWN_DOMAIN are for these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden

Rule = frozenset[str]
RuleTable = Mapping[str, Rule]

READER: Rule = frozenset({"reader"})
MEMBER: Rule = frozenset({"member"})
MANAGER: Rule = frozenset({"manager"})
ADMIN: Rule = frozenset({"admin"})
SERVICE: Rule = frozenset({"service"})
OWNER: Rule = frozenset({"owner"})  # the user that the resource belongs to, whatever the role
ANYONE: Rule = frozenset({"anyone"})  # every signed-in user
SYSTEM_READER: Rule = frozenset({"system_reader"})  # a reader with a system-scoped token
DOMAIN_READER: Rule = frozenset({"domain_reader"})  # a reader with a token scoped to the resource's domain
DOMAIN_MANAGER: Rule = frozenset({"domain_manager"})  # a manager with a token scoped to the resource's domain
OWN_PROJECT: Rule = frozenset({"own_project"})  # a token scoped to this very project, whatever the role
OWN_DOMAIN: Rule = frozenset({"own_domain"})  # a token scoped to this very domain or to a project in it


@dataclass(frozen=True)
class PolicyTarget:
    """Project, user and domain that a resource belongs to; None stands for the caller's own."""

    project_id: str | None = None
    user_id: str | None = None
    domain_id: str | None = None


def _is_reader_of_domain(context: RequestContext, target: PolicyTarget) -> bool:
    return bool(context.domain_id) and target.domain_id == context.domain_id and "reader" in context.roles


_OF_THE_CLOUD = ADMIN | SERVICE
# The role `admin` is a keyword too: whether it counts depends on the token's scope, see `RequestContext.is_admin`.
_WORDS: Mapping[str, Callable[[RequestContext, PolicyTarget], bool]] = {
    "admin": lambda context, target: context.is_admin,
    "anyone": lambda context, target: True,
    "owner": lambda context, target: target.user_id in (None, context.user_id),
    "system_reader": lambda context, target: context.is_on_system and "reader" in context.roles,
    "domain_reader": _is_reader_of_domain,
    "domain_manager": lambda context, target: _is_reader_of_domain(context, target) and "manager" in context.roles,
    "own_project": lambda context, target: bool(context.project_id) and target.project_id == context.project_id,
    "own_domain": lambda context, target: target.domain_id in (context.domain_id, context.project_domain_id),
}


def takes_system(rule: Rule) -> bool:
    """Return whether a rule is about the whole cloud, so that a system-scoped token may use it for changes."""
    return rule <= _OF_THE_CLOUD


def is_allowed(
    rule: Rule,
    context: RequestContext,
    *,
    target_project_id: str | None = None,
    target_user_id: str | None = None,
    target_domain_id: str | None = None,
) -> bool:
    """Return whether the caller may use the rule; targets that are None stand for the caller's own project and user."""
    if context.is_admin:
        return True
    target = PolicyTarget(target_project_id, target_user_id, target_domain_id)
    if any(_WORDS[word](context, target) for word in rule & _WORDS.keys()):
        return True
    # An operator may give a role the name of one of these keywords. Such a role does not satisfy the keyword.
    return target_project_id in (None, context.project_id) and not (rule - _WORDS.keys()).isdisjoint(context.roles)


def require(table: RuleTable, name: str, context: RequestContext, **targets: str | None) -> None:
    """Raises Forbidden naming the rule, or KeyError (a programming error) for a name that the table lacks."""
    if not is_allowed(table[name], context, **targets):
        raise Forbidden(f"Policy doesn't allow {name} to be performed.", rule=name)
