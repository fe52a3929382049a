"""Routes of the identity API, below /identity."""

from __future__ import annotations

from itertools import product

from django.urls import URLPattern, URLResolver, path

from portal.api.identity.views import (
    application_credentials,
    auth,
    credentials,
    domain_config,
    domains,
    endpoint_filters,
    grants,
    groups,
    limits,
    policies,
    projects,
    roles,
    services,
    trusts,
    users,
    versions,
)

_ACTORS = ("users/<str:user_id>", "groups/<str:group_id>")
_TARGETS = ("projects/<str:project_id>", "domains/<str:domain_id>")


def _grants() -> list[URLPattern]:
    """Return every target with every actor: direct grants, and grants that projects below inherit."""
    patterns = []
    for target, actor in product((*_TARGETS, "system"), _ACTORS):
        plain = f"v3/{target}/{actor}/roles"
        patterns += [
            path(plain, grants.Grants.as_view()),
            path(f"{plain}/<str:role_id>", grants.Grant.as_view()),
        ]
    for target, actor in product(_TARGETS, _ACTORS):
        inherited = f"v3/OS-INHERIT/{target}/{actor}/roles"
        patterns += [
            path(f"{inherited}/inherited_to_projects", grants.InheritedGrants.as_view()),
            path(f"{inherited}/<str:role_id>/inherited_to_projects", grants.InheritedGrant.as_view()),
        ]
    return patterns


def _nothing(noun: str, name: str) -> list[URLPattern]:
    """Routes of a collection that this cloud does not have."""
    return [
        path(f"v3/{noun}", policies.Nothing.as_view(name=noun.partition("/")[2])),
        path(f"v3/{noun}/<str:ref>", policies.NothingById.as_view(name=name)),
    ]


def _domain_config() -> list[URLPattern]:
    """Return the routes of domain configuration, those of the defaults first: their paths overlap with domain ids."""
    default, own = "v3/domains/config", "v3/domains/<str:domain_id>/config"
    parts = ("", "/<str:group>", "/<str:group>/<str:option>")
    return [
        *(path(f"{default}{part}/default", domain_config.DefaultConfig.as_view()) for part in parts),
        path(own, domain_config.WholeDomainConfig.as_view()),
        *(path(f"{own}{part}", domain_config.DomainConfig.as_view()) for part in parts[1:]),
    ]


