"""Volume transfers between projects: /v3/os-volume-transfer, from 3.55 on /v3/volume-transfers as well."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.services.volumes import volumes
from conductor.volume import transfers
from conductor.volume.models import Transfer
from conductor.volume.transfers import TransferQuery
from portal.api.base import ApiRequest
from portal.api.microversions import require
from portal.api.validation import as_boolean, validate
from portal.api.volume import listing
from portal.api.volume.representations import resources as serializers
from portal.api.volume.schemas import resources as schemas
from portal.api.volume.view import VolumeView

FILTERS = ("name", "volume_id", "id")


class TransferView(VolumeView):
    """Base of transfer views; the newer route exists from 3.55 on."""

    is_newer = False

    def initial(self, request: ApiRequest, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        super().initial(request, *args, **kwargs)
        if self.is_newer:
            require(request.microversion, "3.55")


class Transfers(TransferView):
    """The collection; with `is_detailed`, /detail below it."""

    is_detailed = False

    def get(self, request: ApiRequest) -> Response:
        self.authorize("volume:get_all_transfers")
        requested, given = listing.parse(request), request.query_params
        query = TransferQuery(
            filters={name: given[name] for name in FILTERS if name in given},
            all_projects=listing.all_projects(request, is_allowed=self.may("volume:get_all:all_projects")),
            **requested.fields,
        )
        found = transfers.list_visible(request.context, query)
        return Response(listing.answer(request, "transfers", found, requested, self._one))

    def post(self, request: ApiRequest) -> Response:
        self.authorize("volume:create_transfer")
        knows = request.microversion.covers("3.55")
        schema = schemas.CREATE_TRANSFER_355 if knows else schemas.CREATE_TRANSFER
        given = validate(request.data, schema)["transfer"]
        without = as_boolean(given.get("no_snapshots", False), "transfer.no_snapshots")
        name = given.get("name")
        row, key = volumes.create_transfer(
            request.context, given["volume_id"], name.strip() if name else name, with_snapshots=not without
        )
        return Response({"transfer": {**serializers.transfer(row, request), "auth_key": key}}, status=202)

    def _one(self, row: Transfer) -> dict[str, Any]:
        return serializers.transfer(row, self.request, is_detailed=self.is_detailed)


class TransferById(TransferView):
    """One transfer."""

    def get(self, request: ApiRequest, transfer_id: str) -> Response:
        self.authorize("volume:get_transfer")
        row = transfers.get_visible(request.context, transfer_id)
        return Response({"transfer": serializers.transfer(row, request)})

    def delete(self, request: ApiRequest, transfer_id: str) -> Response:
        self.authorize("volume:delete_transfer")
        transfers.withdraw(request.context, transfer_id)
        return Response(status=202)


class Accept(TransferView):
    """/accept below one transfer."""

    def post(self, request: ApiRequest, transfer_id: str) -> Response:
        self.authorize("volume:accept_transfer")
        key = str(validate(request.data, schemas.ACCEPT_TRANSFER)["accept"]["auth_key"])
        row = volumes.accept_transfer(request.context, transfer_id, key)
        return Response({"transfer": serializers.transfer(row, request, is_detailed=False)}, status=202)
