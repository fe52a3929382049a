"""Bodies of requests about a server's sub-resources other than volumes and ports."""

from __future__ import annotations

from portal.api.compute.schemas.servers import TAG, UUID
from portal.api.schema_parts import wrapped

ATTACH_SHARE = wrapped("share", {"share_id": UUID, "tag": TAG}, required=("share_id",))