_PROJECT, _USER, _GROUP = "v3/projects/<str:project_id>", "v3/users/<str:user_id>", "v3/groups/<str:group_id>"
_FILTER = "v3/OS-EP-FILTER"
_ENDPOINT_GROUP = f"{_FILTER}/endpoint_groups/<str:group_id>"
_ROLE, _TRUST = "v3/roles/<str:role_id>", "v3/OS-TRUST/trusts/<str:trust_id>"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", versions.Root.as_view()),
    path("v3", versions.V3.as_view()),
    path("v3/", versions.V3.as_view()),
    path("v3/auth/tokens", auth.Tokens.as_view()),
    path("v3/auth/catalog", auth.AuthCatalog.as_view()),
    path("v3/auth/projects", auth.AuthProjects.as_view()),
    path("v3/auth/domains", auth.AuthDomains.as_view()),
    path("v3/auth/system", auth.AuthSystem.as_view()),
    path("v3/domains", domains.Domains.as_view()),
    path("v3/domains/<str:domain_id>", domains.Domain.as_view()),
    *_domain_config(),
    path("v3/projects", projects.Projects.as_view()),
    path(_PROJECT, projects.Project.as_view()),
    path(f"{_PROJECT}/cascade", projects.ProjectCascade.as_view()),
    path(f"{_PROJECT}/tags", projects.ProjectTags.as_view()),
    path(f"{_PROJECT}/tags/<str:tag>", projects.ProjectTag.as_view()),
    path("v3/users", users.Users.as_view()),
    path(_USER, users.User.as_view()),
    path(f"{_USER}/password", users.UserPassword.as_view()),
    path(f"{_USER}/projects", users.UserProjects.as_view()),
    path(f"{_USER}/groups", users.UserGroups.as_view()),
    path(f"{_USER}/application_credentials", application_credentials.ApplicationCredentials.as_view()),
    path(
        f"{_USER}/application_credentials/<str:credential_id>", application_credentials.ApplicationCredential.as_view()
    ),
    path(f"{_USER}/access_rules", application_credentials.AccessRules.as_view()),
    path(f"{_USER}/access_rules/<str:rule_id>", application_credentials.AccessRule.as_view()),
    path(f"{_USER}/credentials/OS-EC2", credentials.Ec2Credentials.as_view()),
    path(f"{_USER}/credentials/OS-EC2/<str:access>", credentials.Ec2Credential.as_view()),
    path("v3/groups", groups.Groups.as_view()),
    path(_GROUP, groups.Group.as_view()),
    path(f"{_GROUP}/users", groups.GroupUsers.as_view()),
    path(f"{_GROUP}/users/<str:user_id>", groups.GroupUser.as_view()),
    path("v3/roles", roles.Roles.as_view()),
    path(_ROLE, roles.Role.as_view()),
    path(f"{_ROLE}/implies", roles.ImpliedRoles.as_view()),
    path(f"{_ROLE}/implies/<str:implied_id>", roles.ImpliedRole.as_view()),
    path("v3/role_inferences", roles.RoleInferences.as_view()),
    path("v3/role_assignments", grants.RoleAssignments.as_view()),
    *_grants(),
    path("v3/services", services.Services.as_view()),
    path("v3/services/<str:service_id>", services.Service.as_view()),
    path("v3/endpoints", services.Endpoints.as_view()),
    path("v3/endpoints/<str:endpoint_id>", services.Endpoint.as_view()),
    path("v3/regions", services.Regions.as_view()),
    path("v3/regions/<str:region_id>", services.Region.as_view()),
    path(f"{_FILTER}/endpoint_groups", endpoint_filters.EndpointGroups.as_view()),
    path(_ENDPOINT_GROUP, endpoint_filters.EndpointGroup.as_view()),
    path(f"{_ENDPOINT_GROUP}/endpoints", endpoint_filters.GroupEndpoints.as_view()),
    path(f"{_ENDPOINT_GROUP}/projects", endpoint_filters.GroupProjects.as_view()),
    path(f"{_ENDPOINT_GROUP}/projects/<str:project_id>", endpoint_filters.GroupProject.as_view()),
    path(f"{_FILTER}/projects/<str:project_id>/endpoint_groups", endpoint_filters.ProjectEndpointGroups.as_view()),
    path(f"{_FILTER}/projects/<str:project_id>/endpoints", endpoint_filters.ProjectEndpoints.as_view()),
    path(
        f"{_FILTER}/projects/<str:project_id>/endpoints/<str:endpoint_id>", endpoint_filters.ProjectEndpoint.as_view()
    ),
    path(f"{_FILTER}/endpoints/<str:endpoint_id>/projects", endpoint_filters.EndpointProjects.as_view()),
    path("v3/policies", policies.Policies.as_view()),
    path("v3/policies/<str:policy_id>", policies.Policy.as_view()),
    *_nothing("OS-FEDERATION/identity_providers", "identity provider"),
    *_nothing("OS-FEDERATION/mappings", "mapping"),
    *_nothing("OS-FEDERATION/service_providers", "service provider"),
    path("v3/OS-FEDERATION/projects", auth.AuthProjects.as_view()),
    path("v3/OS-FEDERATION/domains", auth.AuthDomains.as_view()),
    path("v3/credentials", credentials.Credentials.as_view()),
    path("v3/credentials/<str:credential_id>", credentials.Credential.as_view()),
    path("v3/OS-TRUST/trusts", trusts.Trusts.as_view()),
    path("v3/OS-TRUST/trusts/", trusts.Trusts.as_view()),  # some clients list with a trailing slash
    path(_TRUST, trusts.Trust.as_view()),
    path(f"{_TRUST}/roles", trusts.TrustRoles.as_view()),
    path(f"{_TRUST}/roles/<str:role_id>", trusts.TrustRole.as_view()),
    path("v3/registered_limits", limits.RegisteredLimits.as_view()),
    path("v3/registered_limits/<str:limit_id>", limits.RegisteredLimit.as_view()),
    path("v3/limits", limits.Limits.as_view()),
    path("v3/limits/model", limits.LimitModel.as_view()),
    path("v3/limits/<str:limit_id>", limits.Limit.as_view()),
]
