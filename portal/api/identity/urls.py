"""Routes of the identity API, below /identity."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from portal.api.identity.views import auth, projects, roles, services, users, versions

urlpatterns: list[URLPattern | URLResolver] = [
    path("", versions.Root.as_view()),
    path("v3", versions.V3.as_view()),
    path("v3/", versions.V3.as_view()),
    path("v3/auth/tokens", auth.Tokens.as_view()),
    path("v3/auth/catalog", auth.AuthCatalog.as_view()),
    path("v3/auth/projects", auth.AuthProjects.as_view()),
    path("v3/auth/domains", auth.AuthDomains.as_view()),
    path("v3/domains", auth.Domains.as_view()),
    path("v3/domains/<str:domain_id>", auth.Domain.as_view()),
    path("v3/projects", projects.Projects.as_view()),
    path("v3/projects/<str:project_id>", projects.Project.as_view()),
    path("v3/projects/<str:project_id>/users/<str:user_id>/roles", roles.Grants.as_view()),
    path("v3/projects/<str:project_id>/users/<str:user_id>/roles/<str:role_id>", roles.Grant.as_view()),
    path("v3/users", users.Users.as_view()),
    path("v3/users/<str:user_id>", users.User.as_view()),
    path("v3/users/<str:user_id>/password", users.UserPassword.as_view()),
    path("v3/users/<str:user_id>/projects", users.UserProjects.as_view()),
    path("v3/roles", roles.Roles.as_view()),
    path("v3/roles/<str:role_id>", roles.Role.as_view()),
    path("v3/role_assignments", roles.RoleAssignments.as_view()),
    path("v3/services", services.Services.as_view()),
    path("v3/services/<str:service_id>", services.ServiceDetail.as_view()),
    path("v3/endpoints", services.Endpoints.as_view()),
    path("v3/endpoints/<str:endpoint_id>", services.EndpointDetail.as_view()),
    path("v3/regions", services.Regions.as_view()),
    path("v3/regions/<str:region_id>", services.RegionDetail.as_view()),
]
