"""Identity API: who may do what."""

from __future__ import annotations

from portal.api.authorization import ADMIN, ANYONE, OWNER, RuleTable

RULES: RuleTable = {
    # Target of OWNER rules: the user that the request is about.
    "identity:validate_token": OWNER,
    "identity:revoke_token": OWNER,
    "identity:get_auth_catalog": ANYONE,
    "identity:get_auth_projects": ANYONE,
    "identity:get_auth_domains": ANYONE,
    "identity:list_domains": ADMIN,
    "identity:get_domain": ADMIN,
    "identity:list_projects": ADMIN,
    "identity:list_user_projects": OWNER,
    "identity:get_project": ADMIN,
    "identity:create_project": ADMIN,
    "identity:update_project": ADMIN,
    "identity:delete_project": ADMIN,
    "identity:list_users": ADMIN,
    "identity:get_user": OWNER,
    "identity:create_user": ADMIN,
    "identity:update_user": ADMIN,
    "identity:delete_user": ADMIN,
    "identity:change_password": OWNER,
    "identity:list_roles": ADMIN,
    "identity:get_role": ADMIN,
    "identity:create_role": ADMIN,
    "identity:delete_role": ADMIN,
    "identity:list_grants": ADMIN,
    "identity:check_grant": ADMIN,
    "identity:create_grant": ADMIN,
    "identity:revoke_grant": ADMIN,
    "identity:list_role_assignments": ADMIN,
    "identity:list_services": ADMIN,
    "identity:list_endpoints": ADMIN,
    "identity:list_regions": ANYONE,
}
