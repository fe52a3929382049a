"""Volume API: who may do what."""

from __future__ import annotations

from portal.api.authorization import ADMIN, MEMBER, READER, RuleTable

RULES: RuleTable = {
    "volume:get_all": READER,
    "volume:get": READER,
    "volume:create": MEMBER,
    "volume:update": MEMBER,
    "volume:delete": MEMBER,
    "volume:extend": MEMBER,
    "volume:get_all:all_projects": ADMIN,
    "volume:admin_fields": ADMIN,
    "volume_extension:reset_status": ADMIN,
    "volume_extension:types": READER,
    "volume_extension:quotas:show": READER,
    "volume_extension:quotas:update": ADMIN,
    "volume_extension:quotas:delete": ADMIN,
    "limits": READER,
    "availability_zone": READER,
    "snapshots": READER,
}
