"""Values of actions on addresses."""

from __future__ import annotations

from portal.api.schema_parts import Schema, closed

_ADDRESS: Schema = {"type": "string", "format": "ip"}
ADD_FIXED_IP = closed({"networkId": {"type": "string", "minLength": 1, "maxLength": 255}}, required=("networkId",))
ADD_FLOATING_IP = closed({"address": _ADDRESS, "fixed_address": _ADDRESS}, required=("address",))
REMOVE_FLOATING_IP = closed({"address": _ADDRESS}, required=("address",))
REMOVE_FIXED_IP = closed({"address": _ADDRESS}, required=("address",))
