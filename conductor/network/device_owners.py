"""Owners of ports: servers, and parts of the network service itself, as `device_owner` names them."""

from __future__ import annotations

COMPUTE = "compute:"  # of servers: followed by their availability zone
ROUTER_INTERFACE = "network:router_interface"
ROUTER_GATEWAY = "network:router_gateway"
FLOATING_IP = "network:floatingip"
# Ports of load balancers, as Octavia names them.
BALANCER_VIP = "Octavia"
BALANCER_MONITOR = "ovn-lb-hm:distributed"
