"""Volume types: extra specs, access and encryption."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from rest_framework.response import Response

from conductor.core.errors import Invalid, NotFound
from conductor.volume import types
from conductor.volume.models import VolumeType
from conductor.volume.types import TypeQuery
from portal.api.base import ApiRequest
from portal.api.validation import as_boolean, validate
from portal.api.volume import listing
from portal.api.volume.representations import resources as serializers
from portal.api.volume.schemas import resources as schemas
from portal.api.volume.view import VolumeView
from portal.api.volume.views.volumes import pairs

SPECS = "volume_extension:types_extra_specs"
ACCESS = "volume_extension:volume_type_access"
ENCRYPTION = "volume_extension:volume_type_encryption"


class TypeView(VolumeView):
    """Base of the views of types."""

    def shown(self, row: VolumeType) -> dict[str, Any]:
        return serializers.volume_type(row, is_admin=self.may(f"{SPECS}:read_sensitive"))

    def specs(self, row: VolumeType) -> dict[str, str]:
        everything: dict[str, str] = row.extra_specs
        return everything if self.may(f"{SPECS}:read_sensitive") else serializers.user_visible(everything)


class Types(TypeView):
    """/v3/types."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("volume_extension:type_get_all")
        requested, given = listing.parse(request), request.query_params
        by_specs = request.microversion.covers("3.52") and "extra_specs" in given
        query = TypeQuery(
            is_public=_is_public(given.get("is_public"), self.may("volume_extension:type_create")),
            name=given.get("name"),
            extra_specs=pairs(given["extra_specs"], "extra_specs") if by_specs else {},
            **requested.fields,
        )
        found = types.list_visible(request.context, query)
        return Response(listing.answer(request, "volume_types", found, requested, self.shown))

    def post(self, request: ApiRequest) -> Response:
        self.authorize("volume_extension:type_create")
        given = validate(request.data, schemas.CREATE_TYPE)["volume_type"]
        public = given.get("os-volume-type-access:is_public", given.get("is_public", True))
        made = types.create(
            {
                "name": given["name"].strip(),
                "description": given.get("description"),
                "is_public": as_boolean(public, "volume_type.os-volume-type-access:is_public"),
                "extra_specs": _texts(given.get("extra_specs", {})),
            }
        )
        shown = self.shown(made)
        shown.pop("qos_specs_id", None)
        return Response({"volume_type": shown}, status=200)


class TypeById(TypeView):
    """/v3/types/{id}; `default` is the default type."""

    def get(self, request: ApiRequest, type_id: str) -> Response:
        self.authorize("volume_extension:type_get")
        row = types.default() if type_id == "default" else types.get_visible(request.context, type_id)
        return Response({"volume_type": self.shown(row)})

    def put(self, request: ApiRequest, type_id: str) -> Response:
        self.authorize("volume_extension:type_update")
        given = validate(request.data, schemas.UPDATE_TYPE)["volume_type"]
        if not any(given.get(name) is not None for name in ("name", "description", "is_public")):
            raise Invalid("Specify volume type name, description, is_public or a combination thereof.")
        values: dict[str, Any] = {name: given[name] for name in ("name", "description") if given.get(name) is not None}
        if "is_public" in given:
            values["is_public"] = as_boolean(given["is_public"], "volume_type.is_public")
        shown = self.shown(types.update(request.context, type_id, values))
        for name in ("os-volume-type-access:is_public", "qos_specs_id"):
            shown.pop(name, None)
        return Response({"volume_type": shown})

    def delete(self, request: ApiRequest, type_id: str) -> Response:
        self.authorize("volume_extension:type_delete")
        types.delete(request.context, type_id)
        return Response(status=202)


class ExtraSpecs(TypeView):
    """/v3/types/{id}/extra_specs."""

    def get(self, request: ApiRequest, type_id: str) -> Response:
        self.authorize(f"{SPECS}:index")
        return Response({"extra_specs": self.specs(types.get_visible(request.context, type_id))})

    def post(self, request: ApiRequest, type_id: str) -> Response:
        self.authorize(f"{SPECS}:create")
        types.get_visible(request.context, type_id)
        given = _texts(validate(request.data, schemas.EXTRA_SPECS)["extra_specs"])
        types.set_specs(request.context, type_id, given)
        return Response({"extra_specs": given})


