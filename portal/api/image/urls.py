"""Routes of the image API, below /image."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from portal.api.image.views import image_data, images, members, schemas, versions

urlpatterns: list[URLPattern | URLResolver] = [
    path("", versions.Root.as_view()),
    path("versions", versions.Versions.as_view()),
    path("v2", versions.Versions.as_view()),
    path("v2/", versions.Versions.as_view()),
    path("v2/images", images.Images.as_view()),
    path("v2/images/<str:image_id>", images.Image.as_view()),
    path("v2/images/<str:image_id>/file", image_data.ImageData.as_view()),
    path("v2/images/<str:image_id>/tags/<str:tag>", images.Tag.as_view()),
    path("v2/images/<str:image_id>/tasks", images.Tasks.as_view()),
    path("v2/images/<str:image_id>/members", members.Members.as_view()),
    path("v2/images/<str:image_id>/members/<str:project_id>", members.Member.as_view()),
    path("v2/schemas/<str:name>", schemas.SchemaDocument.as_view()),
    path("v2/info/import", schemas.ImportInfo.as_view()),
]
