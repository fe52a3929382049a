"""Image members: the projects that an image is shared with."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.image import members
from portal.api.base import ApiRequest
from portal.api.image.representations import images as serializers
from portal.api.image.schemas.images import ADD_MEMBER, UPDATE_MEMBER
from portal.api.image.view import ImageView
from portal.api.validation import validate


class Members(ImageView):
    """/v2/images/{id}/members."""

    def get(self, request: ApiRequest, image_id: str) -> Response:
        self.authorize("get_members")
        found = members.list_members(request.context, image_id)
        return Response({"members": [serializers.member(row) for row in found], "schema": "/v2/schemas/members"})

    def post(self, request: ApiRequest, image_id: str) -> Response:
        self.authorize("add_member")
        project_id = validate(request.data, ADD_MEMBER)["member"]
        return Response(serializers.member(members.create(request.context, image_id, project_id)))


class Member(ImageView):
    """/v2/images/{id}/members/{project}."""

    def get(self, request: ApiRequest, image_id: str, project_id: str) -> Response:
        self.authorize("get_members")
        return Response(serializers.member(members.get(request.context, image_id, project_id)))

    def put(self, request: ApiRequest, image_id: str, project_id: str) -> Response:
        self.authorize("modify_member")
        status = validate(request.data, UPDATE_MEMBER)["status"]
        return Response(serializers.member(members.decide(request.context, image_id, project_id, status)))

    def delete(self, request: ApiRequest, image_id: str, project_id: str) -> Response:
        self.authorize("delete_member")
        members.withdraw(request.context, image_id, project_id)
        return Response(status=204)
