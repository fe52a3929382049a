"""What can go wrong with networks: the class names are the fault types of the Network API."""

from __future__ import annotations

from conductor.core import errors


class NetworkNotFound(errors.NotFound):
    """The network could not be found."""


class SubnetNotFound(errors.NotFound):
    """The subnet could not be found."""


class SubnetPoolNotFound(errors.NotFound):
    """The subnet pool could not be found."""


class PortNotFound(errors.NotFound):
    """The port could not be found."""


class SecurityGroupNotFound(errors.NotFound):
    """The security group could not be found."""


class SecurityGroupRuleNotFound(errors.NotFound):
    """The security group rule could not be found."""


class InvalidInput(errors.Invalid):
    """The request is not valid."""


class InvalidIpForSubnet(errors.Invalid):
    """The address does not belong to the subnet."""


class GatewayConflictWithAllocationPools(errors.Conflict):
    """The gateway lies in an allocation pool."""


class NetworkInUse(errors.Conflict):
    """The network has ports."""


class SubnetInUse(errors.Conflict):
    """Ports hold addresses of the subnet."""


class PortInUse(errors.Conflict):
    """A server uses the port."""


class MacAddressInUse(errors.Conflict):
    """Another port has this MAC address."""


class IpAddressAlreadyAllocated(errors.Conflict):
    """Another port holds the address."""


class IpAddressGenerationFailure(errors.Conflict):
    """No more addresses are free."""


class SecurityGroupInUse(errors.Conflict):
    """Ports use the security group."""


class SecurityGroupCannotRemoveDefault(errors.Conflict):
    """The default security group stays."""


class SecurityGroupRuleExists(errors.Conflict):
    """The security group has such a rule."""
