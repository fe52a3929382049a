"""Routes of the image API, below /image."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from portal.api.image.views import image_data, images, members, metadefs, schemas, versions

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
    path("v2/images/<str:image_id>/stage", image_data.StagedData.as_view()),
    path("v2/images/<str:image_id>/import", images.Import.as_view()),
    *(
        path(f"v2/images/<str:image_id>/actions/{verb}", images.Action.as_view(verb=verb))
        for verb in ("deactivate", "reactivate")
    ),
    path("v2/tasks", images.AllTasks.as_view()),
    path("v2/tasks/<str:task_id>", images.Task.as_view()),
    path("v2/metadefs/resource_types", metadefs.ResourceTypes.as_view()),
    path("v2/metadefs/namespaces", metadefs.Namespaces.as_view()),
    path("v2/metadefs/namespaces/<str:namespace>", metadefs.NamespaceByName.as_view()),
    *(
        path(f"v2/metadefs/namespaces/<str:namespace>/{noun}", metadefs.Definitions.as_view(kind=kind))
        for kind, noun in metadefs.NOUNS.items()
    ),
    *(
        path(f"v2/metadefs/namespaces/<str:namespace>/{noun}/<str:name>", metadefs.DefinitionByName.as_view(kind=kind))
        for kind, noun in metadefs.NOUNS.items()
    ),
    path("v2/schemas/metadefs/<str:name>", schemas.CatalogSchemaDocument.as_view()),
    path("v2/info/stores", schemas.Stores.as_view()),
    path("v2/info/usage", schemas.Usage.as_view()),
    path("v2/schemas/<str:name>", schemas.SchemaDocument.as_view()),
    path("v2/info/import", schemas.ImportInfo.as_view()),
]
