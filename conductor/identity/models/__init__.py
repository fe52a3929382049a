"""Users, roles, tokens and the catalog of services."""

from conductor.identity.models.catalog import (
    DomainOption,
    Endpoint,
    EndpointGroup,
    Limit,
    Policy,
    ProjectEndpoint,
    Region,
    RegisteredLimit,
    RegisteredService,
)
from conductor.identity.models.ids import new_id
from conductor.identity.models.people import (
    Domain,
    Group,
    GroupMembership,
    Project,
    ProjectTag,
    RecoveryCode,
    SecondFactor,
    SignInRecord,
    User,
    UserManager,
)
from conductor.identity.models.provider_account import ProvidedRole, ProviderAccount
from conductor.identity.models.role import ImpliedRole, Role, RoleAssignment
from conductor.identity.models.token import (
    AccessRule,
    ApplicationCredential,
    Credential,
    RightsVersion,
    Token,
    Trust,
)

__all__ = [
    "AccessRule",
    "ApplicationCredential",
    "Credential",
    "Domain",
    "DomainOption",
    "Endpoint",
    "EndpointGroup",
    "Group",
    "GroupMembership",
    "ImpliedRole",
    "Limit",
    "Policy",
    "Project",
    "ProjectEndpoint",
    "ProjectTag",
    "ProvidedRole",
    "ProviderAccount",
    "RecoveryCode",
    "Region",
    "RegisteredLimit",
    "RegisteredService",
    "RightsVersion",
    "Role",
    "RoleAssignment",
    "SecondFactor",
    "SignInRecord",
    "Token",
    "Trust",
    "User",
    "UserManager",
    "new_id",
]