class ExtraSpec(TypeView):
    """/v3/types/{id}/extra_specs/{key}."""

    def get(self, request: ApiRequest, type_id: str, key: str) -> Response:
        self.authorize(f"{SPECS}:show")
        found = self.specs(types.get_visible(request.context, type_id))
        if key not in found:
            raise NotFound(f"Volume Type {type_id} has no extra specs with key {key[:60]}.")
        return Response({key: found[key]})

    def put(self, request: ApiRequest, type_id: str, key: str) -> Response:
        self.authorize(f"{SPECS}:update")
        types.get_visible(request.context, type_id)
        given = _texts(validate(request.data, schemas.ONE_SPEC))
        if key not in given:
            raise Invalid("Request body and URI mismatch: the key in the body is not the one in the path.")
        types.set_specs(request.context, type_id, given)
        return Response(given)

    def delete(self, request: ApiRequest, type_id: str, key: str) -> Response:
        self.authorize(f"{SPECS}:delete")
        types.remove_spec(request.context, type_id, key)
        return Response(status=202)


class TypeAccess(TypeView):
    """/v3/types/{id}/os-volume-type-access."""

    def get(self, request: ApiRequest, type_id: str) -> Response:
        self.authorize(f"{ACCESS}:get_all_for_type")
        row = types.get_visible(request.context, type_id)
        found = types.accesses(request.context, type_id)
        shown = [{"volume_type_id": str(row.uuid), "project_id": access.project_id} for access in found]
        return Response({"volume_type_access": shown})


class TypeAction(TypeView):
    """/v3/types/{id}/action."""

    def post(self, request: ApiRequest, type_id: str) -> Response:
        body = request.data
        if isinstance(body, dict) and "removeProjectAccess" in body:
            self.authorize(f"{ACCESS}:removeProjectAccess")
            project_id = validate(body, schemas.REMOVE_ACCESS)["removeProjectAccess"]["project"]
            types.refuse(request.context, type_id, project_id)
        else:
            self.authorize(f"{ACCESS}:addProjectAccess")
            project_id = validate(body, schemas.ADD_ACCESS)["addProjectAccess"]["project"]
            types.allow(request.context, type_id, project_id)
        return Response(status=202)


class Encryption(TypeView):
    """/v3/types/{id}/encryption. It is stored, but such a type cannot be used: the storage encrypts nothing."""

    def get(self, request: ApiRequest, type_id: str) -> Response:
        self.authorize(f"{ENCRYPTION}:get")
        return Response(serializers.encryption(types.get_visible(request.context, type_id)))

    def post(self, request: ApiRequest, type_id: str) -> Response:
        self.authorize(f"{ENCRYPTION}:create")
        row = types.get_visible(request.context, type_id)
        given = _plain(validate(request.data, schemas.CREATE_ENCRYPTION)["encryption"])
        if row.encryption:
            raise Invalid(f"Volume type {row.uuid} has an encryption already: change or delete it.")
        wanted = {"cipher": None, "key_size": None, **given, "encryption_id": str(uuid4())}
        types.set_encryption(request.context, type_id, wanted)
        return Response({"encryption": {**wanted, "volume_type_id": str(row.uuid)}})


class EncryptionById(TypeView):
    """/v3/types/{id}/encryption/{encryption id}; as a key of it for GET."""

    def get(self, request: ApiRequest, type_id: str, encryption_id: str) -> Response:
        self.authorize(f"{ENCRYPTION}:get")
        found = serializers.encryption(types.get_visible(request.context, type_id))
        if encryption_id not in found:
            raise NotFound(f"Volume type {type_id} has no encryption with key {encryption_id[:60]}.")
        return Response({encryption_id: found[encryption_id]})

    def put(self, request: ApiRequest, type_id: str, encryption_id: str) -> Response:
        self.authorize(f"{ENCRYPTION}:update")
        row = self._with(type_id, encryption_id)
        given = _plain(validate(request.data, schemas.UPDATE_ENCRYPTION)["encryption"])
        if not given:
            raise Invalid("Invalid input for field/attribute encryption. At least one property is needed.")
        types.set_encryption(request.context, type_id, {**(row.encryption or {}), **given})
        return Response({"encryption": given})

    def delete(self, request: ApiRequest, type_id: str, encryption_id: str) -> Response:
        self.authorize(f"{ENCRYPTION}:delete")
        self._with(type_id, encryption_id)
        types.set_encryption(request.context, type_id, None)
        return Response(status=202)

    def _with(self, type_id: str, encryption_id: str) -> VolumeType:
        row = types.get_visible(self.request.context, type_id)
        if (row.encryption or {}).get("encryption_id") != encryption_id:
            raise NotFound(f"Volume type encryption for type {type_id} does not exist.")
        return row


def _is_public(word: str | None, is_admin: bool) -> bool | None:
    """Return the filter for public types; only administrators may change it. None selects all."""
    if not is_admin or word is None:
        return True
    return None if word.strip().lower() in ("none", "") else as_boolean(word, "is_public")


def _texts(specs: Any) -> dict[str, str]:
    return {name: value or "" for name, value in specs.items()}


def _plain(given: Any) -> dict[str, Any]:
    return {name: int(value) if name == "key_size" and value is not None else value for name, value in given.items()}
