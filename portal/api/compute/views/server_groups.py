"""Server groups: servers to be placed together or apart."""

from __future__ import annotations

import re
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services.servers import groups
from conductor.services.servers.types import GroupView
from portal.api.base import ApiRequest
from portal.api.compute.representations import parts
from portal.api.compute.schemas import server_groups as schemas
from portal.api.compute.view import BARE_SINCE, ComputeView
from portal.api.microversions import Microversion
from portal.api.pagination import MAX_LIMIT
from portal.api.validation import validate

ONE_POLICY_SINCE = "2.64"


class ServerGroups(ComputeView):
    def get(self, request: ApiRequest) -> Response:
        self.refuse_unknown_query(("all_projects", "offset"))
        is_all = "all_projects" in request.query_params
        if is_all:
            self.allow("os-server-groups:index:all_projects")
        found = groups.list_groups(
            request.context,
            all_projects=is_all,
            limit=min(self._number("limit", MAX_LIMIT), MAX_LIMIT),
            offset=self._number("offset", 0),
        )
        return Response({"server_groups": [_group(group, request.microversion) for group in found]})

    def post(self, request: ApiRequest) -> Response:
        wanted = validate(request.data, schemas.create(request.microversion))["server_group"]
        policy = wanted["policy"] if "policy" in wanted else wanted["policies"][0]
        rules = {
            name: parts.number(value, f"server_group.rules.{name}") for name, value in wanted.get("rules", {}).items()
        }
        made = groups.create(request.context, wanted["name"], policy, rules)
        return Response({"server_group": _group(made, request.microversion)})

    def _number(self, name: str, default: int) -> int:
        text = self.request.query_params.get(name, str(default))
        if not re.fullmatch(r"[0-9]{1,9}", text):
            raise Invalid(f"Invalid input for query parameter {name}. It must be a number.", field=name)
        return int(text)


class ServerGroup(ComputeView):
    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, group_id: str) -> Response:
        found = groups.get(request.context, group_id)
        return Response({"server_group": _group(found, request.microversion)})

    def delete(self, request: ApiRequest, group_id: str) -> Response:
        groups.delete(request.context, group_id)
        return Response(status=204)


def _group(group: GroupView, version: Microversion) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": group.uuid, "name": group.name, "members": list(group.member_uuids)}
    if version.covers(ONE_POLICY_SINCE):
        shown |= {"policy": group.policy, "rules": dict(group.rules)}
    else:
        shown |= {"policies": [group.policy], "metadata": {}}
    if version.covers("2.13"):
        shown |= {"project_id": group.project_id, "user_id": group.user_id}
    return shown
