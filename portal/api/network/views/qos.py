"""Rules of QoS policies, and the types of rules that there are."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.core.errors import NotFound
from conductor.network import qos, qos_choice
from conductor.network.errors import QosRuleNotSupported
from portal.api.base import ApiRequest
from portal.api.network.representations import qos as qos_json
from portal.api.network.schemas import qos as bodies
from portal.api.network.view import NetworkView
from portal.api.validation import validate

_RULE = "policy_bandwidth_limit_rule"


class Limits(NetworkView):
    """/v2.0/qos/policies/{id}/bandwidth_limit_rules."""

    def get(self, request: ApiRequest, policy_id: str) -> Response:
        self.authorize(f"get_{_RULE}")
        limits = qos_choice.get_policy(request.context, policy_id).limits.order_by("pk")
        return Response({"bandwidth_limit_rules": [qos_json.limit(one) for one in limits]})

    def post(self, request: ApiRequest, policy_id: str) -> Response:
        self.authorize(f"create_{_RULE}")
        qos_choice.get_policy(request.context, policy_id)  # an unknown id is reported before an invalid body
        wanted = _wanted(request, bodies.CREATE_LIMIT)
        return Response(_shown(qos.create_limit(request.context, policy_id, wanted)), status=201)


class Limit(NetworkView):
    """/v2.0/qos/policies/{id}/bandwidth_limit_rules/{rule}."""

    def get(self, request: ApiRequest, policy_id: str, rule_id: str) -> Response:
        self.authorize(f"get_{_RULE}")
        return Response(_shown(qos.get_limit(request.context, policy_id, rule_id)))

    def put(self, request: ApiRequest, policy_id: str, rule_id: str) -> Response:
        self.authorize(f"update_{_RULE}")
        qos.get_limit(request.context, policy_id, rule_id)
        wanted = _wanted(request, bodies.UPDATE_LIMIT)
        return Response(_shown(qos.update_limit(request.context, policy_id, rule_id, wanted)))

    def delete(self, request: ApiRequest, policy_id: str, rule_id: str) -> Response:
        self.authorize(f"delete_{_RULE}")
        qos.delete_limit(request.context, policy_id, rule_id)
        return Response(status=204)


class OtherRules(NetworkView):
    """/v2.0/qos/policies/{id}/{kind}: rules of a type that there is not."""

    def get(self, request: ApiRequest, policy_id: str, kind: str, rule_id: str = "") -> Response:
        self.authorize("get_policy")
        qos_choice.get_policy(request.context, policy_id)
        if not kind.endswith("_rules"):
            raise NotFound("The resource could not be found.")
        raise QosRuleNotSupported(
            f"Rules of type {kind.removesuffix('_rules')[:60]} are not supported. Supported: "
            f"{', '.join(qos_json.RULE_TYPES)}."
        )

    post = put = delete = get


class RuleTypes(NetworkView):
    """/v2.0/qos/rule-types."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("get_rule_type")
        return Response({"rule_types": [{"type": kind} for kind in qos_json.RULE_TYPES]})


class RuleType(NetworkView):
    """/v2.0/qos/rule-types/{type}."""

    def get(self, request: ApiRequest, kind: str) -> Response:
        self.authorize("get_rule_type")
        if kind not in qos_json.RULE_TYPES:
            raise QosRuleNotSupported(f"Rules of type {kind[:60]} are not supported.")
        return Response({"rule_type": {"type": kind, "drivers": []}})


def _wanted(request: ApiRequest, schema: dict[str, Any]) -> dict[str, Any]:
    return qos_json.wanted_limit(validate(request.data, schema)["bandwidth_limit_rule"])


def _shown(limit: Any) -> dict[str, Any]:
    return {"bandwidth_limit_rule": qos_json.limit(limit)}
