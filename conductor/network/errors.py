"""Errors of networks: the class names are the fault types of the Network API."""

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


class DeviceNotFound(errors.NotFound):
    """The server that a port names as its device could not be found."""


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


class AddressScopeNotFound(errors.NotFound):
    """The address scope could not be found."""


class RouterNotFound(errors.NotFound):
    """The router could not be found."""


class RouterInterfaceNotFound(errors.NotFound):
    """The router has no such interface."""


class RouterInterfaceNotFoundForSubnet(errors.NotFound):
    """The router has no interface on the subnet."""


class FloatingIPNotFound(errors.NotFound):
    """The floating IP could not be found."""


class ExternalGatewayForFloatingIPNotFound(errors.NotFound):
    """No router leads from the port to the external network."""


class RbacPolicyNotFound(errors.NotFound):
    """The RBAC policy could not be found."""


class TagNotFound(errors.NotFound):
    """The resource has no such tag."""


class AvailabilityZoneNotFound(errors.NotFound):
    """The availability zone could not be found."""


class TenantQuotaNotFound(errors.NotFound):
    """The project has the default quotas."""


class InvalidRoutes(errors.Invalid):
    """A route does not fit the router."""


class AutoAllocationFailure(errors.Invalid):
    """No network can be made for the project."""


class InvalidQuotaValue(errors.Conflict):
    """The project has more than the limit would allow."""


class AddressScopeInUse(errors.Conflict):
    """Subnet pools use the address scope."""


class SubnetPoolInUse(errors.Conflict):
    """Subnets are cut from the subnet pool."""


class DeviceIDNotOwnedByTenant(errors.Conflict):
    """The device that a port names is a router or a floating IP of another project."""


class ServicePortInUse(errors.Conflict):
    """The port belongs to a router or a floating IP."""


class GatewayIpInUse(errors.Conflict):
    """A router uses the gateway's address."""


class RouterInUse(errors.Conflict):
    """The router has interfaces."""


class RouterInterfaceInUseByFloatingIP(errors.Conflict):
    """Floating IPs go through the interface."""


class RouterInterfaceInUseByRoute(errors.Conflict):
    """Routes go through the interface."""


class RouterExternalGatewayInUseByFloatingIp(errors.Conflict):
    """Floating IPs go through the gateway."""


class SubnetMismatchForPort(errors.Conflict):
    """The port is not on the subnet."""


class FloatingIPPortAlreadyAssociated(errors.Conflict):
    """The port's address has a floating IP already."""


class QosPolicyNotFound(errors.NotFound):
    """The QoS policy could not be found."""


class QosRuleNotFound(errors.NotFound):
    """The rule of a QoS policy could not be found."""


class QosRuleNotSupported(errors.Invalid):
    """There are no rules of this type."""


class QosPolicyInUse(errors.Conflict):
    """Ports or networks have the QoS policy."""


class QosRulesConflict(errors.Conflict):
    """The QoS policy has a rule for this direction."""


class RbacPolicyInUse(errors.Conflict):
    """Others use what the policy shares."""


class DuplicateRbacPolicy(errors.Conflict):
    """There is such an RBAC policy."""


class SegmentInUse(errors.Conflict):
    """Another network lies on this segment."""


class PortSecurityAndIPRequiredForSecurityGroups(errors.Invalid):
    """Security groups need port security."""


class AddressPairAndPortSecurityRequired(errors.Conflict):
    """Address pairs need port security."""


class PortSecurityPortHasSecurityGroup(errors.Conflict):
    """Ports with security groups need port security."""


class SubnetShareExceeded(IpAddressGenerationFailure):
    """The project has its share of a subnet of another project."""


class OverQuota(errors.QuotaExceeded):
    """The project has as many as it may have."""


class RevisionNumberConstraintFailed(errors.StaleRevision):
    """The resource has another revision."""


class InvalidSharedSetting(errors.Conflict):
    """Other projects use what is shared."""


class SubnetPoolQuotaExceeded(errors.QuotaExceeded):
    """The project has as many addresses of the pool as it may have."""


class AddressPairsExhausted(errors.Invalid):
    """There are too many address pairs."""


class DuplicateAddressPairInRequest(errors.Invalid):
    """An address pair is there twice."""


class LoadBalancerNotFound(errors.NotFound):
    """The load balancer could not be found."""


class LoadBalancerHasChildren(errors.Invalid):
    """The load balancer has listeners or pools."""


class ListenerNotFound(errors.NotFound):
    """The listener could not be found."""


class PoolNotFound(errors.NotFound):
    """The pool could not be found."""


class MemberNotFound(errors.NotFound):
    """The member could not be found."""


class HealthMonitorNotFound(errors.NotFound):
    """The health monitor could not be found."""


class DuplicateListener(errors.Conflict):
    """The load balancer has a listener at this port."""


class DuplicateMember(errors.Conflict):
    """The pool has a member with this address and port."""


class DuplicateHealthMonitor(errors.Conflict):
    """The pool has a health monitor."""
