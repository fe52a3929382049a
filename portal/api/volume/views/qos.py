"""QoS specs, and their associations with types."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.volume import qos
from conductor.volume.models import QosSpec
from portal.api.base import ApiRequest
from portal.api.validation import as_boolean, validate
from portal.api.volume import listing
from portal.api.volume.representations import resources as serializers
from portal.api.volume.representations.volumes import links
from portal.api.volume.schemas import resources as schemas
from portal.api.volume.view import VolumeView

RULE = "volume_extension:qos_specs_manage"
VERBS = ("associate", "disassociate", "disassociate_all")


class QosSpecs(VolumeView):
    """/v3/qos-specs."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize(f"{RULE}:get_all")
        requested = listing.parse(request)
        fields = {"sort": [("created_at", True)], **requested.fields}
        return Response(listing.answer(request, "qos_specs", qos.list_all(**fields), requested, serializers.qos))

    def post(self, request: ApiRequest) -> Response:
        self.authorize(f"{RULE}:create")
        given = dict(validate(request.data, schemas.CREATE_QOS)["qos_specs"])
        name, consumer = given.pop("name").strip(), given.pop("consumer", "back-end")
        return Response(_one(qos.create(name, consumer, given), request))


class QosSpecById(VolumeView):
    """/v3/qos-specs/{id}."""

    def get(self, request: ApiRequest, qos_id: str) -> Response:
        self.authorize(f"{RULE}:get")
        return Response(_one(qos.get(qos_id), request))

    def put(self, request: ApiRequest, qos_id: str) -> Response:
        self.authorize(f"{RULE}:update")
        qos.get(qos_id)
        given = validate(request.data, schemas.SET_QOS)["qos_specs"]
        qos.set_keys(qos_id, given)
        return Response({"qos_specs": given})

    def delete(self, request: ApiRequest, qos_id: str) -> Response:
        self.authorize(f"{RULE}:delete")
        qos.delete(qos_id, is_forced=as_boolean(request.query_params.get("force", False), "force"))
        return Response(status=202)


class DeleteKeys(VolumeView):
    """/v3/qos-specs/{id}/delete_keys."""

    def put(self, request: ApiRequest, qos_id: str) -> Response:
        self.authorize(f"{RULE}:update")
        qos.get(qos_id)
        qos.remove_keys(qos_id, validate(request.data, schemas.UNSET_QOS)["keys"])
        return Response(status=202)


class Associations(VolumeView):
    """/v3/qos-specs/{id}/associations."""

    def get(self, request: ApiRequest, qos_id: str) -> Response:
        self.authorize(f"{RULE}:get_all")
        shown = [
            {"association_type": "volume_type", "name": row.name, "id": str(row.uuid)} for row in qos.types_of(qos_id)
        ]
        return Response({"qos_associations": shown})


class Associate(VolumeView):
    """/v3/qos-specs/{id}/associate and /disassociate, with `vol_type_id`; /disassociate_all."""

    verb = "associate"

    def get(self, request: ApiRequest, qos_id: str) -> Response:
        self.authorize(f"{RULE}:update")
        if self.verb == "disassociate_all":
            qos.disassociate(request.context, qos_id)
            return Response(status=202)
        type_id = request.query_params.get("vol_type_id")
        if not type_id:
            raise Invalid("Volume Type id must not be None: name it as vol_type_id.", field="vol_type_id")
        (qos.associate if self.verb == "associate" else qos.disassociate)(request.context, qos_id, type_id)
        return Response(status=202)


def _one(row: QosSpec, request: ApiRequest) -> dict[str, Any]:
    return {"qos_specs": serializers.qos(row), "links": links(request, "qos-specs", str(row.uuid))}
