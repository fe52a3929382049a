"""Who there is, what they may, and where services answer."""

from conductor.identity.models.catalog import (
    DomainOption,
    Endpoint,
    EndpointGroup,
    Limit,
    Policy,
    ProjectEndpoint,
    Region,
    RegisteredLimit,
    Service,
)
from conductor.identity.models.ids import new_id
from conductor.identity.models.oauth import AccessToken, Consumer, Nonce, RequestToken
from conductor.identity.models.people import Domain, Group, Membership, Project, ProjectTag, User, UserManager
from conductor.identity.models.provider_account import ProvidedRole, ProviderAccount
from conductor.identity.models.role import ImpliedRole, Role, RoleAssignment
from conductor.identity.models.second_factor import RecoveryCode, SecondFactor
from conductor.identity.models.sign_in_record import SignInRecord
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
    "AccessToken",
    "ApplicationCredential",
    "Consumer",
    "Credential",
    "Domain",
    "DomainOption",
    "Endpoint",
    "EndpointGroup",
    "Group",
    "ImpliedRole",
    "Limit",
    "Membership",
    "Nonce",
    "Policy",
    "Project",
    "ProjectEndpoint",
    "ProjectTag",
    "ProvidedRole",
    "ProviderAccount",
    "RecoveryCode",
    "Region",
    "RegisteredLimit",
    "RequestToken",
    "RightsVersion",
    "Role",
    "RoleAssignment",
    "SecondFactor",
    "Service",
    "SignInRecord",
    "Token",
    "Trust",
    "User",
    "UserManager",
    "new_id",
]
