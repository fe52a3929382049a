"""Views of the load balancer API: those of the network API's collections, with Octavia's faults and policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rest_framework.response import Response

from conductor.network import balancer_members, balancer_pools, load_balancers, quotas
from conductor.network.filters import NetworkListQuery
from conductor.services.quotas import network_quotas
from portal.api.base import ApiRequest, ApiView
from portal.api.discovery import DiscoveryView, version_entry
from portal.api.network.load_balancing import representations, resources
from portal.api.network.load_balancing.policies import RULES
from portal.api.network.load_balancing.schemas import QUOTA, QUOTAS
from portal.api.network.views import collections
from portal.api.network.views.collections import checked_project, parse_query
from portal.api.validation import as_boolean, validate

SERVICE = "load-balancer"


class BalancerView(ApiView):
    """Base view: Octavia's fault format, and policies."""

    service = SERVICE
    policies = RULES


class Root(DiscoveryView):
    """/load-balancer: the only version."""

    service = SERVICE

    def document(self, request: ApiRequest) -> dict[str, Any]:
        return {"versions": [version_entry(request, "v2.0", path="/load-balancer/v2.0", status="CURRENT")]}


class Collection(collections.Collection):
    """/v2.0/lbaas/{collection}."""

    service = SERVICE
    policies = RULES


class Item(collections.Member):
    """/v2.0/lbaas/{collection}/{id}."""

    service = SERVICE
    policies = RULES


class Balancer(Item):
    """/v2.0/lbaas/loadbalancers/{id}."""

    resource = resources.BALANCERS

    def delete(self, request: ApiRequest, item_id: str) -> Response:
        """Delete it; `cascade` deletes its listeners, pools and their parts too."""
        self.authorize("delete_loadbalancer")
        is_cascade = as_boolean(request.query_params.get("cascade", "false"), "cascade")
        load_balancers.delete_balancer(request.context, item_id, is_cascade=is_cascade)
        return Response(status=204)


class Status(BalancerView):
    """/v2.0/lbaas/loadbalancers/{id}/status."""

    def get(self, request: ApiRequest, item_id: str) -> Response:
        self.authorize("get_loadbalancer")
        return Response(representations.status_tree(load_balancers.get_balancer(request.context, item_id)))


class Members(Collection):
    """/v2.0/lbaas/pools/{pool}/members."""

    resource = resources.MEMBERS

    def get(self, request: ApiRequest, pool_id: str) -> Response:  # type: ignore[override]
        self.authorize("get_member")
        balancer_pools.get_pool(request.context, pool_id)
        return self.listed(request, _within(parse_query(request), pool_id))

    def post(self, request: ApiRequest, pool_id: str) -> Response:  # type: ignore[override]
        self.authorize("create_member")
        balancer_pools.get_pool(request.context, pool_id)
        given = validate(request.data, self.resource.creation_body)["member"]
        wanted = representations.wanted_member({**given, "pool_id": pool_id}, request.context)
        return self.one(request, balancer_members.create_member(request.context, wanted), status=201)


class MemberItem(Item):
    """/v2.0/lbaas/pools/{pool}/members/{id}."""

    resource = resources.MEMBERS

    def get(self, request: ApiRequest, pool_id: str, item_id: str) -> Response:  # type: ignore[override]
        self.authorize("get_member")
        balancer_members.require_in(request.context, pool_id, item_id)
        return super().get(request, item_id)

    def put(self, request: ApiRequest, pool_id: str, item_id: str) -> Response:  # type: ignore[override]
        self.authorize("update_member")
        balancer_members.require_in(request.context, pool_id, item_id)
        return super().put(request, item_id)

    def delete(self, request: ApiRequest, pool_id: str, item_id: str) -> Response:  # type: ignore[override]
        self.authorize("delete_member")
        balancer_members.require_in(request.context, pool_id, item_id)
        return super().delete(request, item_id)


class Providers(BalancerView):
    """/v2.0/lbaas/providers: the only provider."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("get_provider")
        return Response({"providers": [{"name": load_balancers.PROVIDER, "description": "The load balancer of OVN."}]})


class Quotas(BalancerView):
    """/v2.0/lbaas/quotas: projects with limits of their own."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("list_quotas")
        found = quotas.list_set().items()
        return Response({"quotas": [_limits(limits, project_id) for project_id, limits in found]})


class Defaults(BalancerView):
    """/v2.0/lbaas/quotas/defaults."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("get_quota")
        return Response({"quota": _limits(quotas.defaults(), "")})


class BalancerQuota(BalancerView):
    """/v2.0/lbaas/quotas/{project}."""

    def get(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("get_quota", target_project_id=project_id)
        return Response({"quota": _limits(quotas.limits(checked_project(project_id)), project_id)})

    def put(self, request: ApiRequest, project_id: str) -> Response:
        """Set limits; null is the default one."""
        self.authorize("update_quota", target_project_id=project_id)
        checked_project(project_id)
        given = validate(request.data, QUOTA)["quota"]
        everybodys = quotas.defaults()
        wanted = {ours: everybodys[ours] if given[name] is None else given[name]
                  for name, ours in QUOTAS.items() if name in given}  # fmt: skip
        network_quotas.update(request.context, project_id, wanted, is_checked=False)
        return Response({"quota": _limits(quotas.limits(project_id), project_id)}, status=202)

    def delete(self, request: ApiRequest, project_id: str) -> Response:
        """Reset the limits of these resources to the defaults."""
        self.authorize("delete_quota", target_project_id=project_id)
        checked_project(project_id)
        network_quotas.reset(project_id, QUOTAS.values())
        return Response(status=204)


def _limits(limits: Mapping[str, int], project_id: str) -> dict[str, Any]:
    shown = {name: limits[ours] for name, ours in QUOTAS.items()}
    return {**shown, **({"project_id": project_id} if project_id else {})}


def _within(query: NetworkListQuery, pool_id: str) -> NetworkListQuery:
    return replace(query, filters={**query.filters, "pool_id": [pool_id]})
